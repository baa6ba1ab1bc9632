"""What a notebook and `print` show of a result: a few sentences, cautions, lists, and a table."""

from typing import TYPE_CHECKING

from agentlearn.text import wrapped
from agentlearn.types.experience import Library
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Value
from agentlearn.views.figure import TONES, Tone, count_words, money
from agentlearn.views.markup import Html, clipped, element

if TYPE_CHECKING:
    from agentlearn.learning.report import LearnReport

SUMMARY_COLUMNS = 80
"""Largest number of columns of a result that is printed."""
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


class _SummaryList(Value):
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
    lists: tuple[_SummaryList, ...] = ()
    footer: str = ""


def summary_html(part: NotebookSummary) -> str:
    """Return a `NotebookSummary` as HTML. All texts are escaped, and long ones are cut."""

    def text(words: str) -> Html:
        return element("bdi", clipped(words, CHARACTERS))

    def line(words: str, *, bold: bool) -> Html:
        return element("p", text(words), style="font-weight:bold" if bold else None)

    def listed(one: _SummaryList) -> Html:
        more = len(one.entries) - MOST
        rest = element("li", f"and {more:,} more") if more > 0 else None
        items = (element("li", text(entry)) for entry in one.entries[:MOST])
        return element("div", element("p", f"{one.title}:"), element("ul", *items, rest))

    head = element("tr", *(element("th", one) for one in part.header))
    body = [element("tr", *(element("td", text(cell)) for cell in row)) for row in part.rows[:MOST]]
    edge = f"border-left:4px solid {_EDGES[part.tone]};padding-left:0.8em"
    cautions = _SummaryList(title="Cautions", entries=part.cautions)
    return element(
        "div",
        *(line(words, bold=not number) for number, words in enumerate(part.sentences[:MOST])),
        *(listed(one) for one in (cautions, *part.lists) if one.entries),
        element("table", element("thead", head), element("tbody", *body)) if part.rows else None,
        line(part.footer, bold=False) if part.footer else None,
        style=edge,
    ).text


def report_text(report: "LearnReport") -> str:
    """Return the report as a few lines of at most 80 columns: the verdict, what to know about it, and the library."""
    delta, line = report.delta, report.library
    verdict = "nothing was measured on held-out tasks" if delta is None else delta.sentence.rstrip(".")
    cautions = () if delta is None else (delta.caution, delta.carried)
    chosen = _selection_lines(report)
    lines = [
        verdict,
        *chosen,
        f"library {line.reference}: {count_words(line.lessons, 'lesson')}",
        *filter(None, cautions),
        *report.notes,
    ]
    return "\n".join(wrapped(line, SUMMARY_COLUMNS) for line in lines)


def report_html(report: "LearnReport", library: Library | None) -> str:
    """Return the report as HTML: the verdict, cautions, lessons. library: what was learned; None: not known."""
    delta = report.delta
    first = "" if delta is None else delta.sentence
    cautions = () if delta is None else (delta.caution, delta.carried)
    sentences = ("" if delta is None else delta.withheld, first or "Nothing was measured on held-out tasks.")
    lessons = () if library is None else tuple(one.lesson for one in library.experiences)
    line, tone = report.library, TONES[delta.verdict] if delta is not None and delta.compared else "plain"
    rollouts = sum(report.rollouts.values())
    return summary_html(
        NotebookSummary(
            sentences=tuple(filter(None, (*sentences, *_selection_lines(report)))),
            tone=tone,
            cautions=tuple(dict.fromkeys(filter(None, (*cautions, *report.notes)))),
            lists=(_SummaryList(title="Lessons", entries=lessons),),
            footer=(
                f"library {line.reference} · {count_words(line.lessons, 'lesson')} ·"
                f" {rollouts:,} rollouts · cost {money(report.cost_usd)} · run {report.run}"
            ),
        )
    )


def _selection_lines(report: "LearnReport") -> tuple[str, ...]:
    """What became of the selected version, and why; nothing for a report without a selection."""
    selection = report.selection
    if selection is None:
        return ()
    match selection.status:
        case "published":
            return (f"Version {selection.selected[:8]} is published: {selection.reason}.",)
        case "pending":
            return (
                f"Version {selection.selected[:8]} is NOT published: {selection.reason}.",
                f"To publish it anyway: {selection.command}",
            )
        case "unchanged":
            return (f"The library at the start was selected: {selection.reason}.",)


def solved_html(solved: Trajectory, notes: tuple[str, ...]) -> str:
    """Return a rollout on one problem as HTML. notes: what to know about its answer."""
    ended = solved.answer or "no answer" if solved.failure is None else f"failed: {solved.failure.message}"
    verdict = solved.verdict
    judged = "" if verdict is None else f"{verdict.status}: {verdict.reason}"
    return summary_html(
        NotebookSummary(
            sentences=tuple(filter(None, (ended, judged))),
            tone="plain" if solved.failure is None else "bad",
            cautions=notes,
            footer=f"{len(solved.steps)} steps · {solved.treatment.model} · rollout {solved.id}",
        )
    )
