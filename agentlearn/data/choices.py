"""The choices of a task: reading them from a cell, writing them below the problem, and finding the right one.

The expected answer of a task with choices is always a letter, so that every verifier judges the same thing.
"""

import ast
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.data.row import is_empty
from agentlearn.data.strict_json import NumberText, json_or_none

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
        text = _folded(str(answer))
        same = {index for index, one in enumerate(self.texts) if _folded(one) == text}
        if self.labels:
            bare = _folded(_bare(text))
            return {index for index, one in enumerate(self.labels) if _folded(one) == bare} or same
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


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
