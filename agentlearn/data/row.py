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
    return ConfigError(f"--columns {text!r} {why}; write it as in --columns '{_EXAMPLE}'")


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
    unanswered: str = ""
    """Why the source has no answer and what to do, as the rest of a sentence; empty where a column holds answers."""

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
        if is_spreadsheet_error(value):
            why = "is an error of a spreadsheet; write the value, or take the row out"
            raise DataError(f"{self.place} has {str(value).strip()!r} in {column!r}, which {why}")
        if isinstance(value, Sequence) and not isinstance(value, str) and value and isinstance(value[-1], Mapping):
            value = value[-1].get("content")
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        match value:
            case bool():
                what = f"the truth value {str(value).lower()}, which is neither text nor a number,"
            case float() if math.isinf(value):
                what = "an infinite number"
            case Decimal() if not value.is_finite():
                what = "a number that is not finite"
            case str() | int() | float() | Decimal():
                return str(value).strip()
            case Sequence():
                what = f"a list of {len(value)}, which is neither text nor a number,"
            case _:
                what = "neither text nor a number"
        raise DataError(f"{self.place} has {what} in {column!r}; write it as text")

    def missed(self, layout: "RowLayout", left: Sequence[str]) -> str:
        """Return the sentence about columns that would be passed over, with the two choices that the user has."""
        which = " and ".join(map(repr, left))
        parts = [
            name
            for name in left
            if not (any(map(_OF_CHOICES.fullmatch, _words(name))) or _BARE.fullmatch(_folded(name)))
        ]
        choices = [*layout.choices, *(name for name in left if name not in parts)]
        question = "+".join(layout.problem)
        answer = f" answer={layout.answer}" if layout.answer else ""
        whole = f"problem={'+'.join([*parts, question])}{answer}" + (f" choices={'+'.join(choices)}" if choices else "")
        return (
            f"{self.place} has {which} next to the problem {question!r}, which may be a part of it; add --columns"
            f" {whole!r} to read it, or --columns {f'problem={question}{answer}'!r} to leave it out"
        )


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
    nested = cell(fields, outer) if dot else None
    if isinstance(nested, str) and nested.lstrip().startswith("{"):  # how tables without nested columns store one
        nested = json_or_none(nested)
    return cell({str(name): value for name, value in nested.items()}, inner) if isinstance(nested, Mapping) else None


