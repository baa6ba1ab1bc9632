"""Reading rows from JSONL, JSON, CSV and Parquet files. Every error names the file, the line and the next step."""

import csv
import json
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import zip_longest
from pathlib import Path

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError, MissingExtra

_BATCH_ROWS = 1_024


def file_rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows of a file; its suffix gives the format. Raises DataError, or MissingExtra when a reader is
    missing.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        *some, last = map(repr, _READERS)
        raise DataError(
            f"{path.name} has the ending {path.suffix!r}; give a file that ends in {', '.join(some)} or {last}"
        )
    return read(path)


def _jsonl(path: Path) -> Iterator[SourceRow]:
    # Not splitlines(): JSON text may contain Unicode line separators.
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            with _json_words(path.name, number, "write one JSON object per line"):
                value = _DECODER.decode(line)
            yield _object(value, path.name, number, "per line")


def _json(path: Path) -> Iterator[SourceRow]:
    """Yield the objects of one array one by one, so that each keeps its line number."""
    text, name, advice = _text(path), path.name, "write one array of JSON objects"
    at = _skip(text, 0)
    if at == len(text):
        return
    if text[at] != "[":
        raise DataError(f"{name} has no JSON array; {advice}, or name it '.jsonl'")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        number = text.count("\n", 0, at) + 1
        with _json_words(name, 1, advice):
            value, at = _DECODER.raw_decode(text, at)
        yield _object(value, name, number, "per entry")
        at = _skip(text, at)
        if text[at : at + 1] not in {",", "]"}:
            number = text.count("\n", 0, at) + 1
            raise DataError(f"{name} line {number} has no ',' or ']' after an object; {advice}")
        at = _skip(text, at + 1) if text[at] == "," else at


def _csv(path: Path) -> Iterator[SourceRow]:
    lines = _csv_lines(path.name, _text(path))
    _, header = next(lines, (0, []))
    for start, fields in lines:
        if len(fields) > len(header):
            raise DataError(f"{path.name} line {start} has more fields than the header; quote fields that hold commas")
        if fields:
            yield SourceRow(f"{path.name}:{start}", dict(zip_longest(header, fields)))


def _csv_lines(file: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it starts; a quoted field may span several lines."""
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file} line {start} is not CSV ({error}); check its quotes") from error


def _parquet(path: Path) -> Iterator[SourceRow]:
    _bytes(path, most=1)  # a missing file gets the same message as for other formats, with or without pyarrow
    try:
        from pyarrow import ArrowException  # pyright: ignore[reportMissingImports]
        from pyarrow.parquet import ParquetFile  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtra(f"reading {path.name!r} needs pyarrow: pip install 'agentlearn-lib[data]'") from error
    number = 0
    try:
        with ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                for fields in batch.to_pylist():
                    yield SourceRow(f"{path.name}#{number}", fields)
                    number += 1
    except (ArrowException, OSError) as error:
        cause = " ".join(str(error).split())
        raise DataError(f"{path.name} is not Parquet ({cause}); write it again, or give JSONL or CSV") from error


@contextmanager
def _json_words(file: str, first_line: int, advice: str) -> Generator[None]:
    """Turn errors about JSON text that starts on that line into DataErrors."""
    try:
        yield
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise DataError(f"{file} line {line} column {error.colno} is not JSON ({error.msg}); {advice}") from error
    except RecursionError as error:
        raise DataError(f"{file} line {first_line} nests too deeply; write one flat JSON object per line") from error


def _object(value: object, file: str, number: int, each: str) -> SourceRow:
    if not isinstance(value, dict):
        raise DataError(
            f"{file} line {number} is not a JSON object; write one object with 'problem' and 'answer' {each}"
        )
    return SourceRow(f"{file}:{number}", value)


def _skip(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _text(path: Path) -> str:
    body = _bytes(path)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise DataError(f"{path.name} line {line} is not UTF-8; save the file as UTF-8") from error


def _bytes(path: Path, most: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}; check the path") from error
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read ({error.strerror}); give a readable file") from error


_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
"""Numbers stay text, so that no digit is lost."""

_READERS: dict[str, Callable[[Path], Iterator[SourceRow]]] = {
    ".jsonl": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
}
