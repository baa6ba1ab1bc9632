"""Reads a log file as an archive, a JSON document, or rows, recognised by its bytes and not by its name.

Spreadsheet programs take a cell for a formula when it starts with `=`, `+`, `-`, `@`, a tab or a line end, also after
white space and in full-width letters. Such a text gets an apostrophe in front, and so does one that starts with
apostrophes and then such a sign, so that `_original_cell` can undo it. Numbers are written as they are.
"""

import csv
import json
import struct
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from unicodedata import category, normalize
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError, MissingExtra
from agentlearn.files import readable
from agentlearn.store.parquet import parquet_rows

_SIGNS = frozenset("=+-@\u2212")
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Unicode categories of controls, formats and white space."""


def spreadsheet_cell(value: object) -> object:
    """The cell to write for a value. Text that a spreadsheet program could run gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def _original_cell(text: str) -> str:
    """The text for which `spreadsheet_cell` gave this cell."""
    return text[1:] if text.startswith("'") and _is_formula(text[1:]) else text


def _is_formula(text: str) -> bool:
    bare = text.lstrip("'")
    if bare.startswith(("\t", "\r", "\n")):
        return True
    first = next((letter for letter in bare if category(letter) not in _INVISIBLE), "")
    return normalize("NFKC", first)[:1] in _SIGNS


MOST_BYTES = 1 << 30
"""Largest size of a file that is read at once, and of all texts of one table."""
MOST_ROWS = 5_000_000
"""Largest number of rows of a table."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_PARQUET = b"PAR1"


@dataclass(frozen=True)
class Content:
    """The content of a log file: rows, or an archive that has not been opened yet."""

    path: Path
    rows: tuple[SourceRow, ...] = ()
    """JSON lines, CSV or Parquet, at least one; empty for an archive."""
    document: dict[str, Any] | None = None
    """The value of a file that holds exactly one JSON object, which is also its only row."""
    ends_with_line: bool = True
    """Whether the last line of a CSV file is ended. If not, the file may be cut within its last value."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns, in order of first appearance."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.fields))

    @staticmethod
    def is_array(path: Path) -> bool:
        """Return whether a file begins as a JSON array does. Raises DataError when it cannot be read."""
        return _read_bytes(path, 64).lstrip().startswith(b"[")

    @staticmethod
    def read(path: Path) -> "Content":
        """Return the content of a file. Raises DataError when it cannot be read, is empty, too large or damaged."""
        head, ends_with_line = _read_bytes(path, 4), True
        if head in _ZIP:
            return Content(path)
        if head == _PARQUET:
            rows = tuple(_parquet_rows(path))
        else:
            text = _read_text(path)
            start = text.lstrip()[:1]
            if start == "{":
                with _json_errors(path.name):
                    value, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
                if not text[end:].strip():
                    return Content(path, (SourceRow(f"{path.name}:1", value),), value)
            elif start == "[":
                raise DataError(
                    f"{path.name} holds a JSON array; write one object per line, or one report", code="unknown_log"
                )
            else:
                ends_with_line = text.endswith(("\n", "\r"))
            rows = tuple((_jsonl_rows if start == "{" else _csv_rows)(path, text))
        if not rows:
            raise _empty(path)
        return Content(path, rows, None, ends_with_line)


def parse_json(text: str, place: str) -> Any:
    """Return the value of a JSON text. NaN and infinities are accepted. Raises DataError."""
    with _json_errors(place):
        return json.loads(text)


def _jsonl_rows(path: Path, text: str) -> Iterator[SourceRow]:
    # Not splitlines(): JSON text may contain Unicode line separators.
    for at, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            value = parse_json(line, f"{path.name} line {at}")
            if not isinstance(value, dict):
                raise DataError(
                    f"{path.name} line {at} is not a JSON object; write one object per line", code="bad_log"
                )
            yield SourceRow(f"{path.name}:{at}", value)


def _csv_rows(path: Path, text: str) -> Iterator[SourceRow]:
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    start, header = 1, None
    previous = csv.field_size_limit(MOST_BYTES)
    try:
        for fields in reader:
            if header is None:
                header = [name.strip() for name in fields]
                if twice := [name for name in header if header.count(name) > 1]:
                    raise DataError(
                        f"{path.name} line 1 has the column {twice[0]!r} twice; rename one of them", code="bad_log"
                    )
            elif fields:
                if len(fields) != len(header):
                    raise DataError(
                        f"{path.name} line {start} has {len(fields)} fields, but the header has {len(header)};"
                        " quote fields that contain commas",
                        code="bad_log",
                    )
                yield SourceRow(f"{path.name}:{start}", dict(zip(header, map(_original_cell, fields), strict=True)))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path.name} line {start} is neither JSON nor CSV ({error}); check its quotes", code="bad_log"
        ) from error
    finally:
        csv.field_size_limit(previous)


