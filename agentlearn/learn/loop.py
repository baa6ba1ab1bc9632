"""The learn loop: measure, learn epoch by epoch and batch by batch, measure again, publish the library."""

import asyncio
import time
from asyncio import TaskGroup
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

import structlog

from agentlearn.calls.budget import Budget, Limits
from agentlearn.calls.endpoint import Endpoint, EndpointOptions, open_endpoint
from agentlearn.capability import Experiences
from agentlearn.config import LearnSettings
from agentlearn.domain import Domain, load_domain
from agentlearn.errors import AgentlearnError, BudgetExceeded, ConfigError
from agentlearn.experience import EMPTY_LIBRARY, Library, LibraryLimits
from agentlearn.group import Group
from agentlearn.ids import LibraryVersion, RunId, derive_seed, new_run_id
from agentlearn.learn.evaluate import Scores
from agentlearn.learn.learner import Learner, Update
from agentlearn.learn.majority import by_majority
from agentlearn.learn.observer import Observer
from agentlearn.learn.report import LearnReport
from agentlearn.learn.semantic import SemanticLearner, SemanticOptions
from agentlearn.learn.tally import Tally
from agentlearn.learn.tasks import TaskSets, task_sets
from agentlearn.library import Shelf
from agentlearn.log import get_log
from agentlearn.own import own_tasks
from agentlearn.prompts import load_prompt
from agentlearn.rollout import Finished, Place, Rollouts, open_rollouts
from agentlearn.run import RunEvent, RunState
from agentlearn.store import Store, open_store
from agentlearn.task import Task
from agentlearn.trajectory import Trajectory
from agentlearn.treatment import Treatment
from agentlearn.version import version

STAGE_PROMPTS = (("summarise", 1), ("compare", 1), ("consolidate", 1), ("repair", 1))


async def run_learning(settings: LearnSettings, observer: Observer | None = None) -> LearnReport:
    """Learn lessons and say what they are worth.

    Everything is committed to the store as it happens. Raises ConfigError before anything is spent, BudgetExceeded at
    a limit, StoreError when results can no longer be kept.
    """
    domain = domain_of(settings)
    sets = task_sets(settings, domain)
    if settings.labels == "none" and all(domain.answer_key(task.answer or "0") is None for task in sets.train):
        raise ConfigError(f"domain {settings.domain!r} has no answer_key, so --labels none cannot vote", code="no_vote")
    shelf = Shelf(settings.store / "libraries")
    start = shelf.load(settings.library)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings.store))
        session = await stack.enter_async_context(_open(settings, domain, store, observer or Observer()))
        return await session.learn(sets, start, shelf)


def domain_of(settings: LearnSettings) -> Domain:
    """The installed domain, or the one that your own tasks and a reward make. Raises ConfigError."""
    if settings.reward is None:
        return load_domain(settings.domain)
    return own_tasks(settings.domain, settings.reward, tools=settings.tools, instructions=settings.instructions)


def run_learning_sync(settings: LearnSettings, observer: Observer | None = None) -> LearnReport:
    """`run_learning` for programs without an event loop."""
    return asyncio.run(run_learning(settings, observer))


@asynccontextmanager
async def _open(
    settings: LearnSettings, domain: Domain, store: Store, observer: Observer
) -> AsyncGenerator["LearnSession"]:
    run = new_run_id()
    options = EndpointOptions(
        concurrency=settings.concurrency,
        deadline_s=settings.call_deadline_s,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        seed=settings.seed,
    )
    limits = Limits(
        max_cost_usd=settings.max_cost_usd, max_tokens=settings.max_tokens, max_minutes=settings.max_minutes
    )
    budget = Budget(limits)
    async with AsyncExitStack() as stack:
        stack.enter_context(structlog.contextvars.bound_contextvars(run=run))
        endpoint = await stack.enter_async_context(open_endpoint(settings.model, options))
        reflector = endpoint
        if settings.reflector_name != settings.model:
            reflector = await stack.enter_async_context(open_endpoint(settings.reflector_name, options))
        rollouts = await stack.enter_async_context(
            open_rollouts(
                domain,
                endpoint,
                run=run,
                journal=store,
                budget=budget,
                sandbox=settings.sandbox,
                judge=reflector,
                deadline_s=settings.rollout_deadline_s,
                max_turns=settings.max_turns,
            )
        )
        yield LearnSession(settings, run, store, rollouts, reflector, budget, observer)


