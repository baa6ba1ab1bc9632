"""What a notebook and `print` show of a result: the lines of its end, with its tables."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from agentlearn.pages.figure import TONES, Html, Tone, clipped, element
from agentlearn.pages.runs import learn_end
from agentlearn.pages.table import Note, Paragraph, Statement, Table
from agentlearn.pages.terminal import EndPart, parts_text, table_rows
from agentlearn.types.trajectory import Trajectory

if TYPE_CHECKING:
    from agentlearn.learning.report import LearnReport

MOST = 40
"""Largest number of parts, and of rows of a table, that are shown."""
CHARACTERS = 600
"""Largest number of characters of one text that are shown."""

_EDGES: dict[Tone, str] = {
    "plain": "#888",
    "good": "#2a8a4a",
    "bad": "#c0392b",
    "held": "#3a6ea5",
    "open": "#b8860b",
}


def result_html(parts: Iterable[EndPart], tone: Tone = "plain") -> str:
    """Return the end of a run as HTML. All texts are escaped, and long ones are cut. tone: of its edge."""

    def text(words: str) -> Html:
        return element("bdi", clipped(words, CHARACTERS))

    def shown(part: EndPart) -> Html:
        match part:
            case Table():
                header, *rows = table_rows(part)
                head = element("tr", *(element("th", text(one)) for one in header))
                body = [element("tr", *(element("td", text(cell)) for cell in row)) for row in rows[:MOST]]
                return element("table", element("thead", head), element("tbody", *body))
            case Statement():
                return element("p", text(part.text), style="font-weight:bold")
            case Paragraph() | Note():
                return element("p", text(part.text))
            case (label, words):
                return element("p", text(f"{label}: {words}" if label else words))

    edge = f"border-left:4px solid {_EDGES[tone]};padding-left:0.8em"
    return element("div", *map(shown, islice(parts, MOST)), style=edge).text


def report_text(report: "LearnReport") -> str:
    """Return the end of a learn run as lines of at most 80 columns."""
    return parts_text(learn_end(report))


def report_html(report: "LearnReport") -> str:
    """Return the end of a learn run as HTML."""
    delta = report.delta
    return result_html(learn_end(report), TONES[delta.verdict] if delta is not None and delta.compared else "plain")


def solved_html(solved: Trajectory, notes: tuple[str, ...]) -> str:
    """Return a rollout on one problem as HTML. notes: what to know about its answer."""
    ended = solved.answer or "no answer" if solved.failure is None else f"failed: {solved.failure.message}"
    parts: list[EndPart] = [Statement(text=ended)]
    if (verdict := solved.verdict) is not None:
        parts.append(("verdict", f"{verdict.status}: {verdict.reason}"))
    parts += (("note", note) for note in notes)
    parts.append(("rollout", f"{solved.id}, {len(solved.steps)} steps with {solved.treatment.model}"))
    return result_html(parts, "plain" if solved.failure is None else "bad")
