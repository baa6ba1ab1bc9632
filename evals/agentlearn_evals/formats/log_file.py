"""A log file as the user names it: an archive, a JSON document or rows, and how single values of a log are parsed.

A file is recognised by its bytes and not by its name. Every error names the place, the value and the next step.

Spreadsheet programs take a cell for a formula when it starts with `=`, `+`, `-`, `@`, a tab or a line end, also after
white space and in full-width letters. Such a text gets an apostrophe in front, and so does one that starts with
apostrophes and then such a sign, so that `original_cell` can undo it. Numbers are written as they are.
"""

import csv
import json
import math
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, ClassVar
from unicodedata import category, normalize

from pydantic import Field, ValidationError
from typing_extensions import TypeIs

from agentlearn.data.files import read_bytes, read_text
from agentlearn.data.row import SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.score_table import Observation
from agentlearn.store.parquet import parquet_rows
from agentlearn.text import storable
from agentlearn.types.value import Value

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


class LogFile(Value):
    """A log file to read, the name of its arm, and which of its scores to use."""

    path: Path
    arm: str = ""
    """Name of the arm; empty: use the name in the log."""
    score: str = ""
    """Scorer, metric or reward column to use; needed only when the log holds several."""

    @classmethod
    def parse(cls, text: str) -> "LogFile":
        """Parse `FILE`, `FILE#SCORE`, `ARM=FILE` or `ARM=FILE#SCORE`. The first reading whose file exists is used."""
        arm, equals, named = text.partition("=")
        readings: list[LogFile] = []
        for arm_given, path in [("", text), *([(arm, named)] if equals and arm else [])]:
            readings.append(LogFile(path=Path(path), arm=arm_given))
            file, mark, score = str(Path(path)).rpartition("#")
            if mark and file and score:
                readings.append(LogFile(path=Path(file), arm=arm_given, score=score))
        return next((reading for reading in readings if reading.path.exists()), readings[-1])

    def choose(self, names: Sequence[str]) -> str:
        """Return the score to use: the one the user named, or the only one. Raises ConfigError or DataError."""
        file, listed = self.path.name, ", ".join(map(repr, names))
        if not names:
            raise DataError(f"{file} holds no score; score its samples, then give the log with the scores")
        if self.score:
            if self.score not in names:
                raise ConfigError(
                    f"{file} has no score {self.score!r} (it has {listed}); write one of them after the '#'"
                )
            return self.score
        if len(names) > 1:
            raise ConfigError(f"{file} holds several scores ({listed}); choose one, such as {f'{file}#{names[0]}'!r}")
        return names[0]


Span = tuple[datetime, datetime]
"""The first and the last moment of something, with a time zone."""


