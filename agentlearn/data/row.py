"""A row of a source of tasks, and the names under which its columns are looked for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.errors import DataError


@dataclass(frozen=True, slots=True)
class Columns:
    """Accepted names, the first that a row has winning; capital letters do not matter, a dot reaches into a cell."""

    problem: tuple[str, ...] = ("problem", "question")
    answer: tuple[str, ...] = ("answer",)
    family: tuple[str, ...] = ("family", "type", "subject")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row and where it stands."""

    where: str
    """`FILE:LINE` (from 1, the line it starts on), or `NAME#ROW` (from 0) for what has rows and no lines."""
    fields: Mapping[str, object]

    @property
    def place(self) -> str:
        """Where it stands, for messages: `mine.jsonl line 3`, `hf:aime24 row 12`."""
        return " ".join(_parts(self.where))

    def text(self, column: str) -> str:
        """The cell as text without surrounding white space; empty where it is missing or null.

        A number is written out; of a conversation (`[{"role", "content"}, …]`) the last message counts. Raises
        DataError for anything else.
        """
        value = cell(self.fields, column)
        if isinstance(value, Sequence) and not isinstance(value, str) and value and isinstance(value[-1], Mapping):
            value = value[-1].get("content")
        if value is None or value != value:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(f"{self.place} holds in {column!r} neither text nor a number; write it as text")
        return str(value).strip()


def cell(fields: Mapping[str, object], column: str) -> object:
    """The cell of that name, whatever its capital letters.

    `reward_model.ground_truth` reaches into a cell that holds a mapping, or the text of a JSON object.
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
    """A cell with the JSON object that its text holds, as tables without nested columns keep one."""
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return None


def both_places(first: str, second: str) -> str:
    """Two places of one source, for messages: `mine.jsonl lines 1 and 3`."""
    name, unit, at = _parts(first)
    return f"{name} {unit}s {at} and {_parts(second)[2]}"


def _parts(where: str) -> tuple[str, str, str]:
    mark = max(where.rfind(":"), where.rfind("#"))
    return where[:mark], "line" if where[mark] == ":" else "row", where[mark + 1 :]
