"""A row of a source of tasks, and the names of its columns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.errors import DataError


@dataclass(frozen=True, slots=True)
class Columns:
    """Accepted column names; the first that a row has is used. Case does not matter, and a dot reads inside a cell."""

    problem: tuple[str, ...] = ("problem", "question")
    answer: tuple[str, ...] = ("answer",)
    family: tuple[str, ...] = ("family", "type", "subject")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row and its place in the source."""

    where: str
    """`FILE:LINE` (from 1, the line where the row starts), or `NAME#ROW` (from 0) for sources without lines."""
    fields: Mapping[str, object]

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
        if value is None or value != value:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(f"{self.place} has neither text nor a number in {column!r}; write it as text")
        return str(value).strip()


def cell(fields: Mapping[str, object], column: str) -> object:
    """Return the cell of that name; case does not matter.

    `reward_model.ground_truth` reads inside a cell that holds a mapping or the text of a JSON object.
    """
    if column in fields:
        return fields[column]
    for name, value in fields.items():
        if name.strip().casefold() == column.casefold():
            return value
    outer, dot, inner = column.partition(".")
    nested = _opened(cell(fields, outer)) if dot else None
    return cell({str(name): value for name, value in nested.items()}, inner) if isinstance(nested, Mapping) else None


def _opened(value: object) -> object:
    """Return the JSON object in a text cell, which is how tables without nested columns store one."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return None


def both_places(first: str, second: str) -> str:
    """Return two places of one source, for messages: `mine.jsonl lines 1 and 3`."""
    name, unit, at = _parts(first)
    return f"{name} {unit}s {at} and {_parts(second)[2]}"


def _parts(where: str) -> tuple[str, str, str]:
    mark = max(where.rfind(":"), where.rfind("#"))
    return where[:mark], "line" if where[mark] == ":" else "row", where[mark + 1 :]
