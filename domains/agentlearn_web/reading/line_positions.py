"""Finds the lines of an accessibility snapshot again in the text of the page. Both follow the reading order."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentlearn_web.observation import ElementLine
from agentlearn_web.reading.page_text import PageText, dense

_NEAR_CHARS = 4_000
"""How far ahead of the line before a line is expected."""
_BACK_CHARS = 200
"""How far behind the line before a line is looked for, because a label can be taken for a text."""
_MOST_SCANNED = 30_000_000
"""Most characters that are searched for lines that are not where they are expected."""
_LONG_CHARS = 12
"""Shortest words that are not expected twice near one place."""
_MOST_PLACES = 20
"""Most places of short words that are looked at."""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line, and where its words are in `PageText.dense`."""

    line: ElementLine
    begin: int = -1
    """-1 for a line without words, and for words that are not in the text of the document."""
    end: int = -1
    is_sure: bool = False
    """Whether its words can stand at no other place."""

    @property
    def is_placed(self) -> bool:
        """Whether its words are in the text of the document."""
        return self.begin >= 0


def line_words(line: ElementLine) -> str:
    """Return the words of a line: its text, or its name if it has no text. A property, like a placeholder, has none."""
    return "" if line.role.startswith("/") else line.text or line.name


def place_lines(lines: Sequence[ElementLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield each line with its place in the text.

    Words stand where the line before ends, else where the next line follows them, else where they are found first.
    """
    text, cursor, scanned = page.dense, 0, 0
    wanted = [dense(line_words(line)) for line in lines]
    for number, (line, words) in enumerate(zip(lines, wanted, strict=True)):
        if not words:
            yield PlacedLine(line)
            continue
        following = next((one for one in wanted[number + 1 : number + 9] if one not in words), "")
        at, sure = _near(text, words, following, cursor)
        if at < 0:
            at = text.find(words, max(cursor - _BACK_CHARS, 0), cursor + len(words))
        if at < 0 and scanned < _MOST_SCANNED:
            scanned += len(text)
            at = text.find(words)
        if at >= 0 and not sure:
            sure = len(words) >= _LONG_CHARS and text.find(words, at + 1) < 0
        is_leaf = number + 1 == len(lines) or lines[number + 1].depth <= line.depth
        if sure:  # the children of an element repeat its name
            cursor = at + len(words) if line.text or is_leaf else at
        yield PlacedLine(line, at, at + len(words), sure) if at >= 0 else PlacedLine(line)


def _near(text: str, words: str, following: str, cursor: int) -> tuple[int, bool]:
    """Return where words stand near a position, and whether they stand nowhere else near it; -1 for nowhere."""
    if text.startswith(words, cursor):
        return cursor, True
    limit = cursor + _NEAR_CHARS + len(words)
    first = at = text.find(words, cursor, limit)
    if len(words) >= _LONG_CHARS:
        return at, at >= 0
    for _ in range(_MOST_PLACES):
        if at < 0:
            break
        end = at + len(words)
        if following and text.startswith(following, end):
            return at, True
        at = text.find(words, at + 1, limit)
    return first, False


def with_spaces(placed: PlacedLine, page: PageText) -> PlacedLine:
    """Return the line with the spaces and line breaks that the page shows between its words, as single spaces.

    The browser's snapshot joins what stands before and after a `<br>`.
    """
    words = line_words(placed.line)
    gaps = page.gaps[bisect_right(page.gaps, placed.begin) : bisect_left(page.gaps, placed.end)]
    if not placed.is_sure or not gaps:
        return placed
    missing, made = {gap - placed.begin for gap in gaps}, list[str]()
    at = 0
    for part in words.split():
        for character in part:
            if at in missing and dense(character) and made and made[-1] != " ":
                made.append(" ")
            made.append(character)
            at += len(dense(character))
        made.append(" ")
    spaced = "".join(made).strip()
    if len(spaced) <= len(" ".join(words.split())):
        return placed
    line = placed.line
    if line.text and spaced == " ".join(line.name.split()):
        return replace(placed, line=line.model_copy(update={"text": ""}))
    return replace(placed, line=line.model_copy(update={"text" if line.text else "name": spaced}))
