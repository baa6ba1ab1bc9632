"""The files that guard an open store: its lock, the watermark, and a watch over the others.

One process at a time uses a store, no other file takes the place of one of its files, and all of them are private. The
file `store.hwm`, the watermark, says what was acknowledged. It is kept outside the files that hold that: a damaged,
deleted or replaced file can look like an intact one with less in it, and only these numbers show the loss.

DuckDB's own lock is a POSIX record lock, which is silently dropped when any code in the same process opens and closes
the database file; a second writer then loses acknowledged rows. Our lock is a `flock` on a separate file.
"""

import fcntl
import os
import random
import struct
import time
import weakref
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname
from typing import NamedTuple

from agentlearn.errors import StoreDamaged, StoreError, StoreLocked, UnknownSchema
from agentlearn.text.files import own, write_whole

LOCK, QUEUE = "store.lock", "store.queue"
"""The second file is locked, shared, by those that wait for a process that reads."""
READ_PATIENCE_S = 30.0
"""Longest wait for a process that reads the store."""
_READS = ", reading"
"""What follows the name of the process in the lock file while it reads."""

_held_locks: "weakref.WeakSet[StoreLock]" = weakref.WeakSet()


class StoreLock:
    """The store's lock, held from construction to `release`. One process has it at a time, also to read.

    A reader gives it back between two questions when it is `wanted`: others wait for that, and those that want to write
    come first. A process that writes may have it for hours, so nobody waits for it. Raises StoreLocked, naming the
    process that has it.

    named: write this process into the file, for others to name it.
    """

    def __init__(self, directory: Path, *, reads: bool = False, named: bool = True) -> None:
        self._fd: int | None = os.open(
            own(directory / LOCK, directory), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            self._take(self._fd, directory, reads=reads, named=named)
        except BaseException:
            self.release()
            raise
        _held_locks.add(self)

    def _take(self, fd: int, directory: Path, *, reads: bool, named: bool) -> None:
        give_up = time.monotonic() + READ_PATIENCE_S
        # Readers share the lock of the folder while they try to take the store's lock. A writer has it alone until it
        # has the store's lock, so that no later reader gets ahead of it. Whoever has it, the name below is current.
        gate = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        queue: int | None = None
        try:
            while True:
                entered = _flocked(gate, fcntl.LOCK_SH if reads else fcntl.LOCK_EX)
                if entered and _flocked(fd, fcntl.LOCK_EX):
                    if named:
                        os.ftruncate(fd, 0)
                        os.pwrite(fd, f"{os.getpid()} on {gethostname()}{_READS if reads else ''}".encode(), 0)
                    return
                holder = os.pread(fd, 256, 0).decode(errors="replace").strip()
                writes = entered and not holder.endswith(_READS)
                if writes or time.monotonic() > give_up:
                    process = holder.removesuffix(_READS) or "unknown"
                    raise StoreLocked(
                        f"the store {str(directory)!r} is {'in use' if writes else 'being read'} by process {process};"
                        " wait until it ends or pass another --store DIR"
                    )
                if reads:
                    fcntl.flock(gate, fcntl.LOCK_UN)
                queue = _queue(directory) if queue is None else queue
                _flocked(queue, fcntl.LOCK_SH)
                time.sleep(random.uniform(0.001, 0.01))
        finally:
            for file in filter(None, (gate, queue)):
                fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile has the same open file
                os.close(file)

    @staticmethod
    def wanted(directory: Path) -> bool:
        """Whether another process, or another part of this one, waits for the lock of this store."""
        queue = _queue(directory)
        try:
            return not _flocked(queue, fcntl.LOCK_EX)
        finally:
            os.close(queue)

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


def _queue(directory: Path) -> int:
    return os.open(own(directory / QUEUE, directory), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _flocked(fd: int, kind: int) -> bool:
    """Whether an open file could be locked without waiting. kind: `fcntl.LOCK_EX` or `fcntl.LOCK_SH`."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
                f" before is in the files that are left: run `agentlearn store check --store {path.parent}`"
            )


_OURS = (
    *("store.*", "journal.sqlite*", "snapshots/*", "staging/*", "spill/*", "libraries", "libraries/*"),
    *("libraries/*/*", "reports", "reports/*", "receipts", "receipts/*"),
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


WATERMARK = "store.hwm"
LOCK_TIMEOUT_S = 60.0
"""Longest wait for another process that is writing to the journal."""

MARK = b"ALSMARK1"
"""First eight bytes, which name the layout."""
_LAYOUT = struct.Struct("<8s16sQQQ")
_CHECKSUM = struct.Struct("<I")
_MAX_BYTES = 256


class Acknowledged(NamedTuple):
    """What the writers of a store were told is durable."""

    identity: str
    """Identity of the store, 32 hex digits; its journal and its database carry the same."""
    journal: int
    """Number of the last acknowledged journal entry; 0 when there is none."""
    commit: int
    """Number of the last acknowledged group commit; 0 when there is none."""
    size_bytes: int = 0
    """Size of the database file after its last checkpoint: it never has less. 0 if unknown."""

    @property
    def only_journal(self) -> bool:
        """Whether nothing was ever acknowledged but journal entries, so that the database may not exist yet."""
        return self.commit == 0 and self.size_bytes == 0

    @classmethod
    def parse(cls, content: bytes, path: Path) -> "Acknowledged":
        """What the bytes of a watermark file say. Raises StoreDamaged, UnknownSchema."""
        body, checksum = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
        if not body or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
            raise StoreDamaged(
                f"{str(path)!r} does not match its checksum; copy the store's directory, then run"
                " `agentlearn store repair`"
            )
        if not body.startswith(MARK) or len(body) != _LAYOUT.size:
            raise UnknownSchema(
                f"{str(path)!r} was written by another version of agentlearn; open the store with that version, or pass"
                " another --store DIR"
            )
        _, identity, *numbers = _LAYOUT.unpack(body)
        return cls(identity.hex(), *numbers)

    @classmethod
    def read(cls, path: Path) -> "Acknowledged | None":
        """What a watermark file holds; None if it is missing or empty. Raises StoreDamaged, UnknownSchema."""
        try:
            content = own(path, path.parent).read_bytes()
        except FileNotFoundError:
            return None
        return cls.parse(content, path) if content else None

    def write(self, path: Path) -> None:
        """Write a watermark file, atomically. For a new or repaired store. Raises OSError."""
        write_whole(path, self.packed())
        path.chmod(0o600)

    def packed(self) -> bytes:
        """The bytes of the file."""
        content = _LAYOUT.pack(MARK, bytes.fromhex(self.identity), *self[1:])
        return content + _CHECKSUM.pack(zlib.crc32(content))


class Watermark:
    """An open watermark file. Any number of processes raise it, each while it holds the file's lock.

    Raises StoreDamaged, StoreError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise StoreDamaged(f"{str(path)!r} cannot be opened: {error}; run `agentlearn store repair`") from error

    def read(self) -> Acknowledged:
        """The numbers as of now."""
        return Acknowledged.parse(os.pread(self._fd, _MAX_BYTES, 0), self._path)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the file's lock: one process at a time writes to the journal."""
        give_up = time.monotonic() + LOCK_TIMEOUT_S
        while not _flocked(self._fd, fcntl.LOCK_EX):
            if time.monotonic() > give_up:
                raise StoreError(
                    f"another process has held the journal of {str(self._path.parent)!r} for {LOCK_TIMEOUT_S:.0f} s;"
                    " end it if it hangs, then try again"
                )
            time.sleep(random.uniform(0.0002, 0.002))
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def lift(self, *, journal: int = 0, commit: int = 0, size_bytes: int | None = None, sync: bool = False) -> None:
        """Raise the numbers; lower ones change nothing. The caller holds the lock.

        size_bytes: size of the database file; it is replaced and may be lower.
        sync: also write to disk, so that the file is never behind a later commit, even after a power failure.
        """
        now = self.read()
        size = now.size_bytes if size_bytes is None else size_bytes
        lifted = Acknowledged(now.identity, max(now.journal, journal), max(now.commit, commit), size)
        if lifted != now:
            os.pwrite(self._fd, lifted.packed(), 0)
        if sync:
            os.fdatasync(self._fd)

    @property
    def file_id(self) -> tuple[int, int]:
        """Device and inode of the open file."""
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
