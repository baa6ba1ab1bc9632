"""Addresses of what the store holds, the groups of a run, and proposals in words.

ROLLOUT or RUN    an id, or its start
RUN/TASK          the rollouts of one task of a run
RUN/TASK@PHASE    the same in one phase of the run, such as epoch-1; a batch may follow, as in epoch-1:3
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from agentlearn.config.defaults import command_words
from agentlearn.domain.base import installed_domains
from agentlearn.errors import ConfigError
from agentlearn.library.history.three_way import HeldLesson
from agentlearn.pages.terminal import labelled, one_line
from agentlearn.store import ProposalRow, RunRow, StoreReader, TrajectoryRow
from agentlearn.store.erasure_intent import ErasureReceipt
from agentlearn.text import visible_line
from agentlearn.types.experience import counted_lessons
from agentlearn.types.ids import ExperienceId, ProposalId, RolloutId, RunId, TaskId
from agentlearn.types.operation import (
    Add,
    Applied,
    Delete,
    Dropped,
    Edit,
    End,
    Folded,
    Merge,
    Modify,
    Operation,
    Quarantined,
    Rejected,
)
from agentlearn.types.trajectory import prompt_labels

_MOST_FILES = 8
SHORT_ID = 8
"""Characters of an id that are shown where another command does not need it whole."""


def how_to_measure(name: str, store: Path) -> str:
    """Return how the effect of a library's lessons is measured, in words: while learning, and in an application."""
    known = name if name in installed_domains() else "TASKS"
    learn = command_words("learn", known, "--from", name, "--hidden-rollouts", "1", store=store)
    return f"hide them from some rollouts: `{learn}`, or in your application Experiences({name!r}, hide='1/20')"


def erasure_lines(found: ErasureReceipt, held: Sequence[HeldLesson]) -> Iterator[str]:
    """What an erasure would remove, and the lessons that rest on it. held: those that a version of a library holds."""
    counts = ", ".join(f"{table} {count:,}" for table, count in found.removed.items())
    yield f"{len(found.rollouts):,} rollouts {found.words}; rows by table: {counts}"
    if found.runs:
        yield f"runs whose pages and replies of stages go with them: {', '.join(found.runs)}"
    yield from (f"file: {one}" for one in found.files[:_MOST_FILES])
    if (more := len(found.files) - _MOST_FILES) > 0:
        yield f"and {more:,} more files"
    if found.lessons:
        yield f"{counted_lessons(len(found.lessons))} {'rests' if len(found.lessons) == 1 else 'rest'} on them:"
    words = {one.experience.id: one.experience.lesson for one in held}
    for one in found.lessons:
        where = f"shown by {', '.join(one.shown)}" if one.shown else "shown by no library"
        yield f"  {one.id[:12]}  {where}: {words.get(one.id, 'never published; park erases it')}"
    yield from (f"park: {one}" for one in found.ended)


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """The rollouts of one task in one phase of a run."""

    run: RunRow
    phase: str
    batch: int
    task: TaskId

    @classmethod
    def in_run(cls, reader: StoreReader, run: RunRow, rest: str) -> "GroupAddress":
        """The group of a run that `TASK` or `TASK@PHASE` names. Raises ConfigError."""
        task, _, phase = rest.partition("@")
        groups = cls.all_of(reader, run)
        of_task = [one for one in groups if one.task.startswith(task)]
        found = [
            one for one in of_task if phase in {"", one.phase, f"{one.phase}:{one.batch}", f"{one.phase}/{one.batch}"}
        ]
        if len(found) == 1:
            return found[0]
        nearby = found or of_task or groups
        listed = ", ".join(
            [*(group_address(run.run, one.task, one.phase) for one in nearby[:4]), *(["…"] if len(nearby) > 4 else [])]
        )
        if found:
            given = f"{run.run}/{rest}"
            raise ConfigError(f"{given!r} names {len(found)} groups ({listed}); give one of them", code="unknown_group")
        listed = f"found: {listed}" if nearby else "it has no rollouts"
        raise ConfigError(f"run {run.run!r} has no group {rest!r} ({listed})", code="unknown_group")

    @classmethod
    def all_of(cls, reader: StoreReader, run: RunRow) -> "list[GroupAddress]":
        """All groups of a run: those of its rollouts, and those that it learned from in the store."""
        own = ((one.phase, one.batch, one.task) for one in reader.trajectories(run.run))
        learned = ((one.phase, one.batch, one.task) for one in reader.lesson_units(run.run))
        return [GroupAddress(run, *key) for key in dict.fromkeys((*own, *learned))]


def group_address(run: RunId, task: TaskId, phase: str) -> str:
    """The address of a group."""
    return f"{run}/{task[:SHORT_ID]}@{phase}"


