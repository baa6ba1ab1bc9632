"""Writing files so that readers see the old content or the new one, never a part, even after a power loss."""

import os
import shutil
from pathlib import Path


def put(draft: Path, file: Path) -> None:
    """Move a finished draft over `file` in one step; the two may be on different file systems. Raises OSError."""
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
    """Write a file in one step. Raises OSError."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content)
        put(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
