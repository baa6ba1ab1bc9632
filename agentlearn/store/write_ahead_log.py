"""Journal entries on their way into the database: appended to a file, durable after one `fdatasync`, folded in later.

A commit of its own costs the database a hundred times what an append costs, and every model call waits for its entry.
The file is a header and frames: eight bytes of mark and the acknowledged size, then length, CRC-32 and content of each
entry. Little-endian throughout.
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


NAME = "store.journal"


class WriteAheadLog:
    """The file, open for one thread at a time. Raises OSError where the disk fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._fd).st_size < _HEADER_BYTES:
            os.pwrite(self._fd, _MARK + _SIZE.pack(0), 0)
        self._end = _HEADER_BYTES

    def recover(self) -> list[bytes]:
        """The entries that an earlier process left behind, in order; a torn last one, never acknowledged, is left out.

        Raises StoreDamaged when an acknowledged entry cannot be read any more.
        """
        state = state_of(self._path.read_bytes())
        if not state.marked:
            raise self._damaged("does not begin as a journal file does")
        self._end = state.end
        if state.end < state.acknowledged_end:
            raise self._damaged(f"is sound for {state.end} bytes only, but more was acknowledged")
        return state.entries

    @property
    def size_bytes(self) -> int:
        """What the entries take."""
        return self._end - _HEADER_BYTES

    def append(self, entries: Sequence[bytes]) -> None:
        """Return when the entries are on the disk. Nothing of them is left behind when it raises OSError."""
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
        """Drop everything: it is in the database now. After a crash in between it is folded in once more."""
        if self._end > _HEADER_BYTES:
            self._acknowledge(0)
            os.ftruncate(self._fd, _HEADER_BYTES)
            self._end = _HEADER_BYTES

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _acknowledge(self, size: int) -> None:
        # Not synced: it guards against a damaged file, as the watermark does, not against a loss of power.
        os.pwrite(self._fd, _SIZE.pack(size), len(_MARK))

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{str(self._path)!r} {what}; copy the store's directory, then run `agentlearn store repair`"
        )


class WriteAheadLogState(NamedTuple):
    """What a spool's file holds."""

    marked: bool
    """Whether it begins as such a file does."""
    entries: list[bytes]
    """The sound ones before the first that is not."""
    end: int
    """Where they end, in bytes."""
    acknowledged_end: int
    """Where what was acknowledged ends."""


def state_of(content: bytes) -> WriteAheadLogState:
    """What the content of a spool's file holds, sound or not."""
    entries, end = whole_frames(content)
    if content[: len(_MARK)] != _MARK or len(content) < _HEADER_BYTES:
        return WriteAheadLogState(marked=False, entries=[], end=0, acknowledged_end=len(content))
    (acknowledged,) = _SIZE.unpack_from(content, len(_MARK))
    return WriteAheadLogState(marked=True, entries=entries, end=end, acknowledged_end=_HEADER_BYTES + acknowledged)


def sound_part(content: bytes) -> bytes:
    """A spool's content up to its last sound entry, with that much acknowledged."""
    state = state_of(content)
    end = max(state.end, _HEADER_BYTES)
    return _MARK + _SIZE.pack(end - _HEADER_BYTES) + (content[_HEADER_BYTES:end] if state.marked else b"")


def lost_entries(content: bytes) -> int | None:
    """How many acknowledged entries stand behind the last sound one; None where their lengths do not tell."""
    state = state_of(content)
    if not state.marked:
        return None
    at, count = state.end, 0
    while at < state.acknowledged_end:
        if at + _FRAME.size > len(content):
            return None
        length, _ = _FRAME.unpack_from(content, at)
        at, count = at + _FRAME.size + length, count + 1
    return count if at == state.acknowledged_end else None


def whole_frames(content: bytes) -> tuple[list[bytes], int]:
    """The sound entries from the beginning of a spool's content, and where they end."""
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