class GroupStream:
    """The groups of one batch, in the order in which they complete; ends after the last."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._ready: asyncio.Queue[Group] = asyncio.Queue()

    def put(self, group: Group) -> None:
        """One more group is complete."""
        self._ready.put_nowait(group)

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
    run: RunId
    store: Store
    rollouts: Rollouts
    reflector: Endpoint
    budget: Budget
    observer: Observer
    experiences: dict[LibraryVersion, Experiences] = field(default_factory=dict[LibraryVersion, Experiences])
    tally: Tally = field(default_factory=Tally)
    slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.slots = asyncio.Semaphore(self.settings.concurrency)

    async def learn(self, sets: TaskSets, start: Library, shelf: Shelf) -> LearnReport:
        """The run from its first event to its last."""
        started, log = time.perf_counter(), get_log(run=self.run)
        await self._event("running")
        log.info("run.started", domain=self.settings.domain, model=self.settings.model)
        try:
            report = await self._learn(sets, start, shelf, started)
        except BaseException as error:
            cause = first_cause(error)
            stopped = isinstance(cause, asyncio.CancelledError | KeyboardInterrupt | BudgetExceeded)
            await asyncio.shield(self._event("interrupted" if stopped else "failed"))
            raise cause from error
        await self._event("done", report.model_dump_json())
        log.info("run.done", wall_s=report.wall_s)
        self.observer.done(report)
        return report

    async def _learn(self, sets: TaskSets, start: Library, shelf: Shelf, started: float) -> LearnReport:
        await self._save_ground(sets, start)
        self.observer.opened(self.run, self.rollouts.endpoint, sets.train, sets.test)
        learner = self._learner(start)
        before = await self._evaluate("before", sets.test, start) if sets.test else None
        for epoch in range(1, self.settings.epochs + 1):
            await self._epoch(epoch, sets.train, learner, shelf)
        unchanged = learner.library.version == start.version
        after = (
            before if unchanged else await self._evaluate("after", sets.test, learner.library) if sets.test else None
        )
        if not unchanged or self.settings.library_name not in {one.name for one in shelf.list()}:
            shelf.publish(self.settings.library_name, learner.library)
        return self.tally.report(
            settings=self.settings,
            run=self.run,
            endpoint=self.rollouts.endpoint,
            reflector=self.reflector,
            budget=self.budget,
            sets=sets,
            start=start,
            library=learner.library,
            before=before,
            after=after,
            stages=self.store.stage_totals(self.run),
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
        return SemanticLearner(
            start, options, run=self.run, reflector=self.reflector, store=self.store, budget=self.budget
        )

    async def _epoch(self, epoch: int, tasks: Sequence[Task], learner: Learner, shelf: Shelf) -> None:
        phase, started = f"epoch-{epoch}", time.perf_counter()
        order = list(tasks)
        Random(derive_seed("order", self.settings.seed, epoch)).shuffle(order)
        size = self.settings.batch_size
        batches = [order[at : at + size] for at in range(0, len(order), size)]
        self.observer.phase_started(phase, len(order) * self.settings.group_size)
        for number, batch in enumerate(batches, start=1):
            update = await self._batch(phase, number, batch, learner)
            await self._save_update(phase, number, update)
            self.tally.add_update(epoch, update)
            self.observer.updated(f"{phase}/{number}", update)
        line = self.tally.epoch_line(epoch, len(learner.library), time.perf_counter() - started)
        self.observer.epoch_done(line)

    async def _batch(self, phase: str, number: int, tasks: Sequence[Task], learner: Learner) -> Update:
        """All rollouts of the batch are under way at once; the learner takes up each group as it completes."""
        library, groups = learner.library, GroupStream(len(tasks))

        async def group(task: Task) -> None:
            places = [
                Place(phase, g, derive_seed(self.settings.seed, phase, task.id, g), number)
                for g in range(self.settings.group_size)
            ]
            async with TaskGroup() as members:
                running = [
                    members.create_task(self._one(task, place, learner.assign(task, place.g), library))
                    for place in places
                ]
            groups.put(await self._complete(task, [member.result() for member in running]))

        async with TaskGroup() as under_way:
            for task in tasks:
                under_way.create_task(group(task))
            return await learner.update(groups, step=f"{phase}/{number}")

    async def _complete(self, task: Task, members: Sequence[Finished]) -> Group:
        """The group; with labels none it is judged by majority, and stored, only now."""
        group = Group(task=task, trajectories=tuple(member.trajectory for member in members))
        if self.settings.labels == "none":
            group = by_majority(group, self.rollouts.domain)
            for member, judged in zip(members, group.trajectories, strict=True):
                await self._keep(Finished(judged, member.messages))
        return group

    async def _one(self, task: Task, place: Place, treatment: Treatment, library: Library) -> Finished:
        if library.version not in self.experiences:
            self.experiences[library.version] = Experiences(library)
        async with self.slots:
            finished = await self.rollouts.one(task, place, treatment, self.experiences[library.version])
        if self.settings.labels == "gold" or not place.phase.startswith("epoch"):
            await self._keep(finished)
        return finished

    async def _keep(self, finished: Finished) -> None:
        trajectory = finished.trajectory
        await self.store.save_trajectory(trajectory, finished.messages)
        if trajectory.failure is not None:
            failure = trajectory.failure
            get_log(task=trajectory.task, rollout=trajectory.id).warning(
                "rollout.failed", code=failure.code, boundary=failure.boundary, reason=failure.message
            )
        self.tally.add_rollout(trajectory)
        self.observer.rollout_done(trajectory.phase, trajectory)

    async def _evaluate(self, phase: str, tasks: Sequence[Task], library: Library) -> Scores:
        """k rollouts per held-out task; before and after share seeds, so that only the library differs."""
        k = self.settings.eval_rollouts
        treatment = Treatment(
            model=self.settings.model, library=library.version, arm=phase, temperature=self.settings.eval_temperature
        )
        self.observer.phase_started(phase, len(tasks) * k)
        async with TaskGroup() as members:
            running = [
                members.create_task(
                    self._one(
                        task,
                        Place(phase, g, derive_seed(self.settings.seed, "held-out", task.id, g)),
                        treatment,
                        library,
                    )
                )
                for task in tasks
                for g in range(k)
            ]
        trajectories: list[Trajectory] = [member.result().trajectory for member in running]
        return Scores.of(trajectories, k)

    async def _save_ground(self, sets: TaskSets, start: Library) -> None:
        await self.store.save_tasks([*sets.train, *sets.test])
        await self.store.save_version(start if len(start) else EMPTY_LIBRARY, run=self.run)
        for name, number in STAGE_PROMPTS:
            prompt = load_prompt(name, number)
            await self.store.save_prompt(prompt.ref, prompt.text)

    async def _save_update(self, phase: str, batch: int, update: Update) -> None:
        await self.store.save_proposals(self.run, phase, batch, update.evidence.ended)
        await self.store.save_version(update.library, run=self.run)

    async def _event(self, state: RunState, report: str = "") -> None:
        settings = self.settings
        await self.store.save_run(
            RunEvent(
                run=self.run,
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
