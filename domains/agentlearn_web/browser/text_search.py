"""Searching a snapshot: the lines that hold a text, on whichever page of it they stand."""

from agentlearn_web.browser.tab import ShownSnapshot
from agentlearn_web.observation import ElementLine

_AROUND = 200
"""Characters that are shown before and after what was found in a long text."""


def found_in(shown: ShownSnapshot, text: str) -> list[tuple[ElementLine, int]]:
    """Each line that holds the text in its name, its text or its address, whatever the case, and its page.

    Long texts are cut to the surroundings of what was found; so also those parts can be read that a page leaves out.
    """
    wanted = _plain(text)
    lines = zip(shown.lines, shown.page_numbers(), strict=True)
    return [(_excerpt(line, wanted), page) for line, page in lines if wanted and _holds(line, wanted)]


def _holds(line: ElementLine, wanted: str) -> bool:
    return any(wanted in _plain(words) for words in (line.name, line.text, line.url))


def _excerpt(line: ElementLine, wanted: str) -> ElementLine:
    return line.model_copy(update={"name": _near(line.name, wanted), "text": _near(line.text, wanted)})


def _near(said: str, wanted: str) -> str:
    if len(said) <= 2 * _AROUND + len(wanted):
        return said
    words = " ".join(said.split())
    at = max(words.casefold().find(wanted), 0)
    begin, end = max(at - _AROUND, 0), at + len(wanted) + _AROUND
    return f"{'…' if begin else ''}{words[begin:end]}{'…' if end < len(words) else ''}"


def _plain(words: str) -> str:
    return " ".join(words.split()).casefold()
