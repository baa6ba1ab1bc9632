"""The journal file: a write-ahead log of entries that are durable after one `fdatasync` and enter the database later.

Every model call waits for its entry, and a separate database commit takes a hundred times as long as an append.
Format, little-endian: a header (eight bytes `ALSPOOL1`, then the acknowledged size in eight bytes), then frames
(length, CRC-32 and content of each entry).
"""

import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agentlearn.errors import StoreDamaged

_MARK = b"ALSPOOL1"
_SIZE = struct.Struct("<Q")
_FRAME = struct.Struct("<II")
_HEADER_BYTES = len(_MARK) + _SIZE.size


JOURNAL_FILE = "store.journal"


class WriteAheadLog:
    """An open journal file, for one thread at a time. Raises OSError when the disk fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._fd).st_size < _HEADER_BYTES:
            os.pwrite(self._fd, _MARK + _SIZE.pack(0), 0)
        self._end = _HEADER_BYTES

    def recover(self) -> list[bytes]:
        """Return the entries that an earlier process left, in order, without an incomplete, unacknowledged last one.

        Raises StoreDamaged when an acknowledged entry cannot be read.
        """
        state = read_state(self._path.read_bytes())
        if not state.marked:
            raise self._damaged("does not start with the header of a journal file")
        self._end = state.end
        if state.end < state.acknowledged_end:
            raise self._damaged(f"is readable for {state.end} bytes only, but more was acknowledged")
        return state.entries

    @property
    def size_bytes(self) -> int:
        """Total size of the entries with their frames."""
        return self._end - _HEADER_BYTES

    def append(self, entries: Sequence[bytes]) -> None:
        """Append the entries and return when they are on disk. Raises OSError; then none of them is kept."""
        frames = b"".join(_FRAME.pack(len(entry), zlib.crc32(entry)) + entry for entry in entries)
        try:
            _write_all(self._fd, frames, self._end)
            os.fdatasync(self._fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise
        self._end += len(frames)
        self._acknowledge(self._end - _HEADER_BYTES)

    def clear(self) -> None:
        """Remove all entries after they were committed. After a crash before this call they are committed again."""
        if self._end > _HEADER_BYTES:
            self._acknowledge(0)
            os.ftruncate(self._fd, _HEADER_BYTES)
            self._end = _HEADER_BYTES

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _acknowledge(self, size: int) -> None:
        # Not synced to disk: like the watermark it protects against a damaged file, not against a power failure.
        os.pwrite(self._fd, _SIZE.pack(size), len(_MARK))

    def _damaged(self, problem: str) -> StoreDamaged:
        return StoreDamaged(
            f"{str(self._path)!r} {problem}; copy the store's directory, then run `agentlearn store repair`"
        )


class WriteAheadLogState(NamedTuple):
    """Content of a journal file, intact or not."""

    marked: bool
    """Whether it starts with the header of a journal file."""
    entries: list[bytes]
    """The intact entries before the first damaged one."""
    end: int
    """Byte offset where the intact entries end."""
    acknowledged_end: int
    """Byte offset where the acknowledged entries end."""


def read_state(content: bytes) -> WriteAheadLogState:
    """Parse the content of a journal file, intact or not."""
    entries, end = sound_entries(content)
    if content[: len(_MARK)] != _MARK or len(content) < _HEADER_BYTES:
        return WriteAheadLogState(marked=False, entries=[], end=0, acknowledged_end=len(content))
    (acknowledged,) = _SIZE.unpack_from(content, len(_MARK))
    return WriteAheadLogState(marked=True, entries=entries, end=end, acknowledged_end=_HEADER_BYTES + acknowledged)


def sound_part(content: bytes) -> bytes:
    """A journal file's content up to its last intact entry, with a header that acknowledges exactly that."""
    state = read_state(content)
    end = max(state.end, _HEADER_BYTES)
    return _MARK + _SIZE.pack(end - _HEADER_BYTES) + (content[_HEADER_BYTES:end] if state.marked else b"")


def lost_entries(content: bytes) -> int | None:
    """Number of acknowledged entries after the last intact one; None if their lengths are unreadable too."""
    state = read_state(content)
    if not state.marked:
        return None
    at, count = state.end, 0
    while at < state.acknowledged_end:
        if at + _FRAME.size > len(content):
            return None
        length, _ = _FRAME.unpack_from(content, at)
        at, count = at + _FRAME.size + length, count + 1
    return count if at == state.acknowledged_end else None


def sound_entries(content: bytes) -> tuple[list[bytes], int]:
    """The intact entries at the start of a journal file's content, and the byte offset where they end."""
    entries: list[bytes] = []
    at = _HEADER_BYTES
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        entry = content[at + _FRAME.size : at + _FRAME.size + length]
        if len(entry) < length or zlib.crc32(entry) != checksum or not length:
            break
        entries.append(entry)
        at += _FRAME.size + length
    return entries, at


def _write_all(fd: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, at)
        view, at = view[written:], at + written
