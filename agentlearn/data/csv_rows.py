"""Reading rows from CSV and TSV: a header and rows, or the layout of MMLU, which has no header."""

import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import chain, zip_longest

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError

WITHOUT_HEADER = ("question", "A", "B", "C", "D", "answer")
"""Columns of a file in the layout of MMLU: six fields per row, the last one a letter from A to D."""


def csv_rows(text: str, name: str, delimiter: str = ",") -> Iterator[SourceRow]:
    """Yield the rows after the header. Raises DataError for a header with a repeated name, or where quotes break."""
    lines = _lines(name, text, delimiter)
    start, header = next(lines, (1, []))
    if _is_multiple_choice(header):
        lines, header = chain([(start, header)], lines), list(WITHOUT_HEADER)
    _demand_distinct(header, name, start)
    for number, fields in lines:
        if len(fields) > len(header):
            words = (
                f"has more fields than the header; quote fields that hold {'commas' if delimiter == ',' else 'tabs'}"
            )
            yield SourceRow(f"{name}:{number}", {}, fault=f"{name} line {number} {words}")
        elif fields:
            yield SourceRow(f"{name}:{number}", dict(zip_longest(header, fields)))


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


def _lines(file: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line where it starts; a quoted field may span several lines."""
    reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=delimiter)
    start = 1
    try:
        for fields in reader:
            yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file} line {start} is not CSV ({error}); check its quotes") from error
