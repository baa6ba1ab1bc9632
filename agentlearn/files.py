"""Files: read only what is a file, and replace it so that readers see the old one or the new one, never a part."""

import errno
import hashlib
import os
import shutil
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe; write what it gives to a file first",
    stat.S_IFCHR: "a device; give a file",
    stat.S_IFBLK: "a device; give a file",
    stat.S_IFSOCK: "a socket; give a file",
}


def readable(path: Path) -> Path:
    """Return the path, unless reading there could wait or never end. Raises OSError for a pipe, device or socket."""
    if (kind := _KINDS.get(stat.S_IFMT(path.stat().st_mode))) is not None:
        raise OSError(errno.EINVAL, f"it is {kind}", str(path))
    return path


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


def sha256_of(file: Path) -> str:
    """Return the sha256 of a file's content, in hexadecimal. Raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of entries, to disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
