"""A run's course, whatever learns in it: measure, batch by batch roll out and update, measure again.

Lessons and weights are learned over this one loop: what differs is the learner, and what a session keeps and reports.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from asyncio import TaskGroup
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from agentlearn.config import RunSettings
from agentlearn.errors import ConfigError
from agentlearn.learn.batch import Batch, GroupStream, Planned, batches_of
from agentlearn.learn.callbacks import Callbacks
from agentlearn.learn.evaluate import Scores, score_of
from agentlearn.learn.learner import Learner, Update
from agentlearn.learn.majority import by_majority
from agentlearn.learn.report import HeldOutScore
from agentlearn.learn.run_stats import RunStats
from agentlearn.learn.stored_groups import StoredGroups
from agentlearn.learn.task_sets import TaskSets
from agentlearn.learn.warnings import run_warnings
from agentlearn.library.capability import Experiences
from agentlearn.log import get_log
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot
from agentlearn.store import Store
from agentlearn.types.experience import EMPTY_LIBRARY, Library
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion, TaskId, derive_seed
from agentlearn.types.run import RunInputs, RunKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value

TaskRollout = tuple[TaskId, int]
"""A task, and which of its rollouts."""
S = TypeVar("S", bound=RunSettings)
R = TypeVar("R", bound=Value)


def at_once(concurrency: int) -> int:
    """Rollouts under way for so many calls in flight: some run a tool, or wait before they ask once more."""
    return concurrency + concurrency // 2


@dataclass(slots=True)
class RunLoop(ABC, Generic[S]):
    """One run with everything open."""

    settings: S
    call_context: CallContext
    store: Store
    rollouts: Rollouts
    callbacks: Callbacks
    resumed: bool = False
    """Whether an interrupted run goes on: what it had finished is taken from the store."""
    logs: StoredGroups | None = None
    """Where groups come from in a run that makes no rollouts to learn from."""
    experiences: dict[LibraryVersion, Experiences] = field(default_factory=dict[LibraryVersion, Experiences])
    run_stats: RunStats = field(default_factory=RunStats)
    measured: dict[int, HeldOutScore] = field(default_factory=dict[int, HeldOutScore])
    """Scores on the held-out tasks by the number of updates before them, those before and after all left out."""
    cautioned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Cautions that were told."""
    slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(at_once(self.settings.concurrency))

    @property
    @abstractmethod
    def kind(self) -> RunKind:
        """What the run is stored as."""

    @property
    def epochs(self) -> int:
        """Passes over the tasks."""
        return self.settings.epochs

    @property
    def reflector(self) -> Endpoint | None:
        """Whom the semantic stages ask; None where there are none."""
        return None

    @property
    def redraws(self) -> bool:
        """Whether a run that is taken up again draws the rollouts of an unfinished batch anew, all of them."""
        return False

    def drawing(self, rollouts: int) -> Callable[[], None]:
        """So many rollouts to learn from begin; what is given is called as each of them is over."""
        return lambda: None

    @abstractmethod
    async def keep_update(self, batch: Batch, update: Update) -> None:
        """Store what a batch did to the state."""

    @abstractmethod
    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        """A pass over the tasks is over: batch is its last."""

    async def recorded(self, body: Coroutine[Any, Any, R]) -> R:
        """Run `body` and store the run's events; the report that it returns is stored with the last one."""
        settings = self.settings
        event = started_event(
            self.call_context.run,
            self.kind,
            domain=settings.domain,
            model=settings.model,
            simulated=self.rollouts.endpoint.simulated,
            seed=settings.seed,
            settings=settings.resolved(),
        )
        async with recorded_run(self.store, event, call_context=self.call_context, resumed=self.resumed) as run:
            report = await run.until_stopped(body)
            run.report = report
        return report

    async def save_run_inputs(self, sets: TaskSets, start: Library) -> None:
        """Store what the run stands on. Raises ConfigError when a resumed run no longer stands on the same."""
        run = self.call_context.run
        train, test = (tuple(task.id for task in tasks) for tasks in (sets.train, sets.test))
        run_inputs = RunInputs(train=train, test=test, library=start.version)
        known = self.store.run_inputs(run) if self.resumed else None
        if known is not None and known != run_inputs:
            raise ConfigError(
                f"run {run!r} cannot go on: its tasks are no longer the same ({len(known.train)} to learn from and"
                f" {len(known.test)} held out then, {len(run_inputs.train)} and {len(run_inputs.test)} now);"
                " put its task files back as they were, or begin a new run",
                code="other_ground",
            )
        await self.store.save_tasks([*sets.train, *sets.test])
        await self.store.save_version(start if len(start) else EMPTY_LIBRARY, run=run)
        await self.store.save_run_inputs(run, run_inputs)

    async def learn_from(self, tasks: Sequence[Task], held_out: Sequence[Task], learner: Learner) -> None:
        """Rollouts and update, batch by batch. The learner takes up each group as it completes.

        With max_staleness 1 the next batch's rollouts begin when this one's are complete, under the state that this
        batch was run under; which state that is does not depend on time.
        """
        settings = self.settings
        batches = batches_of(tasks, epochs=self.epochs, size=settings.batch_size, seed=settings.seed)
        for number, batch in enumerate(batches[: learner.done], start=1):
            self._recount(batch)
            if settings.eval_every and number % settings.eval_every == 0:
                self._recall_measured(number, held_out)
        updates, left = learner.done, batches[learner.done :]
        if not left:
            return
        started = time.perf_counter()
        async with TaskGroup() as under_way:
            groups = self._begin(self._plan(left[0], learner), under_way)
            for batch, following in zip(left, [*left[1:], None], strict=True):
                ahead = self._plan(following, learner) if following and settings.max_staleness else None
                updating = under_way.create_task(learner.update(groups, step=batch.step))
                if ahead is not None:
                    await groups.complete.wait()
                    groups = self._begin(ahead, under_way)
                update = await updating
                updates += 1
                await self.keep_update(batch, update)
                self.run_stats.add_update(batch.epoch, update)
                self.callbacks.updated(batch.step, update)
                self._caution()
                if batch.last:
                    seconds, started = time.perf_counter() - started, time.perf_counter()
                    self.epoch_done(batch, update, seconds)
                if following is not None and settings.eval_every and updates % settings.eval_every == 0 and held_out:
                    scores = await self.evaluate(f"during:{updates}", held_out, update.library)
                    self.measured[updates] = score_of(held_out, scores)
                    self.callbacks.measured(updates, self.measured[updates])
                if following is not None and ahead is None:
                    groups = self._begin(self._plan(following, learner), under_way)

    def _recount(self, batch: Batch) -> None:
        """Count the rollouts of a batch that the state has learned from already."""
        by_task: dict[str, list[Trajectory]] = {}
        for trajectory in self._finished(batch.phase, batch.number).values():
            self.run_stats.add_rollout(trajectory)
            by_task.setdefault(trajectory.task, []).append(trajectory)
        for task in batch.tasks:
            group = Group(task=task, trajectories=tuple(by_task.get(task.id, ())))
            self.run_stats.add_group(group.kind(self.rollouts.domain.threshold))

    def _recall_measured(self, updates: int, held_out: Sequence[Task]) -> None:
        """Take up what was measured after so many updates, if it was measured whole."""
        found = self._finished(f"during:{updates}", 0).values()
        if not held_out or len(found) < len(held_out) * self.settings.eval_rollouts:
            return
        for trajectory in found:
            self.run_stats.add_rollout(trajectory)
        self.measured[updates] = score_of(held_out, Scores.of(list(found), self.settings.eval_rollouts))

    def _plan(self, batch: Batch, learner: Learner) -> Planned:
        """The batch under the library in use now."""
        size = self.settings.group_size
        treatments = {task.id: tuple(learner.assign(task, g) for g in range(size)) for task in batch.tasks}
        return Planned(batch, learner.library, treatments)

    def _begin(self, planned: Planned, under_way: TaskGroup) -> GroupStream:
        """Put all rollouts of the batch under way."""
        batch, groups = planned.batch, GroupStream(len(planned.batch.tasks))
        if self.logs is not None:
            self._replay_logs(self.logs, batch, groups)
            return groups
        if batch.first:
            self.callbacks.phase_started(batch.phase, batch.of_epoch * self.settings.group_size)
        finished = self._finished(batch.phase, batch.number)
        over = self.drawing(len(batch.tasks) * self.settings.group_size)

        async def one(task: Task, g: int, treatment: Treatment) -> Finished:
            try:
                return await self._one(task, self._place(batch, task, g), treatment, planned.library, finished)
            finally:
                over()

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

    def _replay_logs(self, logs: StoredGroups, batch: Batch, groups: GroupStream) -> None:
        """Hand on the groups that the store holds."""
        if batch.first:
            self.callbacks.phase_started(batch.phase, sum(len(one) for one in logs.rollouts.values()))
        for task in batch.tasks:
            group = logs.group(task, self.store)
            if self.settings.labels == "none":
                group = by_majority(group, self.rollouts.domain)
            for trajectory in group.trajectories:
                self.run_stats.add_logged(batch.epoch, trajectory)
                self.callbacks.rollout_done(batch.phase, trajectory)
            self._count(group)
            groups.put(group)

    def _place(self, batch: Batch, task: Task, g: int) -> RolloutSlot:
        return RolloutSlot(batch.phase, g, derive_seed(self.settings.seed, batch.phase, task.id, g), batch.number)

    def _finished(self, phase: str, batch: int) -> Mapping[TaskRollout, Trajectory]:
        """The rollouts of a batch that the interrupted run had finished, at whichever attempt."""
        found = self.store.finished(self.call_context.run, phase, batch) if self.resumed else {}
        return {(one.task, one.g): one for one in found.values()}

    async def _complete(self, task: Task, members: Sequence[Finished]) -> Group:
        """The group; with labels none it is judged by majority, and stored, only now."""
        group = Group(task=task, trajectories=tuple(member.trajectory for member in members))
        if self.settings.labels == "none":
            group = by_majority(group, self.rollouts.domain)
            for member, judged in zip(members, group.trajectories, strict=True):
                await self._keep(Finished(judged, member.messages, stored=member.stored))
        self._count(group)
        return group

    def _count(self, group: Group) -> None:
        """One more group is complete."""
        kind = group.kind(self.rollouts.domain.threshold)
        self.run_stats.add_group(kind)
        self.callbacks.group_done(kind)
        self._caution()

    async def _one(
        self,
        task: Task,
        place: RolloutSlot,
        treatment: Treatment,
        library: Library,
        finished: Mapping[TaskRollout, Trajectory],
    ) -> Finished:
        before = finished.get((task.id, place.g))
        if before is not None and not (self.redraws and place.phase.startswith("epoch")):
            done = Finished(before, b"", stored=True)
        else:
            if library.version not in self.experiences:
                self.experiences[library.version] = Experiences(library)
            async with self.slots:
                done = await self.rollouts.one(task, place, treatment, self.experiences[library.version])
            done = replace(done, stored=before is not None)
        if self.settings.labels == "gold" or not place.phase.startswith("epoch"):
            await self._keep(done)
        return done

    async def _keep(self, finished: Finished) -> None:
        trajectory = finished.trajectory
        if not finished.stored:
            await self.store.save_trajectory(trajectory, finished.messages)
        if trajectory.failure is not None:
            failure = trajectory.failure
            get_log(task=trajectory.task, rollout=trajectory.id).warning(
                "rollout.failed", code=failure.code, boundary=failure.boundary, reason=failure.message
            )
        self.run_stats.add_rollout(trajectory)
        self.callbacks.rollout_done(trajectory.phase, trajectory)
        self._caution()

    def _caution(self) -> None:
        """Tell what wants mending and was not told before."""
        for caution in run_warnings(self.run_stats.seen(self.settings, self.call_context, self.endpoint_states())):
            if (caution.code, caution.subject) not in self.cautioned:
                self.cautioned.add((caution.code, caution.subject))
                self.callbacks.warned(caution)

    def endpoint_states(self) -> tuple[EndpointState, ...]:
        """Of every endpoint in use, once."""
        return tuple({id(one.endpoint_state): one.endpoint_state for one in self._endpoints()}.values())

    def _endpoints(self) -> tuple[Endpoint, ...]:
        return (self.rollouts.endpoint, *((self.reflector,) if self.reflector is not None else ()))

    async def evaluate(self, phase: str, tasks: Sequence[Task], library: Library) -> Scores:
        """k rollouts per held-out task; before and after share seeds, so that only the library differs."""
        k = self.settings.eval_rollouts
        treatment = Treatment(
            model=self.rollouts.endpoint.name,
            library=library.version,
            temperature=self.settings.eval_temperature,
        )
        self.callbacks.phase_started(phase, len(tasks) * k)
        finished = self._finished(phase, 0)
        async with TaskGroup() as members:
            running = [
                members.create_task(
                    self._one(
                        task,
                        RolloutSlot(phase, g, derive_seed(self.settings.seed, "held-out", task.id, g)),
                        treatment,
                        library,
                        finished,
                    )
                )
                for task in tasks
                for g in range(k)
            ]
        trajectories: list[Trajectory] = [member.result().trajectory for member in running]
        return Scores.of(trajectories, k)
