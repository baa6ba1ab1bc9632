"""Notes and warnings of a run, and its failures by code."""

from collections import Counter
from collections.abc import Iterable, Mapping

from agentlearn.cli.pages.learn_record import LearnRecord
from agentlearn.html import Column, Note, PagePart, Paragraph, Section, Table, TableCell
from agentlearn.html.markup import clipped, shown
from agentlearn.html.number_format import count
from agentlearn.types.operation import Dropped, Quarantined, Rejected

MOST = 100
"""Largest number of notes on the page."""
_LONGEST = 1_500
_ALARMS = ("held-out tasks got worse", "reward fell", "warning")
"""How notes start that are shown as warnings."""


def notes_section(record: LearnRecord) -> Section:
    """The notes of the report, then a table of everything that failed."""
    report = record.report
    parts: list[PagePart] = [
        Note(text=clipped(shown(note), _LONGEST), kind="warning" if note.startswith(_ALARMS) else "note")
        for note in report.notes[:MOST]
    ]
    if (more := len(report.notes) - MOST) > 0:
        parts.append(Paragraph(text=f"{more:,} more notes are in the report of the run."))
    parts += _failures(record)
    if not parts:
        parts.append(Paragraph(text="There is nothing to note, and nothing failed."))
    return Section(title="Notes and failures", parts=tuple(parts))


def _failures(record: LearnRecord) -> list[PagePart]:
    report = record.report
    counts: list[tuple[str, Mapping[str, int]]] = [
        (f"rollouts {side}", score.errors)
        for side, score in (("before", report.before), ("after", report.after))
        if score is not None
    ]
    outcomes = {name: number for name, number in report.rollouts.items() if name != "ok"}
    counts += [("all rollouts", outcomes), ("requests without an answer", report.failed_requests)]
    counts += [(f"replies of {stage}", line.malformed) for stage, line in report.stages.items()]
    counts += [(f"proposals {end}", codes) for end, codes in _ends(record).items()]
    rows = tuple(_rows(counts))
    if not rows:
        return []
    return [
        Table(
            caption="Failures and refusals by code",
            columns=(Column(name="Code"), Column(name="What", choices=True), Column(name="Number", kind="number")),
            rows=rows,
        )
    ]


def _ends(record: LearnRecord) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {"rejected": Counter(), "dropped": Counter(), "quarantined": Counter()}
    for row in record.proposals:
        match row.ended.end:
            case Rejected(code=code) | Quarantined(code=code):
                found[row.ended.end.end][code] += 1
            case Dropped(reason=reason):
                found["dropped"][reason] += 1
            case _:
                pass
    return found


def _rows(counts: Iterable[tuple[str, Mapping[str, int]]]) -> Iterable[tuple[TableCell, ...]]:
    for what, codes in counts:
        for code, number in sorted(codes.items(), key=lambda one: -one[1])[:MOST]:
            if number:
                yield (
                    TableCell(text=clipped(shown(code), 200)),
                    TableCell(text=what),
                    TableCell(text=count(number), value=number),
                )
