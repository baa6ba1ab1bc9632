"""A row of a source of tasks, and the names of its columns."""

import ast
import json
import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
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


def _json_or_none(text: str) -> object:
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
        raise DataError(f"{self.place} has {what} in {column!r}; write it as text", code="bad_cell")

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
        nested = _json_or_none(nested)
    return cell({str(name): value for name, value in nested.items()}, inner) if isinstance(nested, Mapping) else None


def is_empty(value: object) -> bool:
    """Whether a cell holds nothing: null, not a number, white space, or a list or mapping without entries."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, Sequence | Mapping) and len(value) == 0)


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
                    raise DataError(
                        f"{row.place} has no column {name!r}; choose from {known} in --columns", code="no_column"
                    )
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
            raise DataError(f"{row.place} has a {which} that differ; keep one of them", code="two_problems")
        problem = tuple(texts)[:1]
        names = () if not problem else (*_STORY, *_PASSAGE) if choices and answer else _STORY
        before = tuple(filled[name] for name in names if name in filled)
        found = cls((*before, *problem), answer, choices, boxed=boxed)
        left = [name for name in _parts_left(row.fields, found) if not (choices and _folded(name) == _CONCEPT)]
        if problem and left:
            raise DataError(row.missed(found, left), code="part_of_problem")
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


REQUEST = "Answer with the letter of the right choice."
"""Last line of a problem with choices."""

_LETTERS = string.ascii_uppercase
_NUMBERS = NumberText | int | float
_OWN_LETTER = re.compile(r"\s*(?:\(\s*([A-Za-z])\s*\)|\[\s*([A-Za-z])\s*\]|([A-Za-z])\s?[).:])\s*(?=\S)")
_MARK = re.compile(r"(?:^|(?<=[\s,;\[]))(?:\(([A-Ja-j])\)|([A-Ja-j])\s?[).:])(?=\s*\S)")
_LETTER_IN_MARK = re.compile(r"[A-Za-z]")
_NUMBER = re.compile(r"(\d{1,2})(?:\.0+)?", re.ASCII)
_LETTER = re.compile(r"\(?\[?\s*([A-Za-z])\s*\]?\)?[.:]?")


@dataclass(frozen=True, slots=True)
class TaskChoices:
    """The choices of one task, in order."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    """What the source calls them, such as `1` or `A`; empty when it gives them no names."""
    numeric: bool = False
    """Whether the source writes them as numbers and not as text."""

    def below(self, problem: str) -> str:
        """Return the problem with the choices under it, each with its letter, and what to answer with."""
        lines = (f"{letter}. {text}" for letter, text in zip(_LETTERS, self.texts, strict=False))
        return "\n".join([problem, "", *lines, "", REQUEST])

    def letter(self, answer: object) -> str:
        """Return the letter of the choice that an answer cell names, by its letter, label, number from 0, or text.

        Raises ValueError with words that continue `FILE line N` when it names none, or could name two.
        """
        found = self._named(answer)
        shown = str(answer).strip()
        if not found:
            raise ValueError(
                f"has the answer {shown!r}, which names none of its {len(self.texts)} choices; write the letter of the"
                " right one"
            )
        if len(found) > 1:
            which = " or ".join(_LETTERS[index] for index in sorted(found))
            raise ValueError(f"has the answer {shown!r}, which could mean choice {which}; write the letter")
        return _LETTERS[found.pop()]

    def position(self, answer: object) -> int | None:
        """Return the number of the right choice, from 0, when the answer is nothing but this number; else None."""
        found = self._by_number(answer)
        is_text = self._named(answer) != found or (not isinstance(answer, _NUMBERS) and self._by_name(answer))
        return None if is_text or not found else found.pop()

    def _named(self, answer: object) -> set[int]:
        """Return the positions of the choices that an answer cell can mean."""
        if isinstance(answer, _NUMBERS) and not self.numeric and not self.labels:
            return self._by_number(answer)
        return self._by_name(answer) | self._by_number(answer)

    def _by_name(self, answer: object) -> set[int]:
        """Return the positions of the choices with this label or letter, and with this text."""

        def plain(text: str) -> str:
            return " ".join(text.split()).casefold()

        text = plain(str(answer))
        same = {index for index, one in enumerate(self.texts) if plain(one) == text}
        found = _LETTER.fullmatch(text)
        if self.labels:
            bare = plain(found[1] if found else text)
            return {index for index, one in enumerate(self.labels) if plain(one) == bare} or same
        at = _LETTERS.index(found[1].upper()) if found else len(self.texts)
        return same | ({at} if at < len(self.texts) else set())

    def _by_number(self, answer: object) -> set[int]:
        """Return the position that a number from 0 gives, for choices without labels."""
        found = _NUMBER.fullmatch(str(answer).strip())
        return {int(found[1])} if found and not self.labels and int(found[1]) < len(self.texts) else set()

    @classmethod
    def read(cls, value: object) -> "TaskChoices | None":
        """Return the choices in a cell: a list, a mapping, or JSON or Python text of one; None when there are none."""
        if isinstance(value, str):
            value = _choices_in(value)
        if isinstance(value, str):
            return cls._marked(value)
        if hasattr(value, "tolist"):
            value = value.tolist()  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(value, Mapping):
            cells = {str(name).strip().casefold(): one for name, one in value.items()}
            texts, labels, names = cells.get("text"), cells.get("label"), sorted(cells)
            if isinstance(texts, Sequence) and isinstance(labels, Sequence) and not isinstance(texts, str):
                return cls._complete(texts, labels)
            letters = list(string.ascii_lowercase[: len(names)])
            return cls._complete([cells[name] for name in names], names) if names == letters else None
        return cls.of(value) if isinstance(value, Sequence) else None

    @classmethod
    def of(cls, values: Sequence[object], *, columns: bool = False) -> "TaskChoices | None":
        """Return the choices in a list. columns: they stand in one column each; empty ones at the end do not count."""
        kept = list(values)
        while columns and kept and is_empty(kept[-1]):
            kept.pop()
        if kept and all(isinstance(one, Mapping) for one in kept):
            entries = [{str(name).casefold(): one for name, one in entry.items()} for entry in kept]  # pyright: ignore[reportAttributeAccessIssue]
            labels = [entry.get("label", entry.get("key")) for entry in entries]
            return cls._complete([entry.get("text") for entry in entries], labels)
        found = cls._complete(kept)
        if found is None:
            return None
        own = [_OWN_LETTER.match(text) for text in found.texts]
        letters = [(one[1] or one[2] or one[3]).upper() if one else "" for one in own]
        texts = found.texts
        if letters == list(_LETTERS[: len(texts)]):  # each begins with its own letter
            texts = tuple(text[one.end() :].strip() for text, one in zip(texts, own, strict=True) if one)
        return cls(texts, numeric=all(isinstance(one, _NUMBERS) for one in kept))

    @classmethod
    def _complete(cls, texts: Sequence[object], labels: Sequence[object] | None = None) -> "TaskChoices | None":
        """Return the choices; None when one is empty or not one value, labels repeat, or they are too few or many."""
        found, named = [_text(one) for one in texts], [_text(one) for one in labels or ()]
        if not (2 <= len(found) <= len(_LETTERS) and all(found)):
            return None
        if labels is not None and not (len(named) == len(found) and all(named) and len(set(named)) == len(named)):
            return None
        return cls(tuple(filter(None, found)), tuple(filter(None, named)))

    @classmethod
    def _marked(cls, text: str) -> "TaskChoices | None":
        """Return the choices of a text such as `a ) 38 , b ) 27.6 , c ) 30`: each begins with its letter.

        The marks A, B, C and so on are all written in the same way.
        """
        marks: list[re.Match[str]] = []
        for one in _MARK.finditer(text):
            same_style = not marks or _LETTER_IN_MARK.sub("", one[0]) == _LETTER_IN_MARK.sub("", marks[0][0])
            if same_style and (one[1] or one[2]).upper() == _LETTERS[len(marks)]:
                marks.append(one)
        if len(marks) < 2 or text[: marks[0].start()].strip():
            return None
        ends = [*(one.start() for one in marks[1:]), len(text)]
        return cls._complete([text[one.end() : end].strip().strip(",;]") for one, end in zip(marks, ends, strict=True)])


def _text(value: object) -> str:
    """Return a choice as text; empty when it is empty or not one value."""
    is_value = isinstance(value, str | int | float) and not isinstance(value, bool) and not is_empty(value)
    return str(value).strip() if is_value else ""


def _choices_in(text: str) -> object:
    """Return the list or mapping that a text writes in JSON or in Python; the text itself when it writes neither."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        pass
    else:
        value = _json_or_none(text)
        return text if value is None else value
    try:
        written = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(written, dict):  # no key twice
        node = ast.parse(text.strip(), mode="eval").body
        return written if isinstance(node, ast.Dict) and len(node.keys) == len(written) else text
    return written if isinstance(written, list | tuple) else text