def _parquet_rows(path: Path) -> Iterator[SourceRow]:
    size = 0
    for at, fields in enumerate(parquet_rows(path)):
        size += sum(len(cell) for cell in fields.values() if isinstance(cell, str))
        if at >= MOST_ROWS or size > MOST_BYTES:
            raise _too_large(path, f"unpacks to more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20:,} MiB of text")
        yield SourceRow(f"{path.name}#{at}", fields)


def _empty(path: Path) -> DataError:
    return DataError(f"{path.name} holds no rollouts; give a log with at least one", code="empty_log")


def _too_large(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} {why}; split it, or give its scores as CSV", code="log_too_large")


def _read_text(path: Path) -> str:
    body = _read_bytes(path, MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise _too_large(path, f"is larger than {MOST_BYTES >> 20:,} MiB")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path.name} line {line} is not UTF-8; save the file as UTF-8", code="bad_log") from error
    if not text.strip():
        raise _empty(path)
    return text


def _read_bytes(path: Path, most: int) -> bytes:
    try:
        with readable(path).open("rb") as file:
            return file.read(most)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}; check the path", code="no_log") from error
    except OSError as error:
        raise DataError(
            f"{str(path)!r} cannot be read ({error.strerror}); give a readable file", code="no_log"
        ) from error


@contextmanager
def _json_errors(place: str) -> Generator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno} column {error.colno}"
        raise DataError(f"{place} {at} is not JSON ({error.msg}); write the log again", code="bad_log") from error
    except (ValueError, RecursionError) as error:
        cause = "it nests too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise DataError(f"{place} cannot be read as JSON ({cause}); write the log again", code="bad_log") from error


_ZSTANDARD = 93
"""Compression method of the zip format; Python's `zipfile` supports it from 3.14 on."""
_ENCRYPTED = 1
_MOST_WINDOW_BYTES = 128 << 20
"""Largest window of the decompressor; zstd's own limit."""
_LOCAL_HEADER = struct.Struct("<4s22x2H")
"""Signature, then the lengths of the name and the extra field (APPNOTE 4.3.7)."""


@dataclass(frozen=True, slots=True)
class _ArchiveLimits:
    """Largest unpacked sizes."""

    member_bytes: int = 512 << 20
    """Of one member."""
    total_bytes: int = 16 << 30
    """Of all members that are read, together."""


_LIMITS = _ArchiveLimits()


class Archive:
    """An open zip file. Every method raises DataError when the file is damaged or exceeds the limits."""

    def __init__(self, path: Path, zip_file: ZipFile, limits: _ArchiveLimits) -> None:
        self._path, self._zip, self._limits = path, zip_file, limits
        self._bytes_left = limits.total_bytes

    @staticmethod
    @contextmanager
    def open(path: Path, limits: _ArchiveLimits = _LIMITS) -> Generator["Archive"]:
        """Open a zip file for reading. Raises DataError."""
        with ExitStack() as stack:
            with _zip_errors(path, "its list of members"):
                zip_file = stack.enter_context(ZipFile(path))
            yield Archive(path, zip_file, limits)

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
            if entry.compress_type == _ZSTANDARD:
                body = self._read_zstandard(entry)
            else:
                with self._zip.open(entry) as member:
                    body = member.read(entry.file_size + 1)
        if len(body) != entry.file_size or zlib.crc32(body) != entry.CRC:
            raise _damaged(self._path, f"{name!r} does not match its size and checksum")
        self._bytes_left -= len(body)
        return body

    def _read_zstandard(self, entry: ZipInfo) -> bytes:
        try:
            import zstandard  # optional dependency
        except ImportError as error:
            raise MissingExtra(
                f"reading {self._path.name!r} needs zstandard: pip install 'agentlearn-lib[inspect]'"
            ) from error
        with self._path.open("rb") as file:
            file.seek(entry.header_offset)
            signature, name_size, extra_size = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            if signature != b"PK\x03\x04":
                raise BadZipFile(f"no member starts at byte {entry.header_offset}")
            file.seek(name_size + extra_size, 1)
            packed = BytesIO(file.read(entry.compress_size))
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW_BYTES)
        try:
            with decompressor.stream_reader(packed, read_across_frames=True) as stream:
                return stream.read(entry.file_size + 1)
        except zstandard.ZstdError as error:
            raise _damaged(self._path, f"{entry.filename!r}: {error}") from error


@contextmanager
def _zip_errors(path: Path, what: str) -> Generator[None]:
    """Turn errors of a damaged zip file into DataError."""
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError, OSError, ValueError) as error:
        raise _damaged(path, f"{what}: {' '.join(str(error).split())[:120]}") from error


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path.name} is damaged ({why}); copy the log again or write it again", code="bad_archive")
