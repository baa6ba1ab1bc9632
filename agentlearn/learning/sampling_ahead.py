"""Starts the rollouts of later batches before the updates of earlier ones are made, by a limited number of batches."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from agentlearn.learning.batch import Batch, GroupStream, Schedule

StartedBatch = tuple[Batch, GroupStream]
"""A batch whose rollouts have started, and its groups as they complete."""


@dataclass(slots=True)
class SamplingAhead:
    """Sampling that runs ahead of the updates.

    Batch number n (from 0) starts when at least n - `most` updates are made, so its rollouts miss at most `most`
    updates. It starts as soon as no earlier rollout waits to start: the slow last rollouts of a batch leave no slot
    idle, and no batch starts earlier than it is of use.
    """

    schedule: Schedule
    start: Callable[[Batch], GroupStream]
    """Starts the rollouts of a batch with the learner's present state."""
    most: int
    """Largest number of updates that a batch may miss."""
    updates: int
    """Number of updates made so far; of a resumed run, with those that were made before."""
    _started: asyncio.Queue[StartedBatch | None] = field(default_factory=asyncio.Queue[StartedBatch | None])
    _one_updated: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Start all batches that are left, one after the other."""
        number = self.updates
        while (batch := self.schedule.following()) is not None:
            while self.updates < number - self.most:
                self._one_updated.clear()
                await self._one_updated.wait()
            groups = self.start(batch)
            self._started.put_nowait((batch, groups))
            number += 1
            await groups.started.wait()
        self._started.put_nowait(None)

    async def next(self) -> StartedBatch | None:
        """Return the next batch to learn from, in order; None after the last one."""
        return await self._started.get()

    def updated(self) -> None:
        """Count an update."""
        self.updates += 1
        self._one_updated.set()
