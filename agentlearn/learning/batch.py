"""Batches of tasks, and their groups as they complete."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

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
    """Number of tasks in the whole epoch."""
    first: bool
    """Whether it is the first batch of its epoch."""
    last: bool
    """Whether it is the last batch of its epoch."""

    @property
    def phase(self) -> str:
        """Phase of its rollouts, such as `epoch-1`."""
        return f"epoch-{self.epoch}"

    @property
    def step(self) -> str:
        """Name of its update, such as `epoch-1/2`."""
        return f"{self.phase}/{self.number}"


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch whose rollouts can start."""

    batch: Batch
    library: Library
    """Library that the rollouts are shown."""
    treatments: Mapping[TaskId, tuple[Treatment, ...]]
    """Treatment of each rollout, by task, in order of g."""


class GroupStream:
    """Async iterable over the groups of one batch, in the order in which they complete."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._missing = expected
        self._ready: asyncio.Queue[Group] = asyncio.Queue()
        self.complete = asyncio.Event()
        """Set when all groups are complete."""

    def put(self, group: Group) -> None:
        """Add a complete group."""
        self._ready.put_nowait(group)
        self._missing -= 1
        if not self._missing:
            self.complete.set()

    async def __aiter__(self) -> AsyncIterator[Group]:
        for _ in range(self._expected):
            yield await self._ready.get()


def batches_of(tasks: Sequence[Task], *, epochs: int, size: int, seed: int) -> list[Batch]:
    """Return all batches of a run; the tasks are shuffled for each epoch. size: tasks per batch."""
    batches: list[Batch] = []
    for epoch in range(1, epochs + 1):
        order = list(tasks)
        Random(derive_seed("order", seed, epoch)).shuffle(order)
        parts = [tuple(order[at : at + size]) for at in range(0, len(order), size)]
        batches.extend(
            Batch(epoch, number, part, len(order), first=number == 1, last=number == len(parts))
            for number, part in enumerate(parts, start=1)
        )
    return batches
