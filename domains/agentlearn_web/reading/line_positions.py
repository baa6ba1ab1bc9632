"""Finds the lines of an accessibility snapshot again in the text of the page. Both follow the reading order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentlearn_web.observation import ElementLine
from agentlearn_web.reading.page_text import PageText, dense

_NEAR_CHARS = 4_000
"""How far ahead of the line before a line is expected."""
_MOST_SCANNED = 30_000_000
"""Most characters that are searched for lines that are not where they are expected."""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line, and where its words are in `PageText.dense`."""

    line: ElementLine
    begin: int = -1
    """-1 for a line without words, and for words that are not in the text of the document."""
    end: int = -1

    @property
    def is_placed(self) -> bool:
        """Whether its words are in the text of the document."""
        return self.begin >= 0


def line_words(line: ElementLine) -> str:
    """Return the words of a line: its text, or its name if it has no text. A property, like a placeholder, has none."""
    return "" if line.role.startswith("/") else line.text or line.name


def place_lines(lines: Sequence[ElementLine], page: PageText) -> Iterator[PlacedLine]:
    """Yield each line with its place in the text."""
    text, cursor, scanned = page.dense, 0, 0
    for line in lines:
        wanted = dense(line_words(line))
        at = text.find(wanted, cursor, cursor + _NEAR_CHARS + len(wanted)) if wanted else -1
        is_near = at >= 0
        if wanted and not is_near and scanned < _MOST_SCANNED:
            scanned += len(text)
            at = text.find(wanted)
        if is_near:  # the children of an element repeat its name
            cursor = at + len(wanted) if line.text else at
        yield PlacedLine(line, at, at + len(wanted)) if at >= 0 else PlacedLine(line)
