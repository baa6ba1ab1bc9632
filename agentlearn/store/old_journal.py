"""Read the journal file `store.journal` of stores of schema 4 and older, once, when such a store is opened.

Format, little-endian: eight bytes `ALSPOOL1`, the acknowledged size in eight bytes, then entries, each with its length,
CRC-32 and content.
"""

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

OLD_JOURNAL = "store.journal"
_MARK = b"ALSPOOL1"
_HEADER = struct.Struct("<8sQ")
_FRAME = struct.Struct("<II")


class OldJournal(NamedTuple):
    """Content of an old journal file, intact or not."""

    entries: list[bytes]
    """The intact entries before the first damaged one."""
    lost_bytes: int
    """Number of acknowledged bytes after them."""
    intact: bytes
    """The file with these entries only."""


def read_old_journal(directory: Path) -> OldJournal:
    """The entries that an older version left. Raises OSError."""
    file = directory / OLD_JOURNAL
    content = file.read_bytes() if file.exists() else b""
    if len(content) < _HEADER.size or content[: len(_MARK)] != _MARK:
        return OldJournal([], len(content), _HEADER.pack(_MARK, 0))
    _, acknowledged = _HEADER.unpack_from(content)
    entries, at = list[bytes](), _HEADER.size
    while at + _FRAME.size <= len(content):
        length, checksum = _FRAME.unpack_from(content, at)
        entry = content[at + _FRAME.size : at + _FRAME.size + length]
        if len(entry) < length or zlib.crc32(entry) != checksum or not length:
            break
        entries.append(entry)
        at += _FRAME.size + length
    intact = _HEADER.pack(_MARK, at - _HEADER.size) + content[_HEADER.size : at]
    return OldJournal(entries, max(_HEADER.size + acknowledged - at, 0), intact)
