"""Text search over all pages of a snapshot."""

from agentlearn_web.browser.tab import ShownSnapshot
from agentlearn_web.observation import ElementLine

_CONTEXT_CHARS = 200
"""Characters shown before and after a match in a long text."""


def search_snapshot(shown: ShownSnapshot, text: str) -> list[tuple[ElementLine, int]]:
    """Return each line that contains the text, with its page number. Case and spacing do not matter.

    Searches names, texts and addresses. Long texts are cut around the match, so parts that a page view leaves out can
    be read too.
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
