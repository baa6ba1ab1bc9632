"""The file `store.hwm`: what was acknowledged, kept outside the files that hold it.

A damaged, deleted or replaced file can look like an intact one with less in it. Only these numbers show the loss.
"""

import fcntl
import os
import random
import struct
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agentlearn.errors import StoreDamaged, StoreError, UnknownSchema
from agentlearn.files import own, write_whole

WATERMARK = "store.hwm"
LOCK_TIMEOUT_S = 60.0
"""Longest wait for another process that is writing to the journal."""

_MARK = b"ALSMARK1"
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


def read_watermark(path: Path) -> Acknowledged | None:
    """What a watermark file holds; None if it is missing or empty. Raises StoreDamaged, UnknownSchema."""
    try:
        content = own(path, path.parent).read_bytes()
    except FileNotFoundError:
        return None
    return _parse(content, path) if content else None


def write_watermark(path: Path, acknowledged: Acknowledged) -> None:
    """Write a watermark file, atomically. For a new or repaired store. Raises OSError."""
    write_whole(path, _pack(acknowledged))
    path.chmod(0o600)


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
        return _parse(os.pread(self._fd, _MAX_BYTES, 0), self._path)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the file's lock: one process at a time writes to the journal."""
        give_up = time.monotonic() + LOCK_TIMEOUT_S
        while not self._try_lock():
            if time.monotonic() > give_up:
                raise StoreError(
                    f"another process has held the journal of {str(self._path.parent)!r} for {LOCK_TIMEOUT_S:.0f} s;"
                    " end it if it hangs, then try again",
                    code="store_write",
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
            os.pwrite(self._fd, _pack(lifted), 0)
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

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _pack(acknowledged: Acknowledged) -> bytes:
    content = _LAYOUT.pack(_MARK, bytes.fromhex(acknowledged.identity), *acknowledged[1:])
    return content + _CHECKSUM.pack(zlib.crc32(content))


def _parse(content: bytes, path: Path) -> Acknowledged:
    body, checksum = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
    if not body or _CHECKSUM.pack(zlib.crc32(body)) != checksum:
        raise StoreDamaged(
            f"{str(path)!r} does not match its checksum; copy the store's directory, then run `agentlearn store repair`"
        )
    if not body.startswith(_MARK) or len(body) != _LAYOUT.size:
        raise UnknownSchema(
            f"{str(path)!r} was written by another version of agentlearn; open the store with that version, or pass"
            " another --store DIR"
        )
    _, identity, *numbers = _LAYOUT.unpack(body)
    return Acknowledged(identity.hex(), *numbers)
