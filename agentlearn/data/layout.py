"""Which columns of a row hold the problem, the choices and the answer.

The layouts of well-known data sets are recognised by their columns. A column that may hold a part of the problem, and
that no layout explains, is never passed over: the row is refused with the choice of columns to make.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentlearn.data.row import Columns, SourceRow, cell, is_empty
from agentlearn.errors import DataError

SOLUTION = "solution"
"""Column whose last box is the answer of a row without an answer column, as in MATH."""
_CHOICES = ("choices", "options", "answer_choices", "candidates", "endings", "mc_choices", "multiple_choice")
_RIGHT_CHOICE = (
    "answerkey",
    "answer_key",
    "correct",
    "label",
    "correct_option",
    "correct_answer",
    "answer_idx",
    "answer_index",
    "answer_letter",
    "gold",
    "target",
)
"""Columns that name the right choice in a row that has choices and no answer column."""
_STORY = ("body",)
"""Columns that SVAMP and ASDiv read before the question."""
_PASSAGE = ("passage", "article", "context")
"""Columns that tests of reading show before a question with choices."""
_CONCEPT = "question_concept"
"""A word of the question, which CommonsenseQA names again."""
_PART = re.compile(
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


def layout_of(row: SourceRow, columns: Columns) -> RowLayout:
    """Return the layout of a row. Raises DataError when a part of the problem could be missed."""
    if columns.chosen is not None:
        return _chosen(row, columns)
    filled = {_folded(name): name for name, value in row.fields.items() if _folded(name) and not is_empty(value)}
    problems = tuple(name for name in columns.problem if not is_empty(cell(row.fields, name)))
    answer = next((name for name in columns.answer if not is_empty(cell(row.fields, name))), "")
    choices = _choice_columns(filled, "" if not answer else str(cell(row.fields, answer)))
    boxed = not answer and not choices and SOLUTION in filled and isinstance(row.fields[filled[SOLUTION]], str)
    if boxed:
        answer = filled[SOLUTION]
    elif choices and not answer:
        answer = next((filled[name] for name in _RIGHT_CHOICE if name in filled), "")
    problem = _one_problem(row, problems)
    before = _before(filled, with_choices=bool(choices and answer)) if problem else ()
    found = RowLayout((*before, *problem), answer, choices, boxed=boxed)
    left = [name for name in _parts_left(row.fields, found) if not (choices and _folded(name) == _CONCEPT)]
    if problem and left:
        raise DataError(_missed(row, found, left), code="part_of_problem")
    return found


def split_columns(row: SourceRow, text: str) -> tuple[str, ...]:
    """Return the columns that `A+B` names; a column whose own name holds a `+` is one. Raises DataError."""
    if has_column(row, text):
        return (text,)
    names = tuple(part.strip() for part in text.split("+"))
    for name in names:
        if not has_column(row, name):
            known = ", ".join(map(repr, row.fields)) or "none"
            raise DataError(f"{row.place} has no column {name!r}; choose from {known} in --columns", code="no_column")
    return names


def has_column(row: SourceRow, name: str) -> bool:
    """Whether the row has a column of that name, empty or not."""
    folded = {_folded(one) for one in row.fields}
    return _folded(name) in folded or cell(row.fields, name) is not None


def _chosen(row: SourceRow, columns: Columns) -> RowLayout:
    chosen = columns.chosen
    assert chosen is not None
    answer = chosen.answer or next((name for name in columns.answer if not is_empty(cell(row.fields, name))), "")
    if chosen.answer:
        (answer,) = split_columns(row, answer) if "+" not in answer or has_column(row, answer) else (answer,)
    return RowLayout(
        split_columns(row, chosen.problem),
        answer,
        split_columns(row, chosen.choices) if chosen.choices else (),
        boxed=_folded(answer) == SOLUTION and r"\boxed" in row.text(answer),
    )


def _one_problem(row: SourceRow, names: Sequence[str]) -> tuple[str, ...]:
    """Return the problem's column. Raises DataError when two columns hold different problems."""
    texts = {name: text for name in names if (text := row.text(name))}
    if len(set(texts.values())) > 1:
        which = " and a ".join(map(repr, texts))
        raise DataError(f"{row.place} has a {which} that differ; keep one of them", code="two_problems")
    return tuple(texts)[:1]


def _before(filled: Mapping[str, str], *, with_choices: bool) -> tuple[str, ...]:
    """Return the columns to read before the question."""
    names = (*_STORY, *_PASSAGE) if with_choices else _STORY
    return tuple(filled[name] for name in names if name in filled)


def _choice_columns(filled: Mapping[str, str], answer: str) -> tuple[str, ...]:
    """Return the column that holds all choices, or the columns that hold one each; the first two must be there.

    Columns whose names are nothing but letters are choices when the answer is one of these letters.
    """
    whole = next((filled[name] for name in _CHOICES if name in filled), "")
    if whole:
        return (whole,)
    for pattern, starts in ((_LETTERED, "a"), (_NUMBERED, "01"), (_BARE, "a")):
        if pattern is _BARE and not _BARE.fullmatch(answer.strip()):
            continue
        found = {one[1].casefold(): name for folded, name in filled.items() if (one := pattern.fullmatch(folded))}
        first = next((start for start in starts if start in found), None)
        if first is not None and (run := tuple(_run(found, first))) and len(run) >= 2:
            return run
    return ()


def _run(found: Mapping[str, str], first: str) -> Iterator[str]:
    """Yield the columns from the first letter or number on, up to a gap."""
    at = first
    while at in found:
        yield found[at]
        at = chr(ord(at) + 1)


def _parts_left(fields: Mapping[str, object], layout: RowLayout) -> list[str]:
    """Return the filled columns that may hold a part of the problem and that the layout does not read."""
    used = {_folded(name) for name in layout.used()}
    filled = [name for name, value in fields.items() if _folded(name) not in used and not is_empty(value)]
    letters = [name for name in filled if _BARE.fullmatch(_folded(name))]
    listed = letters if [_folded(name).strip("().") for name in letters[:3]] == ["a", "b", "c"] else []
    return [name for name in filled if name in listed or _may_be_part(name)]


def _may_be_part(name: str) -> bool:
    words = _words(name)
    return any(map(_PART.fullmatch, words)) and not _ABOUT.fullmatch(words[-1])


def _words(name: str) -> list[str]:
    """Return the words of a column's name in lower case: `the`, `context` of `theContext` and of `the_context`."""
    return [word.casefold() for word in _WORD.findall(name)]


def _missed(row: SourceRow, layout: RowLayout, left: Sequence[str]) -> str:
    """Return the sentence about columns that would be passed over, with the two choices that the user has."""
    which = " and ".join(map(repr, left))
    parts = [
        name for name in left if not (any(map(_OF_CHOICES.fullmatch, _words(name))) or _BARE.fullmatch(_folded(name)))
    ]
    choices = [*layout.choices, *(name for name in left if name not in parts)]
    question = "+".join(layout.problem)
    answer = f" answer={layout.answer}" if layout.answer else ""
    whole = f"problem={'+'.join([*parts, question])}{answer}" + (f" choices={'+'.join(choices)}" if choices else "")
    alone = f"problem={question}{answer}"
    return (
        f"{row.place} has {which} next to the problem {question!r}, which may be a part of it; add --columns"
        f" {whole!r} to read it, or --columns {alone!r} to leave it out"
    )


def _folded(name: str) -> str:
    return name.strip().casefold()
