"""One learn run with everything open: measure, learn batch by batch, measure again, publish the library."""

import asyncio
import time
from asyncio import TaskGroup
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from agentlearn.calls.account import Account
from agentlearn.calls.door import Gate
from agentlearn.calls.endpoint import Endpoint
from agentlearn.capability import Experiences
from agentlearn.config import LearnSettings
from agentlearn.errors import AgentlearnError, ConfigError, only_stops
from agentlearn.experience import EMPTY_LIBRARY, Library, LibraryLimits
from agentlearn.group import Group
from agentlearn.ids import LibraryVersion, RolloutId, TaskId, derive_seed, rollout_id
from agentlearn.learn.caution import cautions
from agentlearn.learn.evaluate import Scores
from agentlearn.learn.learner import Learner, Update
from agentlearn.learn.logs import Logs
from agentlearn.learn.majority import by_majority
from agentlearn.learn.observer import Observer
from agentlearn.learn.report import LearnReport
from agentlearn.learn.semantic import SemanticLearner, SemanticOptions
from agentlearn.learn.tally import Tally
from agentlearn.learn.tasks import TaskSets
from agentlearn.library import Shelf
from agentlearn.log import get_log
from agentlearn.prompts import load_prompt
from agentlearn.rollout import Finished, Place, Rollouts
from agentlearn.run import Ground, RunEvent, RunState
from agentlearn.store import Store
from agentlearn.task import Task
from agentlearn.trajectory import Trajectory
from agentlearn.treatment import Treatment
from agentlearn.version import version

STAGE_PROMPTS = (("summarise", 1), ("compare", 1), ("consolidate", 1), ("repair", 1))


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


