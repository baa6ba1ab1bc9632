"""Which columns of a row hold the problem, the choices and the answer.

The layouts of well-known data sets are recognised by their columns. A column that may hold a part of the problem, and
that no layout explains, is never passed over: the row is refused with the choice of columns to make.

The expected answer of a task with choices is always a letter, so that every verifier judges the same thing.
"""

import ast
import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentlearn.data.row import Columns, NumberText, SourceRow, cell, is_empty, json_or_none
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


REQUEST = "Answer with the letter of the right choice."
"""Last line of a problem with choices."""

_LETTERS = string.ascii_uppercase
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
        is_text = self._named(answer) != found or (not _is_number(answer) and self._by_name(answer))
        return None if is_text or not found else found.pop()

    def _named(self, answer: object) -> set[int]:
        """Return the positions of the choices that an answer cell can mean."""
        if _is_number(answer) and not self.numeric and not self.labels:
            return self._by_number(answer)
        return self._by_name(answer) | self._by_number(answer)

    def _by_name(self, answer: object) -> set[int]:
        """Return the positions of the choices with this label or letter, and with this text."""
        text = _choices_folded(str(answer))
        same = {index for index, one in enumerate(self.texts) if _choices_folded(one) == text}
        if self.labels:
            bare = _choices_folded(_bare(text))
            return {index for index, one in enumerate(self.labels) if _choices_folded(one) == bare} or same
        found = _LETTER.fullmatch(text)
        at = _LETTERS.index(found[1].upper()) if found else len(self.texts)
        return same | ({at} if at < len(self.texts) else set())

    def _by_number(self, answer: object) -> set[int]:
        """Return the position that a number from 0 gives, for choices without labels."""
        found = _NUMBER.fullmatch(str(answer).strip())
        return {int(found[1])} if found and not self.labels and int(found[1]) < len(self.texts) else set()


def choices_in(value: object) -> TaskChoices | None:
    """Return the choices in a cell: a list, a mapping, or the JSON or Python text of one; None when there are none."""
    if isinstance(value, str):
        value = _opened(value)
        if isinstance(value, str):
            return _marked(value)
    if isinstance(value, Mapping):
        return _of_mapping({str(name).strip().casefold(): one for name, one in value.items()})
    if isinstance(value, Sequence) or (hasattr(value, "tolist") and isinstance(value := value.tolist(), list)):  # pyright: ignore[reportAttributeAccessIssue]
        return _of_list(value)
    return None


def choices_of(values: Sequence[object]) -> TaskChoices | None:
    """Return choices that stand in one column each; empty ones at the end do not count."""
    kept = list(values)
    while kept and is_empty(kept[-1]):
        kept.pop()
    return _of_list(kept)


def _of_list(values: Sequence[object]) -> TaskChoices | None:
    if values and all(isinstance(one, Mapping) for one in values):
        return _of_entries([{str(name).casefold(): cell for name, cell in one.items()} for one in values])  # pyright: ignore[reportAttributeAccessIssue]
    texts = [_text(one) for one in values]
    if not _is_complete(texts):
        return None
    numeric = all(isinstance(one, NumberText | int | float) for one in values)
    return TaskChoices(_without_letters([text for text in texts if text]), numeric=numeric)


def _of_entries(entries: Sequence[Mapping[str, object]]) -> TaskChoices | None:
    texts = [_text(one.get("text")) for one in entries]
    labels = [_text(one.get("label", one.get("key"))) for one in entries]
    return _labelled(texts, labels)


def _of_mapping(cells: Mapping[str, object]) -> TaskChoices | None:
    texts, labels = cells.get("text"), cells.get("label")
    if isinstance(texts, Sequence) and isinstance(labels, Sequence) and not isinstance(texts, str):
        return _labelled([_text(one) for one in texts], [_text(one) for one in labels])
    names = sorted(cells)
    if names == list(string.ascii_lowercase[: len(names)]):
        return _labelled([_text(cells[name]) for name in names], names)
    return None


def _labelled(texts: Sequence[str | None], labels: Sequence[str | None]) -> TaskChoices | None:
    whole = _is_complete(texts) and len(labels) == len(texts) and all(labels) and len(set(labels)) == len(labels)
    return TaskChoices(tuple(map(str, texts)), tuple(map(str, labels))) if whole else None


def _is_complete(texts: Sequence[str | None]) -> bool:
    return 2 <= len(texts) <= len(_LETTERS) and all(texts)


def _text(value: object) -> str | None:
    """Return a choice as text; None when it is empty or not one value."""
    if is_empty(value) or isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value).strip()


def _without_letters(texts: Sequence[str]) -> tuple[str, ...]:
    """Take away the letters that the texts begin with, if each begins with its own."""
    found = [_OWN_LETTER.match(text) for text in texts]
    letters = [(one[1] or one[2] or one[3]).upper() if one else "" for one in found]
    if letters != list(_LETTERS[: len(texts)]):
        return tuple(texts)
    return tuple(text[one.end() :].strip() for text, one in zip(texts, found, strict=True) if one)


def _marked(text: str) -> TaskChoices | None:
    """Return the choices of a text such as `a ) 38 , b ) 27.6 , c ) 30`: each begins with its letter."""
    marks = _marks(text)
    if len(marks) < 2 or text[: marks[0].start()].strip():
        return None
    ends = [*(one.start() for one in marks[1:]), len(text)]
    texts = [text[one.end() : end].strip().strip(",;]").strip() for one, end in zip(marks, ends, strict=True)]
    return TaskChoices(tuple(texts)) if _is_complete(texts) else None


def _marks(text: str) -> list[re.Match[str]]:
    """Return the marks A, B, C and so on, all written in the same way."""
    kept: list[re.Match[str]] = []
    for one in _MARK.finditer(text):
        same_style = not kept or _LETTER_IN_MARK.sub("", one[0]) == _LETTER_IN_MARK.sub("", kept[0][0])
        if same_style and (one[1] or one[2]).upper() == _LETTERS[len(kept)]:
            kept.append(one)
    return kept


def _opened(text: str) -> object:
    """Return the list or mapping that a text writes in JSON or in Python; the text itself when it writes neither."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return _python_value(text.strip())
    value = json_or_none(text)
    return text if value is None else value


def _python_value(text: str) -> object:
    """Return the list or mapping that a text writes in Python; the text itself when it holds none."""
    try:
        written = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    if isinstance(written, dict):
        node = ast.parse(text, mode="eval").body
        return written if isinstance(node, ast.Dict) and len(node.keys) == len(written) else text
    return written if isinstance(written, list | tuple) else text


def _is_number(value: object) -> bool:
    return isinstance(value, NumberText | int | float)


def _bare(text: str) -> str:
    found = _LETTER.fullmatch(text)
    return found[1] if found else text


def _choices_folded(text: str) -> str:
    return " ".join(text.split()).casefold()


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
