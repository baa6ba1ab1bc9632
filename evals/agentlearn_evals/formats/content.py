"""Reads a log file as an archive, a JSON document, or rows, recognised by its bytes and not by its name.

Spreadsheet programs take a cell for a formula when it starts with `=`, `+`, `-`, `@`, a tab or a line end, also after
white space and in full-width letters. Such a text gets an apostrophe in front, and so does one that starts with
apostrophes and then such a sign, so that `original_cell` can undo it. Numbers are written as they are.
"""

import csv
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from agentlearn.data.files import read_bytes, read_text
from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError
from agentlearn.store.parquet import parquet_rows

_SIGNS = frozenset("=+-@\u2212")
_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
"""Unicode categories of controls, formats and white space."""


def spreadsheet_cell(value: object) -> object:
    """The cell to write for a value. Text that a spreadsheet program could run gets an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def original_cell(text: str) -> str:
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
        return read_bytes(path, 64).lstrip().startswith(b"[")

    @staticmethod
    def read(path: Path) -> "Content":
        """Return the content of a file. Raises DataError when it cannot be read, is empty, too large or damaged."""
        head, ends_with_line = read_bytes(path, 4), True
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
                raise DataError(f"{path.name} holds a JSON array; write one object per line, or one report")
            else:
                ends_with_line = text.endswith(("\n", "\r"))
            rows = tuple((_jsonl_rows if start == "{" else _csv_rows)(path, text))
        if not rows:
            raise _empty(path)
        return Content(path, rows, None, ends_with_line)


def _jsonl_rows(path: Path, text: str) -> Iterator[SourceRow]:
    # Not splitlines(): JSON text may contain Unicode line separators.
    for at, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            with _json_errors(f"{path.name} line {at}"):
                value = json.loads(line)
            if not isinstance(value, dict):
                raise DataError(f"{path.name} line {at} is not a JSON object; write one object per line")
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
                    raise DataError(f"{path.name} line 1 has the column {twice[0]!r} twice; rename one of them")
            elif fields:
                if len(fields) != len(header):
                    raise DataError(
                        f"{path.name} line {start} has {len(fields)} fields, but the header has {len(header)};"
                        " quote fields that contain commas"
                    )
                yield SourceRow(f"{path.name}:{start}", dict(zip(header, map(original_cell, fields), strict=True)))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path.name} line {start} is neither JSON nor CSV ({error}); check its quotes") from error
    finally:
        csv.field_size_limit(previous)


def _parquet_rows(path: Path) -> Iterator[SourceRow]:
    size = 0
    for at, fields in enumerate(parquet_rows(path)):
        size += sum(len(cell) for cell in fields.values() if isinstance(cell, str))
        if at >= MOST_ROWS or size > MOST_BYTES:
            raise too_large(path, f"unpacks to more than {MOST_ROWS:,} rows or {MOST_BYTES >> 20:,} MiB of text")
        yield SourceRow(f"{path.name}#{at}", fields)


def _empty(path: Path) -> DataError:
    return DataError(f"{path.name} holds no rollouts; give a log with at least one")


def too_large(path: Path, why: str) -> DataError:
    """Return the error for a file that would fill the memory. why: what is too large."""
    return DataError(f"{path.name} {why}; split it, or give its scores as CSV")


def _read_text(path: Path) -> str:
    if path.stat().st_size > MOST_BYTES:
        raise too_large(path, f"is larger than {MOST_BYTES >> 20:,} MiB")
    try:
        text = read_text(path, path.name, keep_nul=True)
    except DataError as error:
        raise DataError(error.message) from error
    if not text.strip():
        raise _empty(path)
    return text


@contextmanager
def _json_errors(place: str) -> Generator[None]:
    try:
        yield
    except json.JSONDecodeError as error:
        at = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno} column {error.colno}"
        raise DataError(f"{place} {at} is not JSON ({error.msg}); write the log again") from error
    except (ValueError, RecursionError) as error:
        cause = "it nests too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise DataError(f"{place} cannot be read as JSON ({cause}); write the log again") from error
