"""Batches of tasks, and their groups as they complete."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from agentlearn.learning.allocation import Allocation
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import TaskId, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.treatment import Treatment


@dataclass(frozen=True, slots=True)
class Batch:
    """The tasks of one update."""

    epoch: int
    number: int
    """Number of the batch in its epoch, from 1."""
    tasks: tuple[Task, ...]
    of_epoch: int
    """Number of tasks that the whole epoch visits."""
    first: bool
    """Whether it is the first batch of its epoch."""
    last: bool
    """Whether it is the last batch of its epoch."""
    skipped: int = 0
    """Number of tasks that the epoch leaves out."""

    @property
    def phase(self) -> str:
        """Phase of its rollouts, such as `epoch-1`."""
        return f"epoch-{self.epoch}"

    @property
    def step(self) -> str:
        """Name of its update, such as `epoch-1/2`."""
        return f"{self.phase}/{self.number}"

    def without_tasks(self, epoch: int) -> "Batch":
        """Return the batch that stands for an epoch in which every task is skipped."""
        return Batch(epoch, 0, (), 0, first=True, last=True, skipped=self.of_epoch + self.skipped)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch whose rollouts can start."""

    batch: Batch
    library: Library
    """Library that the rollouts are shown."""
    treatments: Mapping[TaskId, tuple[Treatment, ...]]
    """Treatment of each rollout, by task, in order of g. It may hold tasks that are not in the batch."""


@dataclass(frozen=True, slots=True)
class LearnerState:
    """What rollouts get from the learner at one moment."""

    library: Library
    treatments: Mapping[TaskId, tuple[Treatment, ...]]
    """Treatment of each rollout, by task, in order of g."""

    def of(self, batch: Batch) -> PlannedBatch:
        """Return the batch, planned with this state."""
        return PlannedBatch(batch, self.library, self.treatments)


class GroupStream:
    """Async iterable over the groups of one batch, in the order in which they complete."""

    def __init__(self, expected: int, *, rollouts: int = 0) -> None:
        """expected: number of groups. rollouts: number of rollouts that they start with."""
        self._expected = expected
        self._waiting = rollouts
        self._missing = expected
        self._ready: asyncio.Queue[Group] = asyncio.Queue()
        self.complete = asyncio.Event()
        """Set when all groups are complete."""
        self.started = asyncio.Event()
        """Set when none of the first rollouts waits for others to finish, so that there is room for the next batch."""
        if not expected:
            self.complete.set()
            self.started.set()

    def put(self, group: Group) -> None:
        """Add a complete group."""
        self._ready.put_nowait(group)
        self._missing -= 1
        if not self._missing:
            self.complete.set()
            self.started.set()

    def rollout_started(self) -> None:
        """Count a rollout that has started, or that the store holds already."""
        self._waiting -= 1
        if not self._waiting:
            self.started.set()

    async def __aiter__(self) -> AsyncIterator[Group]:
        for _ in range(self._expected):
            yield await self._ready.get()


@dataclass(slots=True)
class Schedule:
    """The batches of a run, one after the other. An epoch is planned when its first batch is asked for.

    Which tasks an epoch visits depends only on the outcomes of the visits before it.
    """

    tasks: Sequence[Task]
    allocation: Allocation
    epochs: int
    size: int
    """Tasks per batch."""
    seed: int
    settled: Mapping[TaskId, bool] = field(default_factory=dict[TaskId, bool])
    """Whether a task was all right when it was last visited. The run writes it."""
    _epoch: int = 0
    """The epoch that was planned last."""
    _left: list[Batch] = field(default_factory=list[Batch])
    """Its batches that were not asked for yet."""

    def following(self) -> Batch | None:
        """Return the next batch; None after the last one. Epochs that visit no task are passed over.

        Ask for the first batch of an epoch only when the groups of the epoch before are complete.
        """
        while not self._left and self._epoch < self.epochs:
            if self._epoch and self.allocation.ends(sum(self.settled.values()), len(self.tasks)):
                return None
            self._epoch += 1
            self._left = _batches(self.tasks, self._visits, epoch=self._epoch, size=self.size, seed=self.seed)
        return self._left.pop(0) if self._left else None

    def end(self) -> None:
        """Make no further batch."""
        self._left, self._epoch = [], self.epochs

    def may_follow(self) -> Sequence[Task]:
        """Return the tasks that the next batch can hold. At the end of an epoch these are all tasks."""
        if self._left:
            return self._left[0].tasks
        return self.tasks if self._epoch < self.epochs else ()

    def _visits(self, task: Task, epoch: int) -> bool:
        settled = self.settled.get(task.id, False)
        return self.allocation.visits(task.id, epoch=epoch, settled=settled, seed=self.seed)


def batches_of(tasks: Sequence[Task], *, epochs: int, size: int, seed: int) -> list[Batch]:
    """Return all batches of a run that skips no task. size: tasks per batch."""
    return [
        batch
        for epoch in range(1, epochs + 1)
        for batch in _batches(tasks, lambda _task, _epoch: True, epoch=epoch, size=size, seed=seed)
    ]


def _batches(
    tasks: Sequence[Task], visits: Callable[[Task, int], bool], *, epoch: int, size: int, seed: int
) -> list[Batch]:
    """Return the batches of one epoch. All tasks are shuffled first, so the order does not depend on the skipped."""
    order = list(tasks)
    Random(derive_seed("order", seed, epoch)).shuffle(order)
    visited = [task for task in order if visits(task, epoch)]
    parts = [tuple(visited[at : at + size]) for at in range(0, len(visited), size)]
    return [
        Batch(
            epoch,
            number,
            part,
            len(visited),
            first=number == 1,
            last=number == len(parts),
            skipped=len(order) - len(visited),
        )
        for number, part in enumerate(parts, start=1)
    ]
