"""Groups of recorded rollouts: those with the same task where they differ, the others with their nearest neighbours."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentlearn.data.nearest import most_central, nearest_groups, same_text
from agentlearn.store import LiveRow, StoreReader, read_store
from agentlearn.types.groups import Groups, LiveGroup
from agentlearn.types.ids import RunId, TaskId
from agentlearn.types.task import Task

_Kind = tuple[str, str, tuple[str, ...]]
"""Model, library version and withheld lessons."""


def read_groups(store: Path, name: str, *, min_size: int = 2, max_size: int = 8) -> Groups:
    """Read the groups of a recorder. Raises StoreError."""
    with read_store(store) as reader:
        return live_groups(reader, name, min_size=min_size, max_size=max_size)


def live_groups(
    reader: StoreReader, name: str, *, run: RunId | None = None, min_size: int = 2, max_size: int = 8
) -> Groups:
    """Return the groups of the latest 100,000 rollouts that have a reward. One task leads at most one group.

    run: only rollouts of this run.
    """
    rows = sorted(reader.live(name, run), key=lambda row: (row.at, row.id))
    tasks = reader.tasks(sorted({row.task for row in rows}))
    same: defaultdict[tuple[_Kind, str, str | None], list[LiveRow]] = defaultdict(list)
    for row in rows:
        task = tasks[row.task]
        same[_kind(row), same_text(task.problem), task.answer].append(row)
    whole = [_latest(members, max_size) for members in same.values() if _teaches(members, min_size)]
    alone = [members[-1] for members in same.values() if not _teaches(members, min_size)]
    listed = [row for members in whole for row in members] + alone
    place = {row.id: number for number, row in enumerate(listed)}
    near = nearest_groups(
        [tasks[row.task].problem for row in listed],
        [_kind(row) for row in listed],
        [row.reward for row in listed],
        max_size=max_size,
        begun=[[place[row.id] for row in members] for members in whole],
    )
    together = [[listed[number] for number in places] for places in near if len(places) >= min_size]
    single = sum(len(places) for places in near if len(places) < min_size)
    best: dict[TaskId, LiveGroup] = {}
    for unsorted in together:  # of several groups that one task leads, one that can teach, the larger, the later
        group = _group(sorted(unsorted, key=lambda row: (row.at, row.id)), tasks)
        known = best.get(group.task.id)
        if known is None or (group.mixed, len(group.rollouts)) >= (known.mixed, len(known.rollouts)):
            best[group.task.id] = group
    groups = tuple(best[task] for task in sorted(best))
    grouped = sum(len(group.rollouts) for group in groups)
    return Groups(
        name=name,
        store=reader.directory,
        groups=groups,
        single=single,
        set_aside=len(rows) - grouped - single,
        without_reward=reader.live_without_reward(name, run),
    )


def _teaches(members: Sequence[LiveRow], min_size: int) -> bool:
    """Whether rollouts of one task are enough for a group and differ. If not, the latest one looks for neighbours."""
    return len(members) >= min_size and len({row.reward for row in members}) > 1


def _kind(row: LiveRow) -> _Kind:
    """What the rollouts of a group must have in common. A person's answer goes with the rollout that it corrects."""
    return row.model, str(row.library), tuple(row.masked)


def _latest(members: Sequence[LiveRow], max_size: int) -> list[LiveRow]:
    """The latest rollouts with each reward in turn, so that a group that is cut down can still teach."""
    by_reward: defaultdict[float, list[LiveRow]] = defaultdict(list)
    for row in members:
        by_reward[row.reward].append(row)
    kept: list[LiveRow] = []
    while len(kept) < min(max_size, len(members)):
        for reward in sorted(by_reward):
            if by_reward[reward] and len(kept) < max_size:
                kept.append(by_reward[reward].pop())
    return sorted(kept, key=lambda row: (row.at, row.id))


def _group(members: Sequence[LiveRow], tasks: Mapping[TaskId, Task]) -> LiveGroup:
    central = members[most_central([tasks[row.task].problem for row in members])].task
    others = dict.fromkeys(row.task for row in members if row.task != central)
    return LiveGroup(
        task=tasks[central],
        others=tuple(tasks[one] for one in others),
        rollouts=tuple(row.id for row in members),
        rewards=tuple(row.reward for row in members),
    )
