"""The groups of a run, one line each, with the addresses that show them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentlearn.cli.show.addresses import group_address, groups_of
from agentlearn.cli.show.drawn import allocation_of, drawn_words, skipped_tasks
from agentlearn.cli.show.labelled import labelled, labelled_command, one_line
from agentlearn.config.command_words import command_words
from agentlearn.store import RunRow, StoreReader
from agentlearn.types.trajectory import measures

_PROBLEM = 60
"""Characters of a problem in the list."""


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in a list."""

    address: str
    phase: str
    batch: int
    rewards: tuple[float | None, ...]
    """Rewards by rollout; None for a rollout without one. Empty when the run learned from rollouts of other runs."""
    rollouts: tuple[str, ...]
    """Ids of the rollouts."""
    ends: dict[str, int]
    """Proposals of the group by end."""
    problem: str
    planned: int
    """Rollouts that were planned; 0 where none were planned to learn lessons from."""
    drawn: str
    """Why there are fewer; empty when there are not."""


def group_list(reader: StoreReader, run: RunRow) -> list[GroupLine]:
    """All groups of a run, in its order."""
    rollouts = defaultdict[tuple[str, int, str], list[Any]](list)
    for one in reader.trajectories(run.run):
        rollouts[one.phase, one.batch, one.task].append(one)
    ends = defaultdict[tuple[str, int, str], Counter[str]](Counter)
    for row in reader.proposals(run.run):
        if row.ended.proposal.task is not None:
            ends[row.phase, row.batch, row.ended.proposal.task][row.ended.end.end] += 1
    problems: dict[str, str] = {}
    lines: list[GroupLine] = []
    for group in groups_of(reader, run):
        key = (group.phase, group.batch, group.task)
        if group.task not in problems:
            problems[group.task] = reader.task(group.task).problem
        rewards = tuple(one.reward for one in rollouts[key])
        allocation = allocation_of(run, group.phase)
        lines.append(
            GroupLine(
                address=group_address(run.run, group.task, group.phase),
                phase=group.phase,
                batch=group.batch,
                rewards=rewards,
                rollouts=tuple(one.id for one in rollouts[key]),
                ends=dict(ends[key]),
                problem=problems[group.task],
                planned=0 if allocation is None else allocation.group_size,
                drawn=drawn_words(allocation, rewards),
            )
        )
    return lines


def group_list_lines(reader: StoreReader, run: RunRow, *, full: bool) -> Iterator[str]:
    """The groups as text. Without `full`, those of a phase that only measures are counted."""
    groups = group_list(reader, run)
    yield labelled("run", f"{run.run}  {run.kind} {run.domain} with {run.model}, {run.state}")
    counts, skipped = Counter(one.phase for one in groups), skipped_tasks(run)
    for phase in counts:
        members = [one for one in groups if one.phase == phase]
        yield ""
        if measures(phase) and run.kind != "eval" and not full:
            yield f"{phase}: {_measured(reader, run, phase)} (--full lists them)"
            continue
        left_out = f", {skipped[phase]} skipped (all right when last seen)" if skipped.get(phase) else ""
        yield f"{phase}: {len(members)} tasks{left_out}"
        yield from (_line(one) for one in members)
    if not groups:
        yield labelled("", "there are no rollouts")
        return
    shown = next((one for one in groups if one.ends), groups[0])
    yield ""
    yield labelled_command("show one", command_words("trace", shown.address, store=reader.directory))


def _measured(reader: StoreReader, run: RunRow, phase: str) -> str:
    """The tasks of a phase that only measures, by what they were to the run."""
    inputs = reader.run_inputs(run.run)
    train, test = (
        (frozenset(inputs.train), frozenset(inputs.test)) if inputs is not None else (frozenset(), frozenset())
    )
    tasks = {one.task for one in groups_of(reader, run) if one.phase == phase}
    parts = [
        (len(tasks & test), "held-out"),
        (len(tasks & train), "learned from"),
        (len(tasks - test - train), phase.partition(":")[0]),
    ]
    words = {"held-out": "held-out {}", "learned from": "{} learned from"}
    said = [
        f"{count} {words.get(kind, kind + ' {}').format('task' if count == 1 else 'tasks')}"
        for count, kind in parts
        if count
    ]
    return " and ".join(said)


def _line(group: GroupLine) -> str:
    rewards = " ".join("-" if one is None else f"{one:g}" for one in group.rewards) or "rollouts of other runs"
    ends = ", ".join(f"{count} {end}" for end, count in sorted(group.ends.items())) or "none"
    drawn = f" ({group.drawn})" if group.drawn else ""
    return f"  {group.address}   rewards {rewards}{drawn}   proposals {ends}   {one_line(group.problem, _PROBLEM)}"
