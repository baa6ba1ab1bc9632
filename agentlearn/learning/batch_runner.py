"""Runs the rollouts of a batch or of an evaluation, and stores them as they finish."""

import asyncio
from asyncio import TaskGroup
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentlearn.config import RunSettings
from agentlearn.learning.batch import Batch, GroupStream, PlannedBatch
from agentlearn.learning.evaluate import Scores
from agentlearn.learning.majority import by_majority
from agentlearn.learning.resume import FinishedRollouts, TaskRollout
from agentlearn.learning.run_monitor import RunMonitor
from agentlearn.learning.stored_groups import StoredGroups
from agentlearn.library.capability import Experiences
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot
from agentlearn.store import Store
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import Treatment

SamplingStarted = Callable[[int], Callable[[], None]]
"""Called before that many training rollouts start; returns a callback to call when each finishes."""


def rollouts_at_once(concurrency: int) -> int:
    """Number of rollouts to run for `concurrency` model calls in flight; some are running a tool or wait to retry."""
    return concurrency + concurrency // 2


@dataclass(slots=True)
class BatchRunner:
    """Runs rollouts, and takes those that an interrupted run had finished from the store."""

    settings: RunSettings
    store: Store
    rollouts: Rollouts
    monitor: RunMonitor
    finished: FinishedRollouts
    stored_groups: StoredGroups | None
    """Groups to learn from instead of new rollouts; None: make rollouts."""
    repeats_unfinished: bool
    """Whether a resumed run makes all rollouts of an unfinished batch again."""
    sampling_started: SamplingStarted
    _experiences: dict[LibraryVersion, Experiences] = field(default_factory=dict[LibraryVersion, Experiences])
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(rollouts_at_once(self.settings.concurrency))

    def start(self, planned: PlannedBatch, under_way: TaskGroup) -> GroupStream:
        """Start all rollouts of the batch in `under_way`; return its groups as they complete."""
        batch, groups = planned.batch, GroupStream(len(planned.batch.tasks))
        if self.stored_groups is not None:
            self._read_stored(self.stored_groups, batch, groups)
            return groups
        if batch.first:
            self.monitor.callbacks.phase_started(batch.phase, batch.of_epoch * self.settings.group_size)
        finished = self.finished.of(batch.phase, batch.number)
        one_done = self.sampling_started(len(batch.tasks) * self.settings.group_size)

        async def one(task: Task, g: int, treatment: Treatment) -> Finished:
            try:
                return await self._one(task, self._slot(batch, task, g), treatment, planned.library, finished)
            finally:
                one_done()

        async def group(task: Task) -> None:
            async with TaskGroup() as members:
                running = [
                    members.create_task(one(task, g, treatment))
                    for g, treatment in enumerate(planned.treatments[task.id])
                ]
            groups.put(await self._complete(task, [member.result() for member in running]))

        for task in batch.tasks:
            under_way.create_task(group(task))
        return groups

    async def evaluate(self, phases: Mapping[str, Library], tasks: Sequence[Task]) -> dict[str, Scores]:
        """Run k rollouts per held-out task in each phase, with the phase's library; return the scores by phase.

        All phases use the same seeds, so that only the library differs. Their rollouts are interleaved, so that a
        change of the service affects all of them alike.
        """
        k = self.settings.eval_rollouts
        self.monitor.callbacks.phase_started("+".join(phases), len(phases) * len(tasks) * k)
        finished = {phase: self.finished.of(phase, 0) for phase in phases}
        order = list(phases)
        running: dict[str, list[asyncio.Task[Finished]]] = {phase: [] for phase in phases}
        async with TaskGroup() as members:
            for g in range(k):
                for task in tasks:
                    for phase in order:
                        slot, library = self._evaluation_slot(phase, task, g), phases[phase]
                        rollout = self._one(task, slot, self._evaluation_treatment(library), library, finished[phase])
                        running[phase].append(members.create_task(rollout))
                    order.reverse()  # each phase goes first equally often
        self.monitor.refuse_silence()
        return {
            phase: Scores.of([one.result().trajectory for one in rollouts], tasks, k)
            for phase, rollouts in running.items()
        }

    def _evaluation_treatment(self, library: Library) -> Treatment:
        return Treatment(
            model=self.rollouts.endpoint.name, library=library.version, temperature=self.settings.eval_temperature
        )

    def _read_stored(self, stored: StoredGroups, batch: Batch, groups: GroupStream) -> None:
        """Put the batch's groups from the store into `groups`."""
        if batch.first:
            self.monitor.callbacks.phase_started(batch.phase, sum(len(one) for one in stored.rollouts.values()))
        for task in batch.tasks:
            group = stored.group(task, self.store)
            if self.settings.labels == "none":
                group = by_majority(group, self.rollouts.domain)
            for trajectory in group.trajectories:
                self.monitor.stored_rollout_read(batch, trajectory)
            self.monitor.group_done(group, self.rollouts.domain.threshold)
            groups.put(group)

    def _slot(self, batch: Batch, task: Task, g: int) -> RolloutSlot:
        return RolloutSlot(batch.phase, g, derive_seed(self.settings.seed, batch.phase, task.id, g), batch.number)

    def _evaluation_slot(self, phase: str, task: Task, g: int) -> RolloutSlot:
        return RolloutSlot(phase, g, derive_seed(self.settings.seed, "held-out", task.id, g))

    async def _complete(self, task: Task, members: Sequence[Finished]) -> Group:
        """Return the group. With labels `none`, judge its rollouts by majority and store them first."""
        group = Group(task=task, trajectories=tuple(member.trajectory for member in members))
        if self.settings.labels == "none":
            group = by_majority(group, self.rollouts.domain)
            for member, judged in zip(members, group.trajectories, strict=True):
                await self._keep(replace(member, trajectory=judged))
        self.monitor.group_done(group, self.rollouts.domain.threshold)
        return group

    async def _one(
        self,
        task: Task,
        slot: RolloutSlot,
        treatment: Treatment,
        library: Library,
        finished: Mapping[TaskRollout, Trajectory],
    ) -> Finished:
        learning, before = slot.phase.startswith("epoch"), finished.get((task.id, slot.g))
        if before is not None and not (self.repeats_unfinished and learning):
            done = Finished(before, b"", stored=True)
        else:
            if library.version not in self._experiences:
                self._experiences[library.version] = Experiences(library)
            async with self._slots:
                done = await self.rollouts.one(task, slot, treatment, self._experiences[library.version])
            done = replace(done, stored=before is not None)
        if self.settings.labels == "gold" or not learning:
            await self._keep(done)
        return done

    async def _keep(self, finished: Finished) -> None:
        if not finished.stored:
            await finished.save(self.store)
        self.monitor.rollout_done(finished.trajectory)
