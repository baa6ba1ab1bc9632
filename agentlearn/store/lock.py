"""One process at a time: the store's lock, and the mark of how far its acknowledgements went.

DuckDB's own lock is a POSIX record lock, which any `open` and `close` of the database file in the same process drops
without a word; a second writer then loses acknowledged rows. Ours is a `flock` on a file that nobody else opens, held
as long as the store is open.
"""

import fcntl
import os
import struct
import weakref
from pathlib import Path
from socket import gethostname

from agentlearn.errors import StoreDamaged, StoreLocked

_held: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()


class StoreLock:
    """The store's lock, held from construction to `release`. Raises StoreLocked, naming who holds it."""

    def __init__(self, directory: Path) -> None:
        self._fd: int | None = os.open(directory / "store.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 256, 0).decode(errors="replace").strip()
            self.release()
            raise StoreLocked(
                f"the store {str(directory)!r} is held by process {holder or 'unknown'};"
                " wait for it or pass another --store DIR"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()} on {gethostname()}".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held.discard(self)


def _let_go_in_child() -> None:
    # A forked child shares the open file, and with it the lock, which would outlive the parent.
    for lock in tuple(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


class Watermark:
    """The highest acknowledged sequence number, beside the database in eight bytes (little-endian).

    A write-ahead log with a damaged head opens as an empty one, without an error. Then the database knows fewer commits
    than were acknowledged, and only this number tells.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self) -> int:
        """The number; 0 for a new store. Raises StoreDamaged."""
        stored = os.pread(self._fd, 16, 0)
        if not stored:
            return 0
        if len(stored) != 8:
            raise StoreDamaged(
                f"{str(self._path)!r} holds {len(stored)} bytes instead of 8; copy the store's directory, then put the"
                " file back from a backup"
            )
        return int(struct.unpack("<Q", stored)[0])

    def write(self, seq: int) -> None:
        """Raise the number. Not synced: it guards against a damaged log, not against a loss of power."""
        os.pwrite(self._fd, struct.pack("<Q", seq), 0)

    def reset(self, seq: int) -> None:
        """Make the file hold this number, whatever it held: for a repair, which has said what is lost."""
        os.ftruncate(self._fd, 0)
        self.write(seq)
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