_BOX = re.compile(r"\\f?boxed(?![A-Za-z])\s*")
_MARKED = re.compile(r"(?m)^[ \t]*####[ \t]*(.*)\Z")
_JOINED = re.compile(r"(?:[\s$,;.]|\\[,;:! ()\[\]]|\\text\{?|\\(?:and|or|quad|qquad)\b|and|or|\})*", re.IGNORECASE)
"""What stands between two boxes of one answer."""
_AMOUNT = re.compile(r"([+-]?\d[\d,./:]*%?)\s*\([^()]*\)")


def marked_answer(text: str) -> str:
    """Return what follows `####` on the last line; the whole text when the last line has no such mark."""
    found = _MARKED.search(text.rstrip())
    return found[1].strip() if found else text


def amount_without_unit(text: str) -> str:
    """Return the numbers of an answer such as `9 (apples)` or `15 (balls); 24 (balls)`, as ASDiv writes them.

    Any other text is returned as it is.
    """
    found = [_AMOUNT.fullmatch(part.strip()) for part in text.split(";")]
    return "; ".join(one[1] for one in found if one) if all(found) else text


def boxed_answer(solution: str) -> str:
    """Return the content of the last box. Raises ValueError with words that continue `FILE line N`."""
    boxes = list(_boxes(solution))
    if not boxes:
        raise ValueError(r"has no answer: its solution holds no \boxed{…}; put the answer into the column 'answer'")
    start, _, last = boxes[-1]
    if last is None:
        raise ValueError(r"has a solution whose last \boxed{ is never closed; write it out")
    if len(boxes) > 1:
        _, end, other = boxes[-2]
        if other is not None and other != last and _JOINED.fullmatch(solution[end:start]):
            raise ValueError(
                f"has a solution that ends in two boxes, {other!r} and {last!r}; put the answer into the column"
                " 'answer'"
            )
    if not last.strip():
        raise ValueError(r"has a solution whose last \boxed{…} is empty; put the answer into the column 'answer'")
    return last.strip()


def _boxes(text: str) -> Iterator[tuple[int, int, str | None]]:
    """Yield (start, end, content) of each outermost box; the content is None when the box is never closed."""
    at = 0
    while found := _BOX.search(text, at):
        if text[found.end() : found.end() + 1] != "{":
            plain = re.compile(r"[^\s$\\{}]+").match(text, found.end())
            end = plain.end() if plain else found.end()
            if plain:
                yield found.start(), end, plain[0].rstrip(".,;")
            at = max(end, found.end())
            continue
        close = _closing(text, found.end())
        if close is None:
            yield found.start(), len(text), None
            return
        yield found.start(), close + 1, text[found.end() + 1 : close]
        at = close + 1


def _closing(text: str, opening: int) -> int | None:
    r"""Return where the brace at `opening` closes; `\{` and `\}` are not braces. None when it does not."""
    depth, at = 0, opening
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 2
            continue
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return at
        at += 1
    return None
