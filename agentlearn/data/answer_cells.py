"""Reading what a row gives besides its problem: the choices of a task, and the answer at the end of a solution."""

import ast
import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentlearn.answers.answer_text import end_of_braces
from agentlearn.data.row import NumberText, is_empty, is_spreadsheet_error, json_or_none

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
        """Return the choices in a list. columns: each choice has its own column; empty last ones are dropped."""
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
    return str(value).strip() if is_value and not is_spreadsheet_error(value) else ""


def _choices_in(text: str) -> object:
    """Return the list or mapping that a text writes in JSON or in Python; the text itself when it writes neither."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        pass
    else:
        value = json_or_none(text)
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
        close = end_of_braces(text, found.end() + 1)
        if close is None:
            yield found.start(), len(text), None
            return
        yield found.start(), close + 1, text[found.end() + 1 : close]
        at = close + 1
