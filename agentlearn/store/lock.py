"""The store's lock, which admits one process at a time, and the number of the last acknowledged commit.

DuckDB's own lock is a POSIX record lock, which is silently dropped when any code in the same process opens and closes
the database file; a second writer then loses acknowledged rows. Our lock is a `flock` on a separate file.
"""

import fcntl
import os
import struct
import weakref
from pathlib import Path
from socket import gethostname

from agentlearn.errors import StoreDamaged, StoreLocked

_held_locks: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()


class StoreLock:
    """The store's lock, held from construction to `release`. Raises StoreLocked, naming the process that has it."""

    def __init__(self, directory: Path) -> None:
        self._fd: int | None = os.open(directory / "store.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


class Watermark:
    """A file with the highest acknowledged commit number: eight bytes, little-endian.

    DuckDB opens a log with a damaged header as an empty one, without an error. The database then has fewer commits
    than were acknowledged, and only this number shows it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        """The stored number; 0 for a new store. Raises StoreDamaged."""
        stored = os.pread(self._fd, 16, 0)
        if not stored:
            return 0
        if len(stored) != 8:
            raise StoreDamaged(
                f"{str(self._path)!r} has {len(stored)} bytes instead of 8; copy the store's directory, then run"
                " `agentlearn store repair`"
            )
        return int(struct.unpack("<Q", stored)[0])

    def write(self, seq: int) -> None:
        """Store a higher number. Not synced to disk: it protects against a damaged log, not against a power failure."""
        os.pwrite(self._fd, struct.pack("<Q", seq), 0)

    def reset(self, seq: int) -> None:
        """Overwrite the file with this number. For a repair only, which reports what is lost."""
        os.ftruncate(self._fd, 0)
        self.write(seq)
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
