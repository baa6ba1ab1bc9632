"""Puts the loopback guard into every Python process that a test starts; conftest.py puts this folder on PYTHONPATH."""

import loopback_guard  # noqa: F401  importing it installs the guard
