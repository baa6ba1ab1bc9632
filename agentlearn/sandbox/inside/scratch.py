"""Remove the directories that sessions write to."""

import secrets
from pathlib import Path


def remove_tree(top: Path) -> None:
    """Remove a directory with everything in it, even below paths that are too long to open. Ignores a missing one.

    No process may still write to it. Links are removed, not followed.
    """
    prefix, moved = secrets.token_hex(8), 0
    if not top.exists():
        return
    while entries := list(top.iterdir()):
        for entry in entries:
            if not _opened_up(entry):
                entry.unlink()
                continue
            for inner in list(entry.iterdir()):
                _opened_up(inner)  # a read-only directory cannot be moved
                moved += 1
                inner.rename(top / f"{prefix}-{moved}")
            entry.rmdir()
    top.rmdir()


def _opened_up(path: Path) -> bool:
    """Make a directory readable and writable. Returns False for anything else, also for links."""
    if path.is_symlink() or not path.is_dir():
        return False
    path.chmod(0o700)
    return True
