"""Proposals in words: what was proposed, and how it ended and why."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from agentlearn.cli.show.labelled import one_line
from agentlearn.store import ProposalRow
from agentlearn.text import visible_line
from agentlearn.types.ids import ExperienceId, ProposalId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    End,
    Ended,
    Folded,
    Merge,
    Modify,
    Operation,
    Quarantined,
    Rejected,
)

SHORT_ID = 8
"""Characters of an id that are shown where another command does not need it whole."""


def operation_words(operation: Operation | None, raw: str, labels: Mapping[ExperienceId, str]) -> str:
    """An operation with its lesson. labels: the lessons' labels in the library that it would change."""

    def named(target: ExperienceId) -> str:
        return labels.get(target, target[:SHORT_ID])

    match operation:
        case Add():
            return f"add: {visible_line(operation.lesson)}"
        case Modify():
            return f"modify {named(operation.target)}: {visible_line(operation.lesson)}"
        case Delete():
            return f"delete {named(operation.target)}"
        case Merge():
            return f"merge {', '.join(named(one) for one in operation.targets)}: {visible_line(operation.lesson)}"
        case None:
            return f"unusable item: {one_line(raw)}"
        case _:
            assert_never(operation)


def end_words(end: End) -> str:
    """How a proposal ended, and why."""
    match end:
        case Applied():
            return "applied" if end.experience is None else f"applied: it made the lesson {end.experience[:SHORT_ID]}"
        case Folded():
            return f"folded into {', '.join(one[:SHORT_ID] for one in end.into)}"
        case Dropped():
            return f"dropped: {visible_line(end.reason)}"
        case Rejected():
            return f"refused: {end.code}: {visible_line(end.reason)}"
        case Quarantined():
            return f"quarantined: {end.code}: {visible_line(end.reason)}"
        case _:
            assert_never(end)


def proposal_lines(ended: Ended, labels: Mapping[ExperienceId, str]) -> tuple[str, str]:
    """A proposal in two lines: the operation, then its end with doubts and with what it rests on."""
    proposal = ended.proposal
    asked = f"{proposal.id[:SHORT_ID]}  {operation_words(proposal.operation, proposal.raw, labels)}"
    parts = [end_words(ended.end)]
    if proposal.rests_on:
        parts.append(f"rests on {', '.join(one[:SHORT_ID] for one in proposal.rests_on)}")
    if ended.flags:
        parts.append(f"in doubt: {', '.join(ended.flags)}")
    if len(proposal.prompts) > 1:
        parts.append("corrected after a refusal")
    return asked, f"  {'; '.join(parts)}"


def proposal_json(row: ProposalRow) -> dict[str, Any]:
    """A proposal for JSON output."""
    return {"run": row.run, "phase": row.phase, "batch": row.batch, **row.ended.model_dump(mode="json")}


def followers(rows: Sequence[ProposalRow], of: ProposalRow) -> list[ProposalRow]:
    """The proposals of the same batch that rest on a proposal, or that it was folded into."""
    end = of.ended.end
    into: tuple[ProposalId, ...] = end.into if isinstance(end, Folded) else ()
    return [
        row
        for row in rows
        if (row.run, row.phase, row.batch) == (of.run, of.phase, of.batch)
        and (of.ended.proposal.id in row.ended.proposal.rests_on or row.ended.proposal.id in into)
    ]