def is_empty(value: object) -> bool:
    """Whether a cell holds nothing: null, not a number, white space, or a list or mapping without entries."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Sequence | Mapping) and len(value) == 0)


_SPREADSHEET_ERROR = re.compile(r"#(?:[¡¿]?[^\W\d_][\w/]+[!?]|(?i:n/[adv]|nv|na|н/д|getting_data))|(?i:err):\d{3}")


def is_spreadsheet_error(value: object) -> bool:
    """Whether a cell holds what a spreadsheet shows in place of a value, in any language: `#N/A`, `#REF!`, `#NAME?`."""
    found = _SPREADSHEET_ERROR.fullmatch(value.strip()) if isinstance(value, str) else None
    return found is not None and (found[0][-1] not in "!?" or found[0] == found[0].upper())


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


SOLUTION = "solution"
"""Column whose last box is the answer of a row without an answer column, as in MATH."""
_CHOICES = ("choices", "options", "answer_choices", "candidates", "endings", "mc_choices", "multiple_choice")
_RIGHT_CHOICE = (
    *("answerkey", "answer_key", "correct", "label", "correct_option", "correct_answer", "answer_idx"),
    *("answer_index", "answer_letter", "gold", "target"),
)
"""Columns that name the right choice in a row that has choices and no answer column."""
_STORY = ("body",)
"""Columns that SVAMP and ASDiv read before the question."""
_PASSAGE = ("passage", "article", "context")
"""Columns that tests of reading show before a question with choices."""
_CONCEPT = "question_concept"
"""A word of the question, which CommonsenseQA names again."""
_PART_NAME = re.compile(
    r"article|background|body|candidates|chart|choice|choices|code|concept|context|conversation|ctx|"
    r"diagram|dialog|dialogue|distractor|distractors|document|documents|endings|excerpt|fact|facts|figure|"
    r"figures|graph|hypothesis|image|images|img|input|introduction|knowledge|numbers|nums|option|options|paragraph|"
    r"paragraphs|passage|passages|picture|pictures|preamble|premise|scenario|scene|sentence|sentences|"
    r"snippet|stem|stimulus|story|support|table|tables|text|transcript|values|variables"
)
"""Words in the name of a column that may hold a part of the problem."""
_ABOUT = re.compile(
    r"answer|answers|author|category|count|date|format|hash|id|ids|idx|index|lang|language|len|length|"
    r"level|license|link|name|num|number|path|size|source|split|title|topic|type|types|url"
)
"""Last words of names of columns that say something about a part and do not hold it."""
_OF_CHOICES = re.compile(r"choices?|options?|candidates|endings|distractors?")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LETTERED = re.compile(r"(?:options?|choices?|answer|ans|op)[ _.-]?\(?([a-h])\)?", re.IGNORECASE)
_BARE = re.compile(r"\(?([a-h])[).]?", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:options?|choices?|answer|ans|ending)[ _.-]?([0-9])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where a row holds what. Columns have the names that the row gives them."""

    problem: tuple[str, ...]
    """Columns that are joined to the problem, in order; empty when the row has none."""
    answer: str = ""
    """Empty when the row has none."""
    choices: tuple[str, ...] = ()
    """One column that holds all choices, or one column for each."""
    boxed: bool = False
    """Whether the answer is the last box of the answer column."""

    def used(self) -> tuple[str, ...]:
        """Return all columns that are read."""
        return tuple(filter(None, (*self.problem, *self.choices, self.answer)))

    @classmethod
    def _chosen(cls, row: SourceRow, chosen: ColumnChoice, usual: str) -> "RowLayout":
        """Return the layout that the user chose. usual: the answer column with a usual name. Raises DataError."""
        folded = {_folded(one) for one in row.fields}

        def exists(name: str) -> bool:
            return _folded(name) in folded or cell(row.fields, name) is not None

        def split(text: str) -> tuple[str, ...]:
            """The columns that `A+B` names; a column whose own name holds a `+` is one."""
            names = (text,) if exists(text) else tuple(part.strip() for part in text.split("+"))
            for name in names:
                if not exists(name):
                    known = ", ".join(map(repr, row.fields)) or "none"
                    raise DataError(f"{row.place} has no column {name!r}; choose from {known} in --columns")
            return names

        answer = chosen.answer or usual
        if chosen.answer and ("+" not in answer or exists(answer)):
            (answer,) = split(answer)
        return cls(
            split(chosen.problem),
            answer,
            split(chosen.choices) if chosen.choices else (),
            boxed=_folded(answer) == SOLUTION and r"\boxed" in row.text(answer),
        )

    @classmethod
    def of(cls, row: SourceRow, columns: Columns) -> "RowLayout":
        """Return the layout of a row. Raises DataError when a part of the problem could be missed."""
        answer = next((name for name in columns.answer if not is_empty(cell(row.fields, name))), "")
        if columns.chosen is not None:
            return cls._chosen(row, columns.chosen, answer)
        filled = {_folded(name): name for name, value in row.fields.items() if _folded(name) and not is_empty(value)}
        choices = _choice_columns(filled, "" if not answer else str(cell(row.fields, answer)))
        boxed = not answer and not choices and SOLUTION in filled and isinstance(row.fields[filled[SOLUTION]], str)
        if boxed:
            answer = filled[SOLUTION]
        elif choices and not answer:
            answer = next((filled[name] for name in _RIGHT_CHOICE if name in filled), "")
        named = (name for name in columns.problem if not is_empty(cell(row.fields, name)))
        texts = {name: text for name in named if (text := row.text(name))}
        if len(set(texts.values())) > 1:
            which = " and a ".join(map(repr, texts))
            raise DataError(f"{row.place} has a {which} that differ; keep one of them")
        problem = tuple(texts)[:1]
        names = () if not problem else (*_STORY, *_PASSAGE) if choices and answer else _STORY
        before = tuple(filled[name] for name in names if name in filled)
        found = cls((*before, *problem), answer, choices, boxed=boxed)
        left = [name for name in _parts_left(row.fields, found) if not (choices and _folded(name) == _CONCEPT)]
        if problem and left:
            raise DataError(row.missed(found, left))
        return found


def _choice_columns(filled: Mapping[str, str], answer: str) -> tuple[str, ...]:
    """Return the column that holds all choices, or the columns that hold one each; the first two must be there.

    Columns whose names are nothing but letters are choices when the answer is one of these letters.
    """
    if whole := next((filled[name] for name in _CHOICES if name in filled), ""):
        return (whole,)
    for pattern, starts in ((_LETTERED, "a"), (_NUMBERED, "01"), (_BARE, "a")):
        if pattern is _BARE and not _BARE.fullmatch(answer.strip()):
            continue
        found = {one[1].casefold(): name for folded, name in filled.items() if (one := pattern.fullmatch(folded))}
        at, run = next((start for start in starts if start in found), ""), list[str]()
        while at in found:  # up to a gap
            run.append(found[at])
            at = chr(ord(at) + 1)
        if len(run) >= 2:
            return tuple(run)
    return ()


def _parts_left(fields: Mapping[str, object], layout: RowLayout) -> list[str]:
    """Return the filled columns that may hold a part of the problem and that the layout does not read."""
    used = {_folded(name) for name in layout.used()}
    filled = [name for name, value in fields.items() if _folded(name) not in used and not is_empty(value)]
    letters = [name for name in filled if _BARE.fullmatch(_folded(name))]
    listed = letters if [_folded(name).strip("().") for name in letters[:3]] == ["a", "b", "c"] else []
    left: list[str] = []
    for name in filled:
        words = _words(name)
        if name in listed or (any(map(_PART_NAME.fullmatch, words)) and not _ABOUT.fullmatch(words[-1])):
            left.append(name)
    return left


def _words(name: str) -> list[str]:
    """Return the words of a column's name in lower case: `the`, `context` of `theContext` and of `the_context`."""
    return [word.casefold() for word in _WORD.findall(name)]


def _folded(name: str) -> str:
    return name.strip().casefold()
