"""The loop of every run that learns: measure, then roll out and update batch by batch, then measure again.

Learning lessons and training weights share it; they differ in the learner, and in what is stored and reported.
"""

import time
from abc import ABC, abstractmethod
from asyncio import TaskGroup
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from agentlearn.config import RunSettings
from agentlearn.errors import ConfigError
from agentlearn.learning.batch import Allocation, Batch, LearnerState, SamplingAhead, Schedule
from agentlearn.learning.batch_runner import BatchRunner
from agentlearn.learning.callbacks import Callbacks, Learner, RunWarning, Update
from agentlearn.learning.evaluate import ArmNames, RunResult, Scores, score_of
from agentlearn.learning.open_run import FinishedRollouts, TaskSets
from agentlearn.learning.report import HeldOutScore
from agentlearn.learning.run_stats import RunMonitor, RunStats
from agentlearn.learning.stored_groups import StoredGroups
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.runner import Rollouts
from agentlearn.store import Store
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, differ
from agentlearn.types.ids import LibraryVersion, TaskId
from agentlearn.types.run_event import RunInputs, RunKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Value

S = TypeVar("S", bound=RunSettings)
R = TypeVar("R", bound=Value)


@dataclass(slots=True)
class RunLoop(ABC, Generic[S]):
    """One run with everything open."""

    settings: S
    call_context: CallContext
    store: Store
    rollouts: Rollouts
    callbacks: Callbacks
    resumed: bool = False
    """Whether an interrupted run continues. Its finished rollouts are taken from the store."""
    stored_groups: StoredGroups | None = None
    """Groups to learn from in a run that makes no rollouts to learn from; None: make rollouts."""
    measured: dict[int, HeldOutScore] = field(default_factory=dict[int, HeldOutScore])
    """Held-out scores during learning, by the number of updates before them. `before` and `after` are not included."""
    monitor: RunMonitor = field(init=False)
    finished: FinishedRollouts = field(init=False)
    batches: BatchRunner = field(init=False)
    _settled: dict[TaskId, bool] = field(init=False, default_factory=dict[TaskId, bool])
    """Whether a task was all right when it was last visited."""
    _equal: dict[TaskId, bool] = field(init=False, default_factory=dict[TaskId, bool])
    """Whether the rewards of a task were equal when it was last visited."""

    def __post_init__(self) -> None:
        endpoints = (self.rollouts.endpoint, *((self.reflector,) if self.reflector is not None else ()))
        own = tuple({id(one.endpoint_state): one.endpoint_state for one in endpoints}.values())
        self.monitor = RunMonitor(self.settings, self.call_context, self.callbacks, own, self.rollouts.domain.threshold)
        self.stats.lost_workers = self.call_context.lost_workers
        self.stats.notes.extend(filter(None, dict.fromkeys(one.function_note for one in endpoints)))
        self.finished = FinishedRollouts.before(self.store, self.call_context.run, resumed=self.resumed)
        self.batches = BatchRunner(
            self.settings,
            self.allocation,
            self.store,
            self.rollouts,
            self.monitor,
            self.finished,
            self.stored_groups,
            repeats_unfinished=self.repeats_unfinished,
            sampling_started=self.sampling_started,
            group_done=self.group_done,
            others=self.other_libraries,
        )

    @property
    @abstractmethod
    def kind(self) -> RunKind:
        """Kind under which the run is stored."""

    @property
    @abstractmethod
    def arms(self) -> ArmNames:
        """What is measured before and after."""

    @property
    def epochs(self) -> int:
        """Passes over the tasks."""
        return self.settings.epochs

    @property
    @abstractmethod
    def allocation(self) -> Allocation:
        """How many rollouts a group gets, and which tasks an epoch visits."""

    @property
    def reflector(self) -> Endpoint | None:
        """Model that writes the lessons; None in a run without lessons."""
        return None

    @property
    def margin(self) -> float | None:
        """Non-inferiority margin of the held-out tasks; None: none."""
        return None

    @property
    def repeats_unfinished(self) -> bool:
        """Whether a resumed run makes all rollouts of an unfinished batch again."""
        return False

    @property
    def other_libraries(self) -> Mapping[LibraryVersion, Library]:
        """Libraries besides the learner's own that its treatments may name."""
        return {}

    @property
    def batches_ahead(self) -> int:
        """Number of batches whose rollouts may start before the updates of the batches before them are made.

        0: none, apart from the one batch that `max_staleness` 1 allows a run that learns lessons.
        """
        return 0

    @property
    def stats(self) -> RunStats:
        """Counts of the run so far."""
        return self.monitor.stats

    def sampling_started(self, rollouts: int) -> Callable[[], None]:
        """Called before `rollouts` training rollouts start; returns a callback to call when each finishes."""
        return lambda: None

    def group_done(self, group: Group) -> None:
        """Called with each complete group of rollouts to learn from, before it is learned from."""
        self._settled[group.task.id] = group.settled(self.rollouts.domain.threshold, self.allocation.margin)
        self._equal[group.task.id] = bool(group.decided) and not differ(group.rewards_G, self.allocation.margin)

    @abstractmethod
    async def keep_update(self, batch: Batch, update: Update) -> None:
        """Store the result of an update."""

    @abstractmethod
    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        """Called at the end of an epoch. batch: the last of the epoch; without tasks when all were skipped."""

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

    def notice_chat_template(self) -> None:
        """Report what the model's chat template cannot hold."""
        for note in self.rollouts.notes:
            self.monitor.notice(RunWarning(code="chat_template", subject=note, words=note))

    async def save_run_inputs(self, sets: TaskSets, start: Library, distilled: Library | None = None) -> None:
        """Store the tasks and the library that the run starts from. Raises ConfigError when a resumed run's differ.

        distilled: the library whose lessons are distilled into weights.
        """
        run = self.call_context.run
        train, test = (tuple(task.id for task in tasks) for tasks in (sets.train, sets.test))
        version = None if distilled is None else distilled.version
        run_inputs = RunInputs(train=train, test=test, library=start.version, distilled=version)
        known = self.store.run_inputs(run) if self.resumed else None
        if known is not None and known != run_inputs:
            raise ConfigError(
                f"run {run!r} cannot go on: its tasks have changed ({len(known.train)} to learn from and"
                f" {len(known.test)} held out then, {len(run_inputs.train)} and {len(run_inputs.test)} now), or one of"
                " its lessons was parked; restore its task files, unpark the lesson, or start a new run"
            )
        await self.store.save_tasks([*sets.train, *sets.test])
        await self.store.save_version(start, run=run)
        if distilled is not None:
            await self.store.save_version(distilled, run=run)
        await self.store.save_run_inputs(run, run_inputs)

    async def learn_from(self, tasks: Sequence[Task], held_out: Sequence[Task], learner: Learner) -> None:
        """Make rollouts and update, batch by batch. The learner is given each group as soon as it is complete.

        In a run that learns lessons with max_staleness 1, the rollouts of the next batch start when those of this batch
        are complete, with the state from before this batch's update. Which state that is does not depend on timing, nor
        do the tasks of a batch: an epoch is planned when all groups of the epoch before are complete.

        In a run with `batches_ahead`, the rollouts of a batch start as soon as no earlier rollout waits to start, with
        the learner's state of that moment, which at most `batches_ahead` of the updates before it are missing from.
        """
        settings = self.settings
        schedule = Schedule(
            tasks,
            self.allocation,
            epochs=self.epochs,
            size=settings.batch_size,
            seed=settings.seed,
            settled=self._settled,
            equal=self._equal,
        )
        for number in range(1, learner.done + 1):
            if (batch := schedule.following()) is not None:
                self._recount(number, batch, held_out)
        if learner.done:
            self.callbacks.continued(learner.done)
        if self.batches_ahead:
            await self._learn_ahead(schedule, held_out, learner)
        else:
            await self._learn_in_turn(schedule, held_out, learner)

    async def _learn_ahead(self, schedule: Schedule, held_out: Sequence[Task], learner: Learner) -> None:
        """Sample up to `batches_ahead` batches before the updates that they do not wait for, and update in order."""
        async with TaskGroup() as under_way:
            sampling = SamplingAhead(
                schedule,
                lambda batch: self.batches.start(batch, self._state(batch.tasks, learner), under_way),
                most=self.batches_ahead,
                updates=learner.done,
            )
            under_way.create_task(sampling.run())
            found = await sampling.next()
            if found is not None:
                await self._measure(learner.done, held_out, learner.library)
            while found is not None:
                batch, groups = found
                update = await learner.update(groups, step=batch.step, tasks=batch.tasks)
                await self._take(schedule, batch, update)
                found = await sampling.next()
                if found is not None:
                    await self._measure(sampling.updates + 1, held_out, update.library)
                sampling.updated()

    async def _learn_in_turn(self, schedule: Schedule, held_out: Sequence[Task], learner: Learner) -> None:
        settings, updates = self.settings, learner.done
        batch = schedule.following()
        if batch is None:
            return
        await self._measure(updates, held_out, learner.library)
        started = time.perf_counter()
        async with TaskGroup() as under_way:
            groups = self.batches.start(batch, self._state(batch.tasks, learner), under_way)
            while batch is not None:
                following: Batch | None = None
                ahead = self._state(schedule.may_follow(), learner) if settings.max_staleness else None
                updating = under_way.create_task(learner.update(groups, step=batch.step, tasks=batch.tasks))
                if ahead is not None:
                    await groups.complete.wait()
                    if (following := schedule.following()) is not None:
                        groups = self.batches.start(following, ahead, under_way)
                update = await updating
                await self._take(schedule, batch, update)
                updates += 1
                if ahead is None:
                    following = schedule.following()
                if batch.last:
                    seconds, started = time.perf_counter() - started, time.perf_counter()
                    self._end_epochs(batch, following, update, seconds)
                if following is not None:
                    await self._measure(updates, held_out, update.library)
                    if ahead is None:
                        groups = self.batches.start(following, self._state(following.tasks, learner), under_way)
                batch = following

    async def _take(self, schedule: Schedule, batch: Batch, update: Update) -> None:
        """Store and report an update. Plan no further batch when it ends the run; what has started is still sampled."""
        self.monitor.refuse_silence()
        await self.keep_update(batch, update)
        self.monitor.updated(batch, update)
        if update.ends:
            schedule.end()
            if (note := f"the run has ended early: {update.ends}") not in self.stats.notes:
                self.stats.notes.append(note)

    def _end_epochs(self, batch: Batch, following: Batch | None, update: Update, seconds: float) -> None:
        """End the epoch of the batch, and the epochs up to the following batch, which visit no task."""
        self.stats.epoch(batch.epoch).skipped = batch.skipped
        self.epoch_done(batch, update, seconds)
        for epoch in range(batch.epoch + 1, self.epochs + 1 if following is None else following.epoch):
            empty = batch.without_tasks(epoch)
            self.stats.epoch(epoch).skipped = empty.skipped
            self.epoch_done(empty, update, 0.0)

    def _recount(self, number: int, batch: Batch, held_out: Sequence[Task]) -> None:
        """Count the rollouts of a batch that the learner's state already includes. number: of the batch in the run."""
        every, k = self.settings.eval_every, self.settings.eval_rollouts
        by_task: dict[str, list[Trajectory]] = {}
        for trajectory in self.finished.of(batch.phase, batch.number).values():
            self.stats.add_rollout(trajectory)
            by_task.setdefault(trajectory.task, []).append(trajectory)
        for task in batch.tasks:
            group = Group(task=task, trajectories=tuple(by_task.get(task.id, ())))
            self.stats.groups[group.kind(self.rollouts.domain.threshold, self.allocation.margin)] += 1
            self.group_done(group)
        if not every or number % every or not held_out:
            return
        found = list(self.finished.of(f"during:{number}", 0).values())
        if len(found) >= len(held_out) * k:
            for trajectory in found:
                self.stats.add_rollout(trajectory)
            self.measured[number] = score_of(held_out, Scores.of(found, held_out, k))

    def _state(self, tasks: Sequence[Task], learner: Learner) -> LearnerState:
        """Return the learner's present library, and the treatments it assigns to these tasks."""
        size = self.allocation.group_size
        treatments = {task.id: tuple(learner.assign(task, g) for g in range(size)) for task in tasks}
        return LearnerState(learner.library, treatments)

    async def _measure(self, updates: int, held_out: Sequence[Task], library: Library) -> None:
        """Measure on the held-out tasks if that is due after this number of updates.

        A resumed run calls it before its first update: the run may have been stopped before or while it measured.
        """
        every = self.settings.eval_every
        if every and updates and updates % every == 0 and held_out and updates not in self.measured:
            phase = f"during:{updates}"
            scores = await self.batches.evaluate({phase: library}, held_out)
            self.measured[updates] = score_of(held_out, scores[phase])
            self.callbacks.measured(updates, self.measured[updates])

    async def evaluate(self, phases: Mapping[str, Library], tasks: Sequence[Task]) -> Mapping[str, Scores]:
        """Measure on held-out tasks with each phase's library; empty where there are no such tasks."""
        return await self.batches.evaluate(phases, tasks) if tasks else {}

    def result(self, sets: TaskSets, before: Scores | None, after: Scores | None, wall_s: float) -> RunResult:
        """Return what every report of a finished run contains."""
        return RunResult(
            run=self.call_context.run,
            seed=self.settings.seed,
            sets=sets,
            arms=self.arms,
            before=before,
            after=after,
            measured=self.measured,
            stats=self.stats,
            budget=self.call_context.budget,
            endpoint_states=self.monitor.endpoint_states,
            totals=self.store.stage_totals(self.call_context.run),
            warnings=self.monitor.warnings(ended=True),
            wall_s=wall_s,
            margin=self.margin,
        )
