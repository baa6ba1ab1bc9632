"""Files put in their place whole: others see the old one or the new one, also after a loss of power."""

import os
import shutil
from pathlib import Path


def put(draft: Path, file: Path) -> None:
    """Move a finished draft to its place, over what stands there; also from another file system. Raises OSError."""
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
    """Return when a file's content, or a folder's list of names, is on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
