"""Reading rows from CSV and TSV: a header and rows, or the layout of MMLU, which has no header.

Programs for tables write more than one kind of CSV: with semicolons where the comma is the decimal sign, with a first
line `sep=;`, with an index that has no name, and with empty columns and rows around the table. All of these are read.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, zip_longest

from agentlearn.data.row import Columns, SourceRow
from agentlearn.errors import DataError

WITHOUT_HEADER = ("question", "A", "B", "C", "D", "answer")
"""Columns of a file in the layout of MMLU: six fields per row, the last one a letter from A to D."""


DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_NAMED = {*Columns().problem, *Columns().answer}
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t])"?\r?(?:\n|\Z)')
_MAX_HEADER = 100_000
"""Most characters of a header that are read to tell which delimiter the file uses."""


def csv_rows(text: str, name: str, delimiter: str = ",") -> Iterator[SourceRow]:
    """Yield the rows after the header that hold anything. Columns without a name are left out.

    delimiter: the one that the file's ending stands for. Another one is used where the header shows it. Raises
    DataError for a header with a repeated name, or where quotes break.
    """
    first_line = 1
    if separator := _SEPARATOR_LINE.match(text):
        text, delimiter, first_line = text[separator.end() :], separator[1], 2
    else:
        delimiter = _delimiter(text, delimiter)
    lines = (
        (start, fields) for start, fields in _lines(name, text, delimiter, first_line) if any(map(str.strip, fields))
    )
    start, header = next(lines, (1, []))
    if _is_multiple_choice(header):
        lines, header = chain([(start, header)], lines), list(WITHOUT_HEADER)
    _demand_distinct(header, name, start)
    for number, fields in lines:
        if any(map(str.strip, fields[len(header) :])):
            words = f"has more fields than the header; quote fields that hold {DELIMITERS[delimiter]}"
            yield SourceRow(f"{name}:{number}", {}, fault=f"{name} line {number} {words}")
        else:
            named = zip_longest(header, fields[: len(header)])
            yield SourceRow(f"{name}:{number}", {column: value for column, value in named if column.strip()})


def _delimiter(text: str, usual: str) -> str:
    """Return the delimiter under which the header has most of the usual names, or else more than one name."""

    def score(delimiter: str) -> tuple[int, bool, bool]:
        try:
            header = next(filter(None, csv.reader(StringIO(text[:_MAX_HEADER], newline=""), delimiter=delimiter)), [])
        except csv.Error:
            header = []
        return len(_NAMED & {one.strip().casefold() for one in header}), len(header) > 1, delimiter == usual

    return max(DELIMITERS, key=score)


def _is_multiple_choice(first: Sequence[str]) -> bool:
    """Whether the first row is a row of MMLU and not a header."""
    named = {field.strip().casefold() for field in first}
    is_header = named & {"question", "problem", "answer"} or first[1:5] == list("ABCD")
    return len(first) == len(WITHOUT_HEADER) and bool(re.fullmatch("[A-D]", first[-1].strip())) and not is_header


def _demand_distinct(header: Sequence[str], name: str, line: int) -> None:
    seen: dict[str, str] = {}
    for column in header:
        folded = column.strip().casefold()
        if folded and folded in seen:
            raise DataError(
                f"{name} line {line} names the columns {seen[folded]!r} and {column!r}, which are the same name; give"
                " each column a name of its own",
                code="repeated_column",
            )
        seen[folded] = column


def _lines(file: str, text: str, delimiter: str, start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it starts; a quoted field may span several lines."""
    reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=delimiter)
    before = start - 1
    try:
        for fields in reader:
            yield start, fields
            start = before + reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file} line {start} is not CSV ({error}); check its quotes") from error
