"""Proposals in words: what was proposed, and how it ended and why.

ROLLOUT or RUN    an id, or its start
RUN/TASK          the rollouts of one task of a run
RUN/TASK@PHASE    the same in one phase of the run, such as epoch-1; a batch may follow, as in epoch-1:3
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError
from agentlearn.store import ProposalRow, RunRow, StoreReader
from agentlearn.text import Block, block, visible_line
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, RunId, TaskId
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

TASK_ID = 8
"""Characters of a task's id in an address."""


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """The rollouts of one task in one phase of a run."""

    run: RunRow
    phase: str
    batch: int
    task: TaskId


def group_address(run: RunId, task: TaskId, phase: str) -> str:
    """The address of a group."""
    return f"{run}/{task[:TASK_ID]}@{phase}"


def groups_of(reader: StoreReader, run: RunRow) -> list[GroupAddress]:
    """All groups of a run: those of its rollouts, and those that it learned from in the store."""
    own = ((one.phase, one.batch, one.task) for one in reader.trajectories(run.run))
    learned = ((one.phase, one.batch, one.task) for one in reader.lesson_units(run.run))
    return [GroupAddress(run, *key) for key in dict.fromkeys((*own, *learned))]


def resolve(reader: StoreReader, address: str) -> RolloutId | RunRow | GroupAddress:
    """The rollout, the run or the group that an address names; the latest run when it is empty. Raises ConfigError."""
    if not address:
        return _latest(reader)
    run, slash, rest = address.partition("/")
    if slash:
        return _group(reader, reader.run(run), rest)
    rollouts, runs = reader.starting("rollout", address), reader.starting("run", address)
    if address in runs or (len(runs) == 1 and not rollouts):
        return reader.run(runs[0])
    if address in rollouts or (len(rollouts) == 1 and not runs):
        return RolloutId(rollouts[0])
    if not rollouts and not runs:
        raise ConfigError(
            f"the store {str(reader.directory)!r} has no rollout and no run whose id starts with {address!r};"
            f" `{command_words('trace', store=reader.directory)}` lists the latest run,"
            f" `{command_words('runs', 'list', store=reader.directory)}` all runs",
            code="unknown_rollout",
        )
    named = ", ".join(repr(one) for one in (*runs, *rollouts)[:4])
    raise ConfigError(f"{address!r} is ambiguous ({named}); give more of the id", code="unknown_rollout")


def _latest(reader: StoreReader) -> RunRow:
    for run in reader.runs(limit=1):
        return run
    raise ConfigError(
        f"the store {str(reader.directory)!r} has no run yet; start with: agentlearn learn math", code="unknown_run"
    )


def _group(reader: StoreReader, run: RunRow, rest: str) -> GroupAddress:
    task, _, phase = rest.partition("@")
    groups = groups_of(reader, run)
    of_task = [one for one in groups if one.task.startswith(task)]
    found = [one for one in of_task if not phase or phase in _names(one)]
    if len(found) == 1:
        return found[0]
    if found:
        given = f"{run.run}/{rest}"
        raise ConfigError(
            f"{given!r} names {len(found)} groups ({_listed(found)}); give one of them", code="unknown_group"
        )
    nearby = of_task or groups
    listed = f"found: {_listed(nearby)}" if nearby else "it has no rollouts"
    raise ConfigError(f"run {run.run!r} has no group {rest!r} ({listed})", code="unknown_group")


def _names(group: GroupAddress) -> Iterator[str]:
    yield group.phase
    yield f"{group.phase}:{group.batch}"
    yield f"{group.phase}/{group.batch}"


def _listed(groups: Sequence[GroupAddress]) -> str:
    named = [group_address(one.run.run, one.task, one.phase) for one in groups[:4]]
    return ", ".join([*named, *(["…"] if len(groups) > len(named) else [])])


WIDTH = 11
"""Width of the column of labels."""
MAX_CHARACTERS = 2_000
"""Largest number of characters of one text, unless all of it is wanted."""


def labelled(label: str, text: str) -> Block:
    """The text with a label to the left of its first line."""
    return block(text, label.ljust(WIDTH), " " * WIDTH)


def labelled_command(label: str, text: str) -> str:
    """One line of ours with a label. A terminal breaks it where it likes, so that a command in it can be copied."""
    return f"{label.ljust(WIDTH)}{text}"


def indented(text: str, by: int = 2) -> Block:
    """The text with spaces to the left of each line."""
    return block(text, " " * by)


def shortened(text: str, *, full: bool, limit: int = MAX_CHARACTERS) -> str:
    """The text, or without `full` its beginning and its end, with the number of characters left out."""
    if full or len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out; --full prints them …]\n{text[-tail:]}"


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line, cut at its end."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


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
