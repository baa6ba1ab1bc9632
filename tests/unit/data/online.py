"""Modules that are not installed."""

import sys

import pytest


def absent(patch: pytest.MonkeyPatch, *modules: str) -> None:
    """As if these were not installed."""
    for name in modules:
        patch.setitem(sys.modules, name, None)
