"""The name of the account that makes a change."""

import getpass
import os


def account_name() -> str:
    """Return the name of this account, or its number when it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