def span(moments: Iterable[Any]) -> Span | None:
    """Return the span of moments: ISO 8601 texts, seconds since 1970, or datetimes; UTC where they have no time zone.

    What is none of these is left out; None when nothing is left.
    """
    found: list[datetime] = []
    for one in moments:
        try:
            moment = datetime.fromtimestamp(one, UTC) if isinstance(one, int | float) else one
            moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        except (ValueError, OverflowError, OSError):
            continue
        if isinstance(moment, datetime):
            found.append(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    return (min(found), max(found)) if found else None


class LogSet(Value):
    """Everything that was read from the logs."""

    observations: tuple[Observation, ...]
    """All rollouts, in the order of the files, and within a file in its order."""
    sources: dict[str, str] = Field(default_factory=dict[str, str])
    """sha256 by file name; by path where two files have the same name."""
    models: dict[str, str] = Field(default_factory=dict[str, str])
    """Model by arm, where the log holds it; several models are joined by commas."""
    warnings: tuple[str, ...] = ()
    """Why the logs may say too little: unfinished logs, samples that are not in the log, empty responses."""
    notes: tuple[str, ...] = ()
    """What else a reader of the result should know, such as unread columns."""
    times: dict[str, Span] = Field(default_factory=dict[str, Span])
    """When the rollouts of an arm were made, by arm, where the logs say it."""
    places: dict[tuple[str, str, int], str] = Field(default_factory=dict[tuple[str, str, int], str])
    """Where each rollout is in the logs, by arm, task and index: `runs.csv line 7`."""


@dataclass(frozen=True, slots=True)
class LoggedRollout:
    """One rollout in a log."""

    place: str
    """Where it is in the file, for messages: `runs.csv line 7`."""
    observation: Observation
    numbered: bool
    """Whether the log itself numbers the rollouts of a task; otherwise they are numbered in file order."""
    empty: bool = False
    """Whether the response of the agent is recorded and empty, although the rollout has a score."""


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """Everything that was read from one file."""

    rollouts: tuple[LoggedRollout, ...]
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    """Model by arm."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know about this file."""
    warnings: tuple[str, ...] = ()
    """Why this file may say too little, such as a run that did not finish."""
    times: Mapping[str, Span] = field(default_factory=dict[str, Span])
    """When the rollouts of an arm were made, where the log says it."""


class LogReader(ABC):
    """Reads a log of one format."""

    name: ClassVar[str]
    """Name of the format in error messages."""

    def __init__(self, log: LogFile) -> None:
        self.log, self.file = log, log.path.name

    @staticmethod
    @abstractmethod
    def matches(content: Content) -> bool:
        """Return whether a file with this content has the format."""

    @abstractmethod
    def read(self, content: Content) -> ParsedLog:
        """Read the file. Raises DataError or ConfigError."""


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_NOT_FINITE = frozenset(("nan", "inf", "infinity"))
_CODE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def abbreviate(value: object) -> str:
    """Return the value for a message, shortened when it is long."""
    return reprlib.repr(value)


def is_number(value: object) -> TypeIs[bool | int | float | Decimal]:
    """Return whether the value is a number or a bool; NaN is a number, text is not."""
    return isinstance(value, bool | int | float | Decimal)


def is_empty(value: object) -> bool:
    """Return whether a cell is empty: None, blank text, or NaN, which tables of numbers use for empty cells."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def as_text(value: object) -> str:
    """Return the value as text: structures as JSON, None and NaN as empty text, lone surrogates escaped."""
    if value is None or value != value:
        return ""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return storable(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))
    return str(value)


def parse_texts(value: object) -> tuple[str, ...]:
    """Return several texts, from a list, a JSON array, or one text with `;` between them."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, str):
        return tuple(part.strip() for part in storable(value).split(";") if part.strip())
    if isinstance(value, Sequence):
        return tuple(as_text(one) for one in value)
    return () if value is None else (as_text(value),)


def prompt_text(content: object) -> str:
    """Return the question of a prompt: the text itself, or the last user message."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return as_text(content)
    messages = [one for one in content if isinstance(one, Mapping)]
    asked = [one for one in messages if one.get("role") == "user"] or messages
    if not asked:
        return as_text(content)
    parts = asked[-1].get("content")
    if isinstance(parts, Sequence) and not isinstance(parts, str):
        return "\n".join(as_text(part.get("text")) for part in parts if isinstance(part, Mapping) and part.get("text"))
    return as_text(parts)


def error_code(message: str) -> str:
    """Return the exception name at the start of a message; `error` when there is none."""
    named = _CODE.match(message)
    return named[0].rpartition(".")[2] if named else "error"


class Place(str):
    """Where something stands in a log, such as `runs.csv line 7`. Its methods read values there, and errors name it."""

    __slots__ = ()

    def number(self, value: object, what: str, *, letters: bool = False) -> float:
        """Return a finite number, given as a number or as text; a bool is 1 or 0. Raises DataError.

        what: name of the value for the message. letters: also accept inspect_ai's grades C, P, I, N, and yes, no, true,
        false.
        """
        read: float | None = None
        if isinstance(value, str):
            text = value.strip()
            if letters:
                read = _LETTERS.get(value, _LETTERS.get(value.lower()) if len(value) > 1 else None)
            if read is None and (_NUMBER.fullmatch(text) or text.lower().lstrip("+-") in _NOT_FINITE):
                read = float(text)
        elif is_number(value):
            try:
                read = float(value)
            except OverflowError:
                read = math.inf
        if read is None:
            raise DataError(f"{self} has {abbreviate(value)} as {what}, not a number; write a number", code="bad_score")
        if not math.isfinite(read):
            raise DataError(
                f"{self} has {abbreviate(value)} as {what}, which is not finite; write a finite number, or status"
                " 'failed'",
                code="bad_score",
            )
        return read

    def optional_number(self, value: object, what: str) -> float | None:
        """Return the number as `number` does; None for an empty cell."""
        return None if is_empty(value) else self.number(value, what)

    def optional_count(self, value: object, what: str) -> int | None:
        """Return a whole number from 0; None for an empty cell. Raises DataError."""
        if is_empty(value):
            return None
        if isinstance(value, str):
            whole = re.fullmatch(r"([0-9]{1,19})(?:\.0*)?", value.strip())  # tables with empty cells write 3 as 3.0
            count = int(whole[1]) if whole else None
        elif isinstance(value, bool) or not is_number(value) or not math.isfinite(value):
            count = None
        else:
            count = int(value) if value >= 0 and int(value) == value else None
        if count is None:
            raise DataError(f"{self} has {abbreviate(value)} as {what}; write a whole number from 0, or leave it empty")
        return count

    def observation(self, **fields: Any) -> Observation:
        """Return an observation with these fields. Raises DataError when a field is out of range."""
        try:
            return Observation(**fields)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"])) or "score"
            words = f"{self} has {abbreviate(first['input'])} as {field} ({first['msg']}); correct it"
            raise DataError(words) from error