def resolve(reader: StoreReader, address: str) -> RolloutId | RunRow | GroupAddress:
    """The rollout, the run or the group that an address names; the latest run for `last` or ''. Raises ConfigError."""
    store = reader.directory
    if address in {"", "last"}:
        if latest := reader.runs(limit=1):
            return latest[0]
        raise ConfigError(
            f"the store {str(store)!r} has no run yet; start with: agentlearn learn math", code="unknown_run"
        )
    run, slash, rest = address.partition("/")
    if slash:
        return GroupAddress.in_run(reader, reader.run(run), rest)
    rollouts, runs = reader.starting("rollout", address), reader.starting("run", address)
    if address in runs or (len(runs) == 1 and not rollouts):
        return reader.run(runs[0])
    if address in rollouts or (len(rollouts) == 1 and not runs):
        return RolloutId(rollouts[0])
    if not rollouts and not runs:
        raise ConfigError(
            f"the store {str(store)!r} has no rollout and no run whose id starts with {address!r};"
            f" `{command_words('trace', store=store)}` lists the latest run,"
            f" `{command_words('runs', 'list', store=store)}` all runs",
            code="unknown_rollout",
        )
    named = ", ".join(repr(one) for one in (*runs, *rollouts)[:4])
    raise ConfigError(f"{address!r} is ambiguous ({named}); give more of the id", code="unknown_rollout")


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in a list."""

    phase: str
    batch: int
    task: TaskId
    problem: str
    """Empty for a task that the store does not hold."""
    rewards: tuple[float | None, ...]
    """Rewards by rollout; None for a rollout without one. Empty when the rollouts are those of other runs."""
    failed: bool
    """Whether the agent failed to answer in every rollout that counts."""
    ends: Mapping[str, int]
    """Its proposals by end."""
    rollouts: tuple[RolloutId, ...] = ()


def group_rows(
    reader: StoreReader, run: RunRow, rollouts: Iterable[TrajectoryRow], proposals: Iterable[ProposalRow]
) -> list[GroupRow]:
    """All groups of a run, in its order. rollouts, proposals: all of the run."""
    members = defaultdict[tuple[str, int, str], list[TrajectoryRow]](list)
    for one in rollouts:
        members[one.phase, one.batch, one.task].append(one)
    ends = defaultdict[tuple[str, int, str], Counter[str]](Counter)
    for row in proposals:
        if (task := row.ended.proposal.task) is not None:
            ends[row.phase, row.batch, task][row.ended.end.end] += 1
    groups = GroupAddress.all_of(reader, run)
    tasks = reader.tasks(list(dict.fromkeys(group.task for group in groups)))
    rows: list[GroupRow] = []
    for group in groups:
        key = (group.phase, group.batch, group.task)
        decided = [one for one in members[key] if one.reward is not None]
        rows.append(
            GroupRow(
                *(group.phase, group.batch, group.task),
                problem=tasks[group.task].problem if group.task in tasks else "",
                rewards=tuple(one.reward for one in members[key]),
                failed=bool(decided) and all(one.outcome == "failed" for one in decided),
                ends=dict(ends[key]),
                rollouts=tuple(one.id for one in members[key]),
            )
        )
    return rows


def operation_parts(operation: Operation | None, raw: str) -> tuple[str, tuple[ExperienceId, ...], str]:
    """What an operation does, in a word, the lessons that it would change, and its own lesson, or its unusable text."""
    match operation:
        case Add(lesson=lesson):
            return "add", (), visible_line(lesson)
        case Modify(lesson=lesson, target=target):
            return "modify", (target,), visible_line(lesson)
        case Merge(lesson=lesson, targets=targets):
            return "merge", targets, visible_line(lesson)
        case Delete(target=target):
            return "delete", (target,), ""
        case Edit(target=target, old=old, new=new):
            return (
                "edit",
                (target,),
                f"{visible_line(old)} → {visible_line(new) or 'nothing'}" if old else visible_line(new),
            )
        case None:
            return "unusable", (), one_line(raw) or "an empty item"
        case _:
            assert_never(operation)


def operation_words(operation: Operation | None, raw: str, labels: Mapping[ExperienceId, str]) -> str:
    """An operation with its lesson. labels: the lessons' labels in the library that it would change."""
    verb, targets, lesson = operation_parts(operation, raw)
    named = ", ".join(labels.get(target, target[:SHORT_ID]) for target in targets)
    return ": ".join(filter(None, (f"{verb} {named}".rstrip(), lesson)))


ENDS = {
    "applied": "applied",
    "folded": "merged",
    "dropped": "not used",
    "rejected": "refused",
    "quarantined": "quarantined",
}
"""What people read for the ends of proposals."""


def end_words(end: End) -> tuple[str, str]:
    """How a proposal ended, in a word, and why, or what came of it."""
    match end:
        case Applied(experience=experience):
            why = "" if experience is None else f"it made the lesson {str(experience)[:SHORT_ID]}"
        case Folded(into=into):
            why = f"into {', '.join(one[:SHORT_ID] for one in into)}"
        case Dropped(reason=reason):
            why = visible_line(reason)
        case Rejected(code=code, reason=reason) | Quarantined(code=code, reason=reason):
            why = f"{code}: {visible_line(reason)}"
        case _:
            assert_never(end)
    return ENDS[end.end], why


def counted_ends(ends: Mapping[str, int]) -> str:
    """How many proposals ended in which way: `1 applied, 2 merged`; `none` for no proposal."""
    return ", ".join(f"{number} {ENDS[end]}" for end, number in sorted(ends.items())) or "none"


def proposal_lines(
    label: str, rows: Iterable[ProposalRow], labels: Mapping[ExperienceId, str], *, prompts: bool = True
) -> Iterator[str]:
    """Proposals, each as its operation, and its end with doubts and with what it rests on.

    labels: of the lessons. prompts: name the prompts too.
    """
    for row in rows:
        proposal = row.ended.proposal
        parts = [": ".join(filter(None, end_words(row.ended.end)))]
        if proposal.rests_on:
            parts.append(f"rests on {', '.join(one[:SHORT_ID] for one in proposal.rests_on)}")
        if row.ended.flags:
            parts.append(f"in doubt: {', '.join(row.ended.flags)}")
        if len(proposal.prompts) > 1:
            parts.append("corrected after a refusal")
        if prompts:
            parts.append(f"asked with {prompt_labels(proposal.prompts)}")
        asked = f"{proposal.id[:SHORT_ID]}  {operation_words(proposal.operation, proposal.raw, labels)}"
        first, indent = (f"→ {asked}", "    ") if not label else (asked, "  ")
        yield labelled(label, f"{first}\n{indent}{'; '.join(parts)}")


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
