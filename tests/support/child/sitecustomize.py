"""Install the loopback hook in each Python process that a test starts. conftest.py adds this folder to PYTHONPATH."""

import loopback_guard  # noqa: F401  the import installs the hook