def first_cause(error: BaseException) -> BaseException:
    """What a tree of exception groups is about: one of our own errors if there is one, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [first_cause(one) for one in error.exceptions]
    return next((leaf for leaf in leaves if isinstance(leaf, AgentlearnError)), leaves[0])


@dataclass(slots=True)
class LearnSession:
    """One run with everything open."""

    settings: LearnSettings
    account: Account
    store: Store
    rollouts: Rollouts
    reflector: Endpoint
    observer: Observer
    resumed: bool = False
    """Whether an interrupted run goes on: what it had finished is taken from the store."""
    logs: Logs | None = None
    """Where groups come from in a run that makes no rollouts to learn from."""
    experiences: dict[LibraryVersion, Experiences] = field(default_factory=dict[LibraryVersion, Experiences])
    tally: Tally = field(default_factory=Tally)
    cautioned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Cautions that were told."""
    slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        calls = self.settings.concurrency
        self.slots = asyncio.Semaphore(calls + calls // 2)  # some run a tool, or wait before they ask once more

    async def learn(self, sets: TaskSets, whole: TaskSets, start: Library, shelf: Shelf) -> LearnReport:
        """The run from its first event to its last. sets: of a pilot, those drawn from the whole run's; else the same.

        A pilot publishes no library.
        """
        started, log = time.perf_counter(), get_log(run=self.account.run)
        await self._event("running")
        log.info("run.resumed" if self.resumed else "run.started", domain=self.settings.domain)
        try:
            report = await self.account.until_stopped(self._learn(sets, whole, start, shelf, started))
        except BaseException as error:
            cause = first_cause(error)
            await asyncio.shield(self._event("interrupted" if only_stops(cause) else "failed"))
            raise cause from error
        await self._event("done", report.model_dump_json())
        log.info("run.done", wall_s=report.wall_s)
        self.observer.done(report)
        return report

    async def _learn(
        self, sets: TaskSets, whole: TaskSets, start: Library, shelf: Shelf, started: float
    ) -> LearnReport:
        await self._save_ground(sets, start)
        self.observer.opened(self.account, self.rollouts.endpoint, self.reflector, sets.train, sets.test)
        learner = self._learner(start)
        if self.logs is not None:
            self.tally.notes.append(self.logs.note())
        before = await self._evaluate("before", sets.test, start) if sets.test else None
        await self._epochs(sets.train, learner)
        unchanged = learner.library.version == start.version
        after = (
            before if unchanged else await self._evaluate("after", sets.test, learner.library) if sets.test else None
        )
        published = self.settings.pilot is None
        if published and (not unchanged or self.settings.library_name not in {one.name for one in shelf.list()}):
            shelf.publish(self.settings.library_name, learner.library)
        return self.tally.report(
            settings=self.settings,
            account=self.account,
            endpoint=self.rollouts.endpoint,
            reflector=self.reflector,
            gates=self._gates(),
            sets=sets,
            whole=whole,
            start=start,
            library=learner.library,
            before=before,
            after=after,
            stages=self.store.stage_totals(self.account.run),
            wall_s=time.perf_counter() - started,
        )

    def _learner(self, start: Library) -> SemanticLearner:
        settings = self.settings
        options = SemanticOptions(
            model=settings.model,
            temperature=settings.temperature,
            seed=settings.seed,
            show_gold=settings.labels == "gold",
            threshold=self.rollouts.domain.threshold,
            max_proposals=settings.max_proposals,
            max_deletes=settings.max_deletes,
            limits=LibraryLimits(max_lessons=settings.max_lessons, max_tokens=settings.max_library_tokens),
        )
        return SemanticLearner(start, options, account=self.account, reflector=self.reflector, store=self.store)

    def _batches(self, tasks: Sequence[Task]) -> list[Batch]:
        """All batches of the run, each epoch in an order of its own."""
        batches: list[Batch] = []
        for epoch in range(1, self.settings.as_pilot().epochs + 1):
            order, size = list(tasks), self.settings.batch_size
            Random(derive_seed("order", self.settings.seed, epoch)).shuffle(order)
            parts = [tuple(order[at : at + size]) for at in range(0, len(order), size)]
            batches.extend(
                Batch(epoch, number, part, len(order), first=number == 1, last=number == len(parts))
                for number, part in enumerate(parts, start=1)
            )
        return batches

    async def _epochs(self, tasks: Sequence[Task], learner: Learner) -> None:
        """Rollouts and update, batch by batch. The learner takes up each group as it completes.

        With max_staleness 1 the next batch's rollouts begin when this one's are complete, under the library that this
        batch was run under; which library that is does not depend on time.
        """
        batches, started = self._batches(tasks), time.perf_counter()
        async with TaskGroup() as under_way:
            groups = self._begin(self._plan(batches[0], learner), under_way)
            for batch, following in zip(batches, [*batches[1:], None], strict=True):
                ahead = self._plan(following, learner) if following and self.settings.max_staleness else None
                updating = under_way.create_task(learner.update(groups, step=batch.step))
                if ahead is not None:
                    await groups.complete.wait()
                    groups = self._begin(ahead, under_way)
                update = await updating
                await self._save_update(batch, update)
                self.tally.add_update(batch.epoch, update)
                self.observer.updated(batch.step, update)
                self._caution()
                if batch.last:
                    seconds, started = time.perf_counter() - started, time.perf_counter()
                    self.observer.epoch_done(self.tally.epoch_line(batch.epoch, len(update.library), seconds))
                if following is not None and ahead is None:
                    groups = self._begin(self._plan(following, learner), under_way)

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
            self.observer.phase_started(batch.phase, batch.of_epoch * self.settings.group_size)
        finished = self._finished(batch.phase, batch.number)

        async def group(task: Task) -> None:
            async with TaskGroup() as members:
                running = [
                    members.create_task(
                        self._one(task, self._place(batch, task, g), treatment, planned.library, finished)
                    )
                    for g, treatment in enumerate(planned.treatments[task.id])
                ]
            groups.put(await self._complete(task, [member.result() for member in running]))

        for task in batch.tasks:
            under_way.create_task(group(task))
        return groups

    def _replay_logs(self, logs: Logs, batch: Batch, groups: GroupStream) -> None:
        """Hand on the groups that the store holds."""
        if batch.first:
            self.observer.phase_started(batch.phase, sum(len(one) for one in logs.rollouts.values()))
        for task in batch.tasks:
            group = logs.group(task, self.store)
            if self.settings.labels == "none":
                group = by_majority(group, self.rollouts.domain)
            for trajectory in group.trajectories:
                self.tally.add_logged(batch.epoch, trajectory)
                self.observer.rollout_done(batch.phase, trajectory)
            self._count(group)
            groups.put(group)

    def _place(self, batch: Batch, task: Task, g: int) -> Place:
        return Place(batch.phase, g, derive_seed(self.settings.seed, batch.phase, task.id, g), batch.number)

    def _finished(self, phase: str, batch: int) -> Mapping[RolloutId, Trajectory]:
        """The rollouts of a batch that the interrupted run had finished."""
        return self.store.finished(self.account.run, phase, batch) if self.resumed else {}

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
        self.tally.add_group(kind)
        self.observer.group_done(kind)
        self._caution()

    async def _one(
        self,
        task: Task,
        place: Place,
        treatment: Treatment,
        library: Library,
        finished: Mapping[RolloutId, Trajectory],
    ) -> Finished:
        before = finished.get(rollout_id(self.account.run, place.phase, task.id, place.g, place.attempt))
        if before is not None:
            done = Finished(before, b"", stored=True)
        else:
            if library.version not in self.experiences:
                self.experiences[library.version] = Experiences(library)
            async with self.slots:
                done = await self.rollouts.one(task, place, treatment, self.experiences[library.version])
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
        self.tally.add_rollout(trajectory)
        self.observer.rollout_done(trajectory.phase, trajectory)
        self._caution()

    def _caution(self) -> None:
        """Tell what wants mending and was not told before."""
        for caution in cautions(self.tally.seen(self.settings, self.account, self._gates())):
            if (caution.code, caution.subject) not in self.cautioned:
                self.cautioned.add((caution.code, caution.subject))
                self.observer.warned(caution)

    def _gates(self) -> tuple[Gate, ...]:
        """Of every endpoint in use, once."""
        return tuple({id(one.gate): one.gate for one in (self.rollouts.endpoint, self.reflector)}.values())

    async def _evaluate(self, phase: str, tasks: Sequence[Task], library: Library) -> Scores:
        """k rollouts per held-out task; before and after share seeds, so that only the library differs."""
        k = self.settings.eval_rollouts
        treatment = Treatment(
            model=self.settings.model, library=library.version, arm=phase, temperature=self.settings.eval_temperature
        )
        self.observer.phase_started(phase, len(tasks) * k)
        finished = self._finished(phase, 0)
        async with TaskGroup() as members:
            running = [
                members.create_task(
                    self._one(
                        task,
                        Place(phase, g, derive_seed(self.settings.seed, "held-out", task.id, g)),
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

    async def _save_ground(self, sets: TaskSets, start: Library) -> None:
        """Store what the run stands on. Raises ConfigError when a resumed run no longer stands on the same."""
        run = self.account.run
        train, test = (tuple(task.id for task in tasks) for tasks in (sets.train, sets.test))
        ground = Ground(train=train, test=test, library=start.version)
        known = self.store.ground(run) if self.resumed else None
        if known is not None and known != ground:
            raise ConfigError(
                f"run {run!r} cannot go on: its tasks are no longer the same ({len(known.train)} to learn from and"
                f" {len(known.test)} held out then, {len(ground.train)} and {len(ground.test)} now);"
                " put its task files back as they were, or begin a new run",
                code="other_ground",
            )
        await self.store.save_tasks([*sets.train, *sets.test])
        await self.store.save_version(start if len(start) else EMPTY_LIBRARY, run=run)
        await self.store.save_ground(run, ground)
        for name, number in STAGE_PROMPTS:
            prompt = load_prompt(name, number)
            await self.store.save_prompt(prompt.ref, prompt.text)

    async def _save_update(self, batch: Batch, update: Update) -> None:
        run = self.account.run
        await self.store.save_proposals(run, batch.phase, batch.number, update.evidence.ended)
        await self.store.save_version(update.library, run=run)

    async def _event(self, state: RunState, report: str = "") -> None:
        settings = self.settings
        await self.store.save_run(
            RunEvent(
                run=self.account.run,
                domain=settings.domain,
                kind="learn",
                state=state,
                model=settings.model,
                simulated=self.rollouts.endpoint.simulated,
                seed=settings.seed,
                settings=settings.resolved(),
                package_version=version(),
                at=datetime.now(UTC),
                report=report,
            )
        )
