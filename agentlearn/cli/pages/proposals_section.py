"""Every proposal of a run: what it asked for, what it rests on, how it ended and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from agentlearn.cli.pages.learn_record import EPOCH, LearnRecord
from agentlearn.cli.show.labelled import one_line
from agentlearn.cli.words import count_words
from agentlearn.config.command_words import command_words
from agentlearn.html import Column, Details, KeyFigure, KeyFigures, PagePart, Paragraph, Section, Table, TableCell, Tone
from agentlearn.html.markup import clipped, shown
from agentlearn.store import ProposalRow
from agentlearn.types.ids import ExperienceId, ProposalId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    Folded,
    Merge,
    Modify,
    Proposal,
    Quarantined,
    Rejected,
)

MOST = 3_000
"""Largest number of proposals on the page. Applied ones come first."""
_TEXT = 420
"""Characters of a text that are shown. A lesson has at most 400."""
_TASK = 44
"""Characters of a problem that are shown."""
_ENDS = ("applied", "folded", "dropped", "rejected", "quarantined")
_TONES: dict[str, Tone] = {"applied": "good", "rejected": "bad", "quarantined": "open"}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the rows name beyond themselves."""

    proposals: Mapping[tuple[str, int, ProposalId], ProposalRow]
    lessons: Mapping[ExperienceId, str]


def proposals_section(record: LearnRecord) -> Section:
    """A table of the proposals, which can be filtered by epoch, stage, operation and end."""
    if not record.proposals:
        return Section(title="Proposals", parts=(Paragraph(text="The run made no proposal."),))
    ends = Counter(row.ended.end.end for row in record.proposals)
    figures = tuple(KeyFigure(label=end.capitalize(), value=f"{ends[end]:,}") for end in _ENDS if ends[end])
    known = _Known({(row.phase, row.batch, row.ended.proposal.id): row for row in record.proposals}, record.lessons)
    kept = record.proposals
    parts: list[PagePart] = [KeyFigures(caption="Ends of the proposals", figures=figures)]
    if len(kept) > MOST:
        kept = tuple(sorted(kept, key=lambda row: row.ended.end.end != "applied")[:MOST])
        more, show = len(record.proposals) - MOST, command_words("trace", record.row.run, store=record.store)
        parts.append(Paragraph(text=f"{more:,} proposals are not on this page; {show} leads to all of them."))
    few = len(kept) <= 40
    table = _table(kept, record, known)
    aside = "can be sorted and filtered"
    parts.append(Details(summary=count_words(len(kept), "proposal"), aside=aside, parts=(table,), unfolded=few))
    lede = (
        "Comparisons of single groups propose changes, and the consolidation of a batch decides what to apply."
        " Folded: the consolidation used it in other proposals. Rejected: it broke a rule. Quarantined: it waits for"
        " a person."
    )
    return Section(title="Proposals", lede=lede, parts=tuple(parts))


def _table(rows: tuple[ProposalRow, ...], record: LearnRecord, known: _Known) -> Table:
    return Table(
        caption="Proposals",
        columns=(
            Column(name="Lesson"),
            Column(name="Epoch", choices=True),
            Column(name="Stage", choices=True),
            Column(name="Operation", choices=True),
            Column(name="End", choices=True),
            Column(name="Why"),
            Column(name="Support"),
        ),
        rows=tuple(_row(one, record, known) for one in rows),
    )


def _row(row: ProposalRow, record: LearnRecord, known: _Known) -> tuple[TableCell, ...]:
    proposal, end = row.ended.proposal, row.ended.end
    operation, lesson, target = _asked(proposal, known.lessons)
    doubts = f"in doubt: {', '.join(row.ended.flags)}" if row.ended.flags else ""
    support, task = _support(row, record, known)
    return (
        TableCell(text=_short(lesson), sub=_short(target)),
        TableCell(text=row.phase.removeprefix(EPOCH), sub=f"batch {row.batch}"),
        TableCell(text=proposal.stage),
        TableCell(text=operation),
        TableCell(text=end.end, tone=_TONES.get(end.end, "plain")),
        TableCell(text=_short(_why(row, known)), sub=_short(doubts)),
        TableCell(text=support, sub=task),
    )


def _asked(proposal: Proposal, lessons: Mapping[ExperienceId, str]) -> tuple[str, str, str]:
    """The operation, its lesson, and what it replaces."""

    def named(*targets: ExperienceId) -> str:
        return "; ".join(lessons.get(one, one[:8]) for one in targets)

    match proposal.operation:
        case Add(lesson=lesson):
            return "add", lesson, ""
        case Modify(lesson=lesson, target=target):
            return "modify", lesson, f"instead of: {named(target)}"
        case Merge(lesson=lesson, targets=targets):
            return "merge", lesson, f"instead of: {named(*targets)}"
        case Delete(target=target):
            return "delete", named(target), ""
        case None:
            return "unusable", one_line(proposal.raw, _TEXT) or "an empty item", ""
        case _:
            assert_never(proposal.operation)


def _why(row: ProposalRow, known: _Known) -> str:
    match row.ended.end:
        case Applied(experience=experience):
            return "" if experience is None else f"made the lesson {experience[:8]}"
        case Folded(into=into):
            others = [known.proposals.get((row.phase, row.batch, one)) for one in into]
            asked = [_asked(other.ended.proposal, known.lessons)[1] for other in others if other is not None]
            return f"into: {'; '.join(asked)}" if asked else f"into {', '.join(one[:8] for one in into)}"
        case Dropped(reason=reason):
            return reason
        case Rejected(code=code, reason=reason) | Quarantined(code=code, reason=reason):
            return f"{code}: {reason}"
        case _:
            assert_never(row.ended.end)


def _support(row: ProposalRow, record: LearnRecord, known: _Known) -> tuple[str, str]:
    """How much a proposal rests on, and the task of a comparison."""
    proposal = row.ended.proposal
    rollouts = count_words(len(proposal.evidence), "rollout")
    if proposal.task is not None:
        return rollouts, _short(one_line(record.problems.get(proposal.task, ""), _TASK))
    others = [known.proposals.get((row.phase, row.batch, one)) for one in proposal.rests_on]
    tasks = {other.ended.proposal.task for other in others if other is not None}
    return f"{count_words(len(proposal.rests_on), 'proposal')}, {rollouts}", count_words(len(tasks), "task")


def _short(text: str) -> str:
    return clipped(shown(text), _TEXT)
