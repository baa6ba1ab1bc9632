"""A row of a source of tasks, and the names of its columns."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from agentlearn.data.column_choice import ColumnChoice
from agentlearn.data.strict_json import json_or_none
from agentlearn.errors import DataError


@dataclass(frozen=True, slots=True)
class Columns:
    """Accepted column names; the first that a row has is used. Case does not matter, and a dot reads inside a cell."""

    problem: tuple[str, ...] = ("problem", "question")
    answer: tuple[str, ...] = ("answer",)
    family: tuple[str, ...] = ("family", "template", "cluster")
    """Problems made alike. A type or a subject is none of these: its problems are independent of each other."""
    chosen: ColumnChoice | None = None
    """The columns that the user chose; they replace the accepted names and every recognised layout."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row and its place in the source."""

    where: str
    """`FILE:LINE` (from 1, the line where the row starts), or `NAME#ROW` (from 0) for sources without lines."""
    fields: Mapping[str, object]
    fault: str = ""
    """Why this row cannot be read, as a sentence with its place; empty for a row that can."""

    @property
    def place(self) -> str:
        """The place for messages: `mine.jsonl line 3`, `hf:aime24 row 12`."""
        return " ".join(_parts(self.where))

    def text(self, column: str) -> str:
        """Return the cell as text without surrounding white space; empty when it is missing or null.

        A number is written as text; of a conversation (`[{"role", "content"}, …]`) the last message is used. Raises
        DataError for anything else.
        """
        value = cell(self.fields, column)
        if isinstance(value, Sequence) and not isinstance(value, str) and value and isinstance(value[-1], Mapping):
            value = value[-1].get("content")
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if (what := _unusable(value)) is not None:
            raise DataError(f"{self.place} has {what} in {column!r}; write it as text", code="bad_cell")
        return str(value).strip()


def _unusable(value: object) -> str | None:
    """Return what a cell holds that is neither text nor a number; None for a text or a number."""
    match value:
        case bool():
            return f"the truth value {str(value).lower()}, which is neither text nor a number,"
        case float() if math.isinf(value):
            return "an infinite number"
        case Decimal() if not value.is_finite():
            return "a number that is not finite"
        case str() | int() | float() | Decimal():
            return None
        case Sequence():
            return f"a list of {len(value)}, which is neither text nor a number,"
        case _:
            return "neither text nor a number"


def cell(fields: Mapping[str, object], column: str) -> object:
    """Return the cell of that name; case does not matter.

    `reward_model.ground_truth` reads inside a cell that holds a mapping or the text of a JSON object.
    """
    if column in fields:
        return fields[column]
    for name, value in fields.items():
        if name.strip().casefold() == column.strip().casefold():
            return value
    outer, dot, inner = column.partition(".")
    nested = _opened(cell(fields, outer)) if dot else None
    return cell({str(name): value for name, value in nested.items()}, inner) if isinstance(nested, Mapping) else None


def is_empty(value: object) -> bool:
    """Whether a cell holds nothing: null, not a number, white space, or a list or mapping without entries."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Sequence | Mapping) and len(value) == 0)


def _opened(value: object) -> object:
    """Return the JSON object in a text cell, which is how tables without nested columns store one."""
    return json_or_none(value) if isinstance(value, str) and value.lstrip().startswith("{") else value


def both_places(first: str, second: str) -> str:
    """Return two places of one source, for messages: `mine.jsonl lines 1 and 3`."""
    name, unit, at = _parts(first)
    other, _, other_at = _parts(second)
    if name != other:
        return f"{name} {unit} {at} and {' '.join(_parts(second))}"
    return f"{name} {unit}s {at} and {other_at}"


def _parts(where: str) -> tuple[str, str, str]:
    mark = max(where.rfind(":"), where.rfind("#"))
    return where[:mark], "line" if where[mark] == ":" else "row", where[mark + 1 :]
