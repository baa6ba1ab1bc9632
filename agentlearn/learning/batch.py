"""Batches of tasks, and their groups as they complete.

G is a plan. A group starts with a first wave of rollouts. When their rewards differ, it can be learned from; when all
are right, it hardly ever will be. Only when all are equally wrong, further rollouts may find a right one. A task whose
rollouts were all right when it was last visited is skipped, and visited again once in a few epochs, so that a lesson
that breaks it is noticed. Learning ends early when most tasks are settled in this way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, differ
from agentlearn.types.ids import TaskId, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Treatment

VALIDATION_ROUND = 20
"""Rollouts of one version in one round of the comparison of versions, after which some may drop out."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The rules of one run."""

    group_size: int
    """Rollouts planned per task (G)."""
    stop_after: int
    """Rollouts of the first wave. A group stops after it unless all are equally wrong. `group_size`: never."""
    margin: float = 0.0
    """Rewards that differ by no more than this count as equal, in units of the reward."""
    revisit_every: int = 1
    """A settled task is visited in one of this many epochs; 1: in every epoch."""
    end_when_settled: float = 1.0
    """Share of settled tasks above which no further epoch starts; 1: never."""
    revisit_chance: float = 1.0
    """Chance that an epoch visits a task whose rewards were equal when it was last visited; 1: it does."""

    @classmethod
    def of(cls, settings: LearnSettings) -> "Allocation":
        """Return the rules of a run that learns lessons. Of stored rollouts, all are read.

        A run that hides lessons makes every group whole: a group that stops because of its rewards would distort what
        the hidden lessons are measured by. Raises ConfigError when no rollout of a group would be shown a lesson.
        """
        hidden = settings.hidden_rollouts
        if settings.from_store and hidden:
            raise ConfigError(
                f"hidden_rollouts is {hidden!r}, but a run over stored rollouts makes none; leave out one of"
                " hidden_rollouts and from_store"
            )
        if settings.from_store:
            return cls.of_all(settings.group_size)
        if hidden >= settings.group_size:
            raise ConfigError(
                f"hidden_rollouts is {hidden!r}, but a group has {settings.group_size!r} rollouts; hide lessons from"
                " fewer rollouts than a group has"
            )
        return cls(
            group_size=settings.group_size,
            stop_after=settings.group_size if hidden else settings.stop_after,
            margin=settings.reward_margin,
            revisit_every=settings.revisit_every,
            end_when_settled=settings.end_when_settled,
        )

    @classmethod
    def of_all(cls, group_size: int, revisit_chance: float = 1.0) -> "Allocation":
        """Return rules by which every rollout is made, and every difference between rewards counts."""
        return cls(group_size=group_size, stop_after=group_size, revisit_chance=revisit_chance)

    @property
    def first_wave(self) -> int:
        """Number of rollouts that start at once."""
        return min(self.stop_after, self.group_size)

    def more(self, rewards: Sequence[float | None], threshold: float = 1.0) -> int:
        """Number of rollouts to add to a group whose first wave is over.

        rewards: None for an undecided rollout, which decides nothing. threshold: reward from which an answer is right.
        """
        decided = [reward for reward in rewards if reward is not None]
        if differ(decided, self.margin) or (decided and len(decided) == len(rewards) and min(decided) >= threshold):
            return 0
        return max(0, self.group_size - len(rewards))

    def ends(self, settled: int, tasks: int) -> bool:
        """Whether no further epoch starts. settled: number of settled tasks. tasks: number of all."""
        return settled > self.end_when_settled * tasks

    def visits(self, task: TaskId, *, epoch: int, settled: bool, equal: bool = False, seed: int) -> bool:
        """Whether an epoch visits the task. settled: it was all right when it was last visited. equal: its rewards were
        equal then."""
        if equal and Random(derive_seed("curriculum", seed, epoch, task)).random() >= self.revisit_chance:
            return False
        if not settled or self.revisit_every <= 1:
            return True
        return (epoch + derive_seed("revisit", seed, task)) % self.revisit_every == 0

    def expected_visits(self, epochs: int, right: float) -> tuple[float, ...]:
        """Return the expected share of the tasks that each epoch visits. right: share of visits that end all right.

        Epochs that are not expected to start are left out.
        """
        settled, shares = 0.0, list[float]()
        for _ in range(epochs):
            if self.end_when_settled < 1 and settled > self.end_when_settled:
                break
            again = settled / self.revisit_every
            shares.append(1.0 - settled + again)
            settled = settled - again + shares[-1] * right
        return tuple(shares)

    def expected_size(self, wrong: float) -> float:
        """Return the expected number of rollouts of a group. wrong: share of groups that are all wrong at first."""
        return self.first_wave + wrong * (self.group_size - self.first_wave)


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
class LearnerState:
    """What rollouts get from the learner at one moment."""

    library: Library
    """Library that the rollouts are shown."""
    treatments: Mapping[TaskId, tuple[Treatment, ...]]
    """Treatment of each rollout, by task, in order of g. It may hold tasks that are not in the batch."""


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
    equal: Mapping[TaskId, bool] = field(default_factory=dict[TaskId, bool])
    """Whether the rewards of a task were equal when it was last visited. The run writes it."""
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
        settled, equal = (known.get(task.id, False) for known in (self.settled, self.equal))
        return self.allocation.visits(task.id, epoch=epoch, settled=settled, equal=equal, seed=self.seed)


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
