"""The report of a run that learned lessons, for a terminal and for a notebook."""

from typing import TYPE_CHECKING

from agentlearn.html.number_format import money
from agentlearn.html.summary import NotebookSummary, SummaryList, summary_html
from agentlearn.html.tone import Tone
from agentlearn.measure.contrast import ContrastVerdict
from agentlearn.text import wrapped

if TYPE_CHECKING:
    from agentlearn.learning.report import LearnReport
    from agentlearn.types.experience import Library

SUMMARY_COLUMNS = 80
"""Largest number of columns of a report that is printed."""

_TONES: dict[ContrastVerdict, Tone] = {"better": "good", "worse": "bad", "no_worse": "held", "cannot_tell": "open"}


def report_text(report: "LearnReport") -> str:
    """Return the report as a few lines of at most 80 columns: the verdict, what to know about it, and the library."""
    delta, line = report.delta, report.library
    verdict = "nothing was measured on held-out tasks" if delta is None else delta.sentence.rstrip(".")
    cautions = () if delta is None else (delta.caution, delta.carried)
    lessons = "1 lesson" if line.lessons == 1 else f"{line.lessons} lessons"
    chosen = _selection_lines(report)
    lines = [verdict, *chosen, f"library {line.reference}: {lessons}", *filter(None, cautions), *report.notes]
    return "\n".join(wrapped(line, SUMMARY_COLUMNS) for line in lines)


def report_html(report: "LearnReport", library: "Library | None") -> str:
    """Return the report as HTML: the verdict, cautions, lessons. library: what was learned; None: not known."""
    delta = report.delta
    first = "" if delta is None else delta.sentence
    cautions = () if delta is None else (delta.caution, delta.carried)
    sentences = ("" if delta is None else delta.withheld, first or "Nothing was measured on held-out tasks.")
    lessons = () if library is None else tuple(one.lesson for one in library.experiences)
    line, tone = report.library, _TONES[delta.verdict] if delta is not None and delta.compared else "plain"
    rollouts = sum(report.rollouts.values())
    return summary_html(
        NotebookSummary(
            sentences=tuple(filter(None, (*sentences, *_selection_lines(report)))),
            tone=tone,
            cautions=tuple(dict.fromkeys(filter(None, (*cautions, *report.notes)))),
            lists=(SummaryList(title="Lessons", entries=lessons),),
            footer=(
                f"library {line.reference} · {line.lessons} {'lesson' if line.lessons == 1 else 'lessons'} ·"
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
