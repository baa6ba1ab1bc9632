"""Reads members of an untrusted zip file one at a time, within size limits, and verifies their checksums."""

import struct
import zlib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from agentlearn.errors import DataError, MissingExtra

_ZSTANDARD = 93
"""Compression method of the zip format; Python's `zipfile` supports it from 3.14 on."""
_ENCRYPTED = 1
_MOST_WINDOW_BYTES = 128 << 20
"""Largest window of the decompressor; zstd's own limit."""
_LOCAL_HEADER = struct.Struct("<4s22x2H")
"""Signature, then the lengths of the name and the extra field (APPNOTE 4.3.7)."""


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Largest unpacked sizes."""

    member_bytes: int = 512 << 20
    """Of one member."""
    total_bytes: int = 16 << 30
    """Of all members that are read, together."""


class Archive:
    """An open zip file. Every method raises DataError when the file is damaged or exceeds the limits."""

    def __init__(self, path: Path, zip_file: ZipFile, limits: ArchiveLimits) -> None:
        self._path, self._zip, self._limits = path, zip_file, limits
        self._bytes_left = limits.total_bytes

    @property
    def names(self) -> tuple[str, ...]:
        """Member names in file order, each once; of two members with the same name the later one is read."""
        return tuple(dict.fromkeys(self._zip.namelist()))

    def read(self, name: str) -> bytes:
        """Return a member's bytes. Raises MissingExtra when the member needs zstandard and it is not installed."""
        entry = self._zip.getinfo(name)
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in {ZIP_STORED, ZIP_DEFLATED, _ZSTANDARD}:
            raise DataError(
                f"{self._path.name} holds {name!r}, which is encrypted or compressed by an unsupported method"
                f" ({entry.compress_type}); write the log again",
                code="bad_archive",
            )
        most = min(self._limits.member_bytes, self._bytes_left)
        if entry.file_size > most:
            raise DataError(
                f"{self._path.name} unpacks {name!r} to more than {most:,} bytes; give the log as JSON, or its scores"
                " as CSV",
                code="log_too_large",
            )
        with _zip_errors(self._path, repr(name)):
            body = self._read_zstandard(entry) if entry.compress_type == _ZSTANDARD else self._read_plain(entry)
        if len(body) != entry.file_size or zlib.crc32(body) != entry.CRC:
            raise _damaged(self._path, f"{name!r} does not match its size and checksum")
        self._bytes_left -= len(body)
        return body

    def _read_plain(self, entry: ZipInfo) -> bytes:
        with self._zip.open(entry) as member:
            return member.read(entry.file_size + 1)

    def _read_zstandard(self, entry: ZipInfo) -> bytes:
        try:
            import zstandard  # optional dependency
        except ImportError as error:
            raise MissingExtra(
                f"reading {self._path.name!r} needs zstandard: pip install 'agentlearn-lib[inspect]'"
            ) from error
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES)
        try:
            with decompressor.stream_reader(BytesIO(self._compressed_bytes(entry)), read_across_frames=True) as stream:
                return stream.read(entry.file_size + 1)
        except zstandard.ZstdError as error:
            raise _damaged(self._path, f"{entry.filename!r}: {error}") from error

    def _compressed_bytes(self, entry: ZipInfo) -> bytes:
        with self._path.open("rb") as file:
            file.seek(entry.header_offset)
            signature, name_size, extra_size = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if signature != b"PK\x03\x04":
                raise BadZipFile(f"no member starts at byte {entry.header_offset}")
            file.seek(name_size + extra_size, 1)
            return file.read(entry.compress_size)


@contextmanager
def open_archive(path: Path, limits: ArchiveLimits = ArchiveLimits()) -> Generator[Archive]:
    """Open a zip file for reading. Raises DataError."""
    with ExitStack() as stack:
        with _zip_errors(path, "its list of members"):
            zip_file = stack.enter_context(ZipFile(path))
        yield Archive(path, zip_file, limits)


@contextmanager
def _zip_errors(path: Path, what: str) -> Generator[None]:
    """Turn errors of a damaged zip file into DataError."""
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, OSError, ValueError) as error:
        raise _damaged(path, f"{what}: {' '.join(str(error).split())[:120]}") from error


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} is damaged ({why}); copy the log again or write it again", code="bad_archive")
