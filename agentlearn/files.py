"""Replace files atomically: readers see the old file or the new one, even after a power failure."""

import os
import shutil
from pathlib import Path


def put(draft: Path, file: Path) -> None:
    """Move a finished draft to `file`, replacing it; works across file systems. Raises OSError."""
    near = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        shutil.move(draft, near)
        sync(near)
        near.replace(file)
    except BaseException:
        near.unlink(missing_ok=True)
        raise
    sync(file.parent)


def write_whole(file: Path, content: bytes) -> None:
    """Write a file atomically, replacing an older one. Raises OSError."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        put(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of entries, to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
