"""A short summary of a result for notebooks: HTML without a style sheet or a script."""

from collections.abc import Sequence

from agentlearn.html.markup import Html, clipped, element
from agentlearn.html.tone import Tone
from agentlearn.types.value import Value

MOST = 20
"""Largest number of entries of a list that are shown."""
CHARACTERS = 600
"""Largest number of characters of one text that are shown."""

_EDGES: dict[Tone, str] = {
    "plain": "#888",
    "good": "#2a8a4a",
    "bad": "#c0392b",
    "held": "#3a6ea5",
    "open": "#b8860b",
}


class SummaryList(Value):
    """A list with a heading, such as lessons."""

    title: str
    entries: tuple[str, ...]


class NotebookSummary(Value):
    """What a notebook shows of a result."""

    sentences: tuple[str, ...]
    """The result. The first sentence is the verdict."""
    tone: Tone = "plain"
    cautions: tuple[str, ...] = ()
    """What to know before trusting it."""
    header: tuple[str, ...] = ()
    """Headings of the table."""
    rows: tuple[tuple[str, ...], ...] = ()
    lists: tuple[SummaryList, ...] = ()
    footer: str = ""


def summary_html(part: NotebookSummary) -> str:
    """Return a `NotebookSummary` as HTML. All texts are escaped, and long ones are cut."""
    edge = f"border-left:4px solid {_EDGES[part.tone]};padding-left:0.8em"
    cautions = SummaryList(title="Cautions", entries=part.cautions)
    return element(
        "div",
        *(_line(text, bold=not number) for number, text in enumerate(part.sentences[:MOST])),
        *(_list(one) for one in (cautions, *part.lists) if one.entries),
        _table(part.header, part.rows) if part.rows else None,
        _line(part.footer, bold=False) if part.footer else None,
        style=edge,
    ).text


def _line(text: str, *, bold: bool) -> Html:
    return element("p", _text(text), style="font-weight:bold" if bold else None)


def _text(text: str) -> Html:
    return element("bdi", clipped(text, CHARACTERS))


def _list(part: SummaryList) -> Html:
    shown = [element("li", _text(one)) for one in part.entries[:MOST]]
    more = len(part.entries) - len(shown)
    rest = element("li", f"and {more:,} more") if more > 0 else None
    return element("div", element("p", f"{part.title}:"), element("ul", *shown, rest))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    head = element("tr", *(element("th", one) for one in header))
    body = [element("tr", *(element("td", _text(cell)) for cell in row)) for row in rows[:MOST]]
    return element("table", element("thead", head), element("tbody", *body))
