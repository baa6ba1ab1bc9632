"""The files of an open store: one process at a time uses them, no other takes their place, and they are private.

DuckDB's own lock is a POSIX record lock, which is silently dropped when any code in the same process opens and closes
the database file; a second writer then loses acknowledged rows. Our lock is a `flock` on a separate file.
"""

import fcntl
import os
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from socket import gethostname

from agentlearn.errors import StoreDamaged, StoreLocked
from agentlearn.files import own

LOCK = "store.lock"

_held_locks: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()


class StoreLock:
    """The store's lock, held from construction to `release`. Raises StoreLocked, naming the process that has it."""

    def __init__(self, directory: Path) -> None:
        self._fd: int | None = os.open(
            own(directory / LOCK, directory), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 256, 0).decode(errors="replace").strip()
            self.release()
            raise StoreLocked(
                f"the store {str(directory)!r} is in use by process {holder or 'unknown'};"
                " wait until it ends or pass another --store DIR"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()} on {gethostname()}".encode(), 0)
        _held_locks.add(self)

    @property
    def file_id(self) -> tuple[int, int]:
        """Device and inode of the open lock file."""
        status = os.fstat(self._fd or 0)
        return status.st_dev, status.st_ino

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held_locks.discard(self)


def _release_in_child() -> None:
    # A forked child shares the open file and so the lock, which would otherwise outlive the parent.
    for lock in tuple(_held_locks):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


FileId = tuple[int, int]
"""Device and inode of a file."""


class FileWatch:
    """Files that must stay what they were when they were added. Compared by device and inode; none is opened."""

    def __init__(self) -> None:
        self._seen: dict[Path, FileId | None] = {}

    def add(self, path: Path, identity: FileId | None = None) -> None:
        """Watch a file. identity: of the open file; without it, the file that the path names now."""
        self._seen[path] = identity or _file_id(path)

    def forget(self, path: Path) -> None:
        """Watch a file no longer."""
        self._seen.pop(path, None)

    def watches(self, path: Path) -> bool:
        """Whether a file is watched."""
        return path in self._seen

    def changed(self) -> Path | None:
        """The first watched file that is gone or is another file now; None if there is none."""
        return next((path for path, seen in self._seen.items() if seen is None or _file_id(path) != seen), None)

    def verify(self) -> None:
        """Raise StoreDamaged when a watched file is gone or is another file now."""
        if (path := self.changed()) is not None:
            what = "was replaced" if path.exists() else "was removed"
            raise StoreDamaged(
                f"{str(path)!r} {what} while the store was open; nothing is stored from here on. What was stored"
                f" before is in the files that are left: run `agentlearn store check --store {path.parent}`",
                code="store_files_changed",
            )


_OURS = (
    "store.*",
    "journal.sqlite*",
    "snapshots/*",
    "staging/*",
    "spill/*",
    "libraries",
    "libraries/*",
    "libraries/*/*",
    "reports",
    "reports/*",
)


def make_private(directory: Path) -> None:
    """Take access from other users: the folder 700, the store's files in it 600. Skips what another user owns."""
    restrict(directory, 0o700)
    for pattern in _OURS:
        for path in directory.glob(pattern):
            restrict(path, 0o700 if path.is_dir() else 0o600)


def restrict(path: Path, mode: int = 0o600) -> None:
    """Take other users' access to one file or folder, if it exists and belongs to this user."""
    with suppress(OSError):
        status = path.lstat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o077 and not path.is_symlink():
            path.chmod(mode)


def _file_id(path: Path) -> FileId | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - called several times per write; a Path's own method takes twice as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def missing(paths: Iterable[Path]) -> list[Path]:
    """The paths that name no file."""
    return [path for path in paths if not path.exists()]
