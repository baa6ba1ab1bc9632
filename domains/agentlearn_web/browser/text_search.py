"""Searching a snapshot: the lines that hold a text, on whichever page of it they stand."""

from agentlearn_web.browser.tab import ShownSnapshot
from agentlearn_web.observation import ElementLine

_CONTEXT_CHARS = 200
"""Characters that are shown before and after what was found in a long text."""


def search_snapshot(shown: ShownSnapshot, text: str) -> list[tuple[ElementLine, int]]:
    """Each line that holds the text in its name, its text or its address, whatever the case, and its page.

    Long texts are cut to the surroundings of what was found; so also those parts can be read that a page leaves out.
    """
    query = _normal_space(text)
    lines = zip(shown.lines, shown.page_numbers(), strict=True)
    return [(_excerpt(line, query), page) for line, page in lines if query and _holds(line, query)]


def _holds(line: ElementLine, query: str) -> bool:
    return any(query in _normal_space(text) for text in (line.name, line.text, line.url))


def _excerpt(line: ElementLine, query: str) -> ElementLine:
    return line.model_copy(update={"name": _around_match(line.name, query), "text": _around_match(line.text, query)})


def _around_match(text: str, query: str) -> str:
    if len(text) <= 2 * _CONTEXT_CHARS + len(query):
        return text
    text = " ".join(text.split())
    at = max(text.casefold().find(query), 0)
    begin, end = max(at - _CONTEXT_CHARS, 0), at + len(query) + _CONTEXT_CHARS
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}"


def _normal_space(text: str) -> str:
    return " ".join(text.split()).casefold()
