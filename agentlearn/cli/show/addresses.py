"""Addresses of rollouts, groups and runs, as a user types them.

ROLLOUT or RUN    an id, or its start
RUN/TASK          the rollouts of one task of a run
RUN/TASK@PHASE    the same in one phase of the run, such as epoch-1; a batch may follow, as in epoch-1:3
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError
from agentlearn.store import RunRow, StoreReader
from agentlearn.types.ids import RolloutId, RunId, TaskId

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
