"""A row of a source of tasks, and the names of its columns."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from agentlearn.errors import ConfigError, DataError

PARTS = ("problem", "answer", "choices", "family")
_EXAMPLE = "problem=Body+Question answer=Answer"
_PART = re.compile(rf"(?:^|(?<=[\s,]))({'|'.join(PARTS)})\s*=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """Which columns hold what. Several columns are joined with `+`."""

    problem: str
    answer: str = ""
    """Empty: the column with the usual name, if any."""
    choices: str = ""
    """Empty: the task has no choices."""
    family: str = ""
    """Empty: the column with a usual name, if any."""

    def __str__(self) -> str:
        return " ".join(f"{part}={value}" for part in PARTS if (value := getattr(self, part)))


def parse_columns(text: str) -> ColumnChoice:
    """Return the choice that `problem=A+B answer=C` writes. Raises ConfigError."""
    found = list(_PART.finditer(text))
    if not found or text[: found[0].start()].strip(" ,"):
        raise _refused(text, "does not say which column is the problem")
    ends = [*(one.start() for one in found[1:]), len(text)]
    values = [text[one.end() : end].strip().strip(",").strip() for one, end in zip(found, ends, strict=True)]
    names = [one[1].lower() for one in found]
    if len(set(names)) < len(names):
        raise _refused(text, "gives the columns of one part twice")
    if not all(values):
        raise _refused(text, f"names no column for {names[values.index('')]!r}")
    if "problem" not in names:
        raise _refused(text, "does not say which column is the problem")
    return ColumnChoice(**dict(zip(names, values, strict=True)))


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"--columns {text!r} {why}; write it as in --columns '{_EXAMPLE}'", code="bad_columns")


class NumberText(str):
    """A number of a JSON text, with all its digits. It is text everywhere, but its cell held a number."""

    __slots__ = ()


@dataclass(slots=True)
class StrictDecoder:
    """A JSON decoder that lists what is wrong with a value besides its syntax."""

    faults: list[str] = field(default_factory=list[str])
    """What is wrong with the values decoded since the last `take_faults`; each continues `FILE line N`."""
    _decoder: json.JSONDecoder = field(init=False)

    def __post_init__(self) -> None:
        self._decoder = json.JSONDecoder(
            parse_int=NumberText,
            parse_float=NumberText,
            parse_constant=self._no_number,
            object_pairs_hook=self._object,
        )

    def decode(self, text: str) -> object:
        """Return the value of a JSON text. Raises JSONDecodeError or RecursionError."""
        return self._decoder.decode(text)

    def decode_at(self, text: str, at: int) -> tuple[object, int]:
        """Return the value that starts at a position, and the position after it."""
        return self._decoder.raw_decode(text, at)

    def take_faults(self) -> list[str]:
        """Return the faults found so far, and forget them."""
        found, self.faults = self.faults, []
        return found

    def _no_number(self, word: str) -> str:
        self.faults.append(f"holds {word}, which is not a value in JSON; write null or the value, or take the row out")
        return word

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                self.faults.append(f"has the key {key!r} twice in one object; keep one of them")
            found[key] = value
        return found


def json_or_none(text: str) -> object:
    """Return the value of a JSON text; None for a text that is not JSON or has a fault."""
    decoder = StrictDecoder()
    try:
        value = decoder.decode(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return None if decoder.faults else value


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
