"""The store's lock, which admits one process at a time to the database.

DuckDB's own lock is a POSIX record lock, which is silently dropped when any code in the same process opens and closes
the database file; a second writer then loses acknowledged rows. Our lock is a `flock` on a separate file.
"""

import fcntl
import os
import weakref
from pathlib import Path
from socket import gethostname

from agentlearn.errors import StoreLocked
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
