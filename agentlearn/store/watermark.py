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

from agentlearn.errors import StoreDamaged, StoreError
from agentlearn.files import write_whole

WATERMARK = "store.hwm"
LOCK_TIMEOUT_S = 60.0
"""Longest wait for another process that is writing to the journal."""

_MARK = b"ALSMARK2"
_FORMAT = struct.Struct("<8s16sQQ")
_CHECKSUM = struct.Struct("<I")
_SIZE = _FORMAT.size + _CHECKSUM.size


class Acknowledged(NamedTuple):
    """What the writers of a store were told is durable."""

    identity: str
    """Identity of the store, 32 hex digits; its journal and its database carry the same."""
    journal: int
    """Number of the last acknowledged journal entry; 0 when there is none."""
    commit: int
    """Number of the last acknowledged group commit; 0 when there is none."""


def read_watermark(path: Path) -> Acknowledged | int | None:
    """What a watermark file holds: a commit number only if an older version wrote it, None if it is missing or empty.

    Raises StoreDamaged when it cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if not content:
        return None
    if len(content) == 8 and content != _MARK:
        return int.from_bytes(content, "little")
    return _parse(content, path)


def write_watermark(path: Path, acknowledged: Acknowledged) -> None:
    """Write a watermark file, atomically. For a new, converted or repaired store. Raises OSError."""
    write_whole(path, _pack(acknowledged))
    path.chmod(0o600)


class Watermark:
    """An open watermark file. Any number of processes raise it, each while it holds the file's lock.

    Raises StoreDamaged, StoreError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StoreDamaged(f"{str(path)!r} cannot be opened: {error}; run `agentlearn store repair`") from error

    def read(self) -> Acknowledged:
        """The numbers as of now."""
        return _parse(os.pread(self._fd, _SIZE + 1, 0), self._path)

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

    def lift(self, *, journal: int = 0, commit: int = 0, sync: bool = False) -> None:
        """Raise the numbers; lower ones change nothing. The caller holds the lock.

        sync: also write to disk, so that the file is never behind a later commit, even after a power failure.
        """
        now = self.read()
        lifted = Acknowledged(now.identity, max(now.journal, journal), max(now.commit, commit))
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
    identity, journal, commit = acknowledged
    content = _FORMAT.pack(_MARK, bytes.fromhex(identity), journal, commit)
    return content + _CHECKSUM.pack(zlib.crc32(content))


def _parse(content: bytes, path: Path) -> Acknowledged:
    if len(content) != _SIZE:
        problem = f"has {len(content)} bytes instead of {_SIZE}"
    elif _CHECKSUM.pack(zlib.crc32(content[: _FORMAT.size])) != content[_FORMAT.size :] or content[:8] != _MARK:
        problem = "does not match its checksum"
    else:
        _, identity, journal, commit = _FORMAT.unpack_from(content)
        return Acknowledged(identity.hex(), journal, commit)
    raise StoreDamaged(f"{str(path)!r} {problem}; copy the store's directory, then run `agentlearn store repair`")
