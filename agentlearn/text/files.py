"""Files: read only what is a file, and replace it so that readers see the old one or the new one, never a part."""

import errno
import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe; write what it gives to a file first",
    stat.S_IFCHR: "a device; give a file",
    stat.S_IFBLK: "a device; give a file",
    stat.S_IFSOCK: "a socket; give a file",
}
_POINTER, _LARGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1024


def readable(path: Path) -> Path:
    """Return the path, unless reading there could wait or never end, or would not give what the file is about.

    Raises OSError for a pipe, device or socket, and for a pointer that Git LFS left in place of a file.
    """
    found = path.stat()
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if stat.S_ISREG(found.st_mode) and found.st_size < _LARGEST_POINTER and path.read_bytes().startswith(_POINTER):
        kind = "a Git LFS pointer and not the file itself; run git lfs pull in its repository"
    if kind is not None:
        raise OSError(errno.EINVAL, f"it is {kind}", str(path))
    return path


def refuse_links(root: Path) -> None:
    """Raise OSError where anything in a folder of ours is a symbolic link, a device or a pipe. Follows no link.

    Somebody else may have put it there, in a repository that was cloned, so that we write to what it names. root: the
    folder, which may itself be a link that a person made, and which need not exist.
    """
    for folder, folders, files in os.walk(root, followlinks=False):
        for name in (*folders, *files):  # a folder was looked at before what is in it
            _refuse_link(f"{folder}/{name}")


def own(path: Path, root: Path) -> Path:
    """Return a path in a folder of ours, unless it or a folder on the way to it is a symbolic link, a device or a pipe.

    root: the folder. The path need not exist. Raises OSError.
    """
    part = path
    while part != root:
        _refuse_link(part)
        if part == part.parent:
            break
        part = part.parent
    return path


def _refuse_link(part: Path | str) -> None:
    """Raise OSError for a symbolic link, a device or a pipe."""
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = os.lstat(part).st_mode
        if stat.S_ISLNK(mode) or (stat.S_IFMT(mode) in _KINDS and not stat.S_ISSOCK(mode)):
            what = f"a symbolic link to {str(Path(part).readlink())!r}" if stat.S_ISLNK(mode) else "a device or a pipe"
            raise OSError(
                errno.ELOOP,
                f"it is {what}, which nothing in a store may be; remove it, or put a file or a folder in its place",
                str(part),
            )


def own_folder(folder: Path, root: Path) -> Path:
    """Make a folder below `root`, and what is missing on the way, for this user alone; return it. Raises OSError."""
    own(folder, root)
    for part in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
        part.mkdir(mode=0o700, exist_ok=True)
    return folder


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


def write_whole(file: Path, content: bytes, *, private: bool = False) -> None:
    """Write a file atomically, replacing an older one, or a link of that name. Raises OSError.

    private: for this user alone, whatever the umask is.
    """
    draft = file.with_name(f".{file.name}.{os.getpid()}.draft")
    try:
        draft.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(draft, flags, 0o600 if private else 0o666), "wb") as stream:
            stream.write(content)
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
