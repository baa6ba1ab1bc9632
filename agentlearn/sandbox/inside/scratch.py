"""Directories that sessions write in, and how they go away again."""

import secrets
from pathlib import Path


def remove_tree(top: Path) -> None:
    """Remove a directory and all in it, also what lies deeper than a path may be long. A missing one is fine.

    Nothing may be writing there any more. Links are removed, not followed.
    """
    prefix, moved = secrets.token_hex(8), 0
    if not top.exists():
        return
    while entries := list(top.iterdir()):
        for entry in entries:
            if not _openable(entry):
                entry.unlink()
                continue
            for inner in list(entry.iterdir()):
                _openable(inner)  # a directory that may not be written to may not be moved either
                moved += 1
                inner.rename(top / f"{prefix}-{moved}")
            entry.rmdir()
    top.rmdir()


def _openable(path: Path) -> bool:
    """Whether it is a directory; if so, it can be read and changed from now on."""
    if path.is_symlink() or not path.is_dir():
        return False
    path.chmod(0o700)
    return True
