"""Batches: the tasks between two updates, and their groups as these complete."""

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
    """Tasks between two updates."""

    epoch: int
    number: int
    """Place in the epoch, from 1."""
    tasks: tuple[Task, ...]
    of_epoch: int
    """Tasks of the whole epoch."""
    first: bool
    last: bool
    """Whether it is the epoch's first, last batch."""

    @property
    def phase(self) -> str:
        """The epoch, as rollouts name it."""
        return f"epoch-{self.epoch}"

    @property
    def step(self) -> str:
        """Where in the run."""
        return f"{self.phase}/{self.number}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch whose rollouts may begin: the library they read, and what each is run under."""

    batch: Batch
    library: Library
    treatments: Mapping[TaskId, tuple[Treatment, ...]]


class GroupStream:
    """The groups of one batch, in the order in which they complete; ends after the last."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._missing = expected
        self._ready: asyncio.Queue[Group] = asyncio.Queue()
        self.complete = asyncio.Event()
        """Set when the last group is there."""

    def put(self, group: Group) -> None:
        """One more group is complete."""
        self._ready.put_nowait(group)
        self._missing -= 1
        if not self._missing:
            self.complete.set()

    async def __aiter__(self) -> AsyncIterator[Group]:
        for _ in range(self._expected):
            yield await self._ready.get()


def batches_of(tasks: Sequence[Task], *, epochs: int, size: int, seed: int) -> list[Batch]:
    """All batches of a run, each epoch in an order of its own. size: tasks per batch."""
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
