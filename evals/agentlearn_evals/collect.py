"""Rollouts of all arms: those that are stored already are reused, the others made, interleaved, and stored."""

from asyncio import TaskGroup
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from agentlearn.config import BudgetOptions, CallOptions, RolloutOptions
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.models.tracing import open_tracing
from agentlearn.rollout.runner import Rollouts, RolloutSlot, open_rollouts
from agentlearn.store import Store
from agentlearn.types.ids import new_run_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn_evals.arms import Arm
from agentlearn_evals.callbacks import CompareCallbacks
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.observation import Observation
from agentlearn_evals.plan import ComparePlan, library_tokens
from agentlearn_evals.rollout_specs import RolloutSpec, Stored, observation, schedule, stored, treatment_of

RolloutKey = tuple[str, str]
"""The names of an arm and of a domain."""


@dataclass(slots=True)
class Collector:
    """One comparison with everything open."""

    plan: ComparePlan
    call_context: CallContext
    store: Store
    endpoints: dict[str, Endpoint]
    rollouts: dict[RolloutKey, Rollouts]
    watcher: CompareCallbacks
    experiences: dict[str, Experiences] = field(init=False)
    phases: dict[RolloutKey, str] = field(init=False)
    had: dict[RolloutKey, Stored] = field(default_factory=dict[RolloutKey, Stored])
    """What was stored before, and can be reused."""
    made: int = 0
    """Rollouts made."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.experiences = {arm.name: Experiences(arm.library, masked=arm.without) for arm in plan.arms}
        self.phases = {
            (arm.name, task_set.domain.name): plan.conditions(arm, task_set).phase
            for arm in plan.arms
            for task_set in plan.task_sets
        }

    @property
    def simulated(self) -> bool:
        """Whether any arm is answered by the simulated world."""
        return any(endpoint.simulated for endpoint in self.endpoints.values())

    async def prepare(self) -> None:
        """Store tasks and libraries, and see which rollouts are there already."""
        plan = self.plan
        await self.store.save_tasks([task for task_set in plan.task_sets for task in task_set.tasks])
        for arm in plan.arms:
            await self.store.save_version(arm.library, run=None)
            for task_set in plan.task_sets:
                self.had[arm.name, task_set.domain.name] = plan.had(self.store, arm, task_set)

    def reused(self, arm: str, tasks: Collection[str] | None = None) -> int:
        """How many of the arm's rollouts were there already, of all tasks or of these."""
        places = [place for (name, _), had in self.had.items() if name == arm for place in had]
        return sum(tasks is None or task in tasks for task, _ in places)

    def cells(self, task_set: EvalTasks, tasks: Sequence[Task]) -> Iterator[RolloutSpec]:
        """The rollouts that are yet to be made of these tasks, interleaved."""
        plan, domain = self.plan, task_set.domain.name
        phases = {arm.name: self.phases[arm.name, domain] for arm in plan.arms}
        for cell in schedule(tasks, plan.arms, plan.settings.k, plan.settings.seed, phases):
            if (cell.task.id, cell.g) not in self.had[cell.arm.name, domain]:
                yield cell

    async def make(self, cells: Iterable[RolloutSpec], task_set: EvalTasks) -> list[tuple[RolloutSpec, Trajectory]]:
        """Make the rollouts and store them. They begin in the order given; what comes back is in no order."""
        waiting, made = iter(cells), list[tuple[RolloutSpec, Trajectory]]()
        calls = self.plan.settings.concurrency

        async def work() -> None:
            for cell in waiting:  # shared: each worker takes the next one
                made.append((cell, await self._one(cell, task_set)))

        async with TaskGroup() as workers:
            for _ in range(calls + calls // 2):  # some run a tool, or wait before they ask once more
                workers.create_task(work())
        self.made += len(made)
        return made

    async def _one(self, cell: RolloutSpec, task_set: EvalTasks) -> Trajectory:
        rollouts = self.rollouts[cell.arm.name, task_set.domain.name]
        place = RolloutSlot(cell.phase, cell.g, cell.seed)
        finished = await rollouts.one(cell.task, place, treatment_of(cell.arm), self.experiences[cell.arm.name])
        await self.store.save_trajectory(finished.trajectory, finished.messages)
        self.watcher.rollout_done(cell.arm.name, finished.trajectory)
        return finished.trajectory

    def observations(self, task_set: EvalTasks, tasks: Sequence[Task]) -> list[Observation]:
        """What is stored by now of these tasks, in all arms."""
        settings, seen = self.plan.settings, list[Observation]()
        by_id = {task.id: task for task in tasks}
        for arm in self.plan.arms:
            tokens = library_tokens(arm)
            rows = stored(self.store, self.phases[arm.name, task_set.domain.name], tasks, settings.k, settings.seed)
            seen += [observation(row, arm, by_id[task], tokens) for (task, _), row in sorted(rows.items())]
        return seen


@asynccontextmanager
async def open_collector(plan: ComparePlan, store: Store, watcher: CompareCallbacks) -> AsyncGenerator[Collector]:
    """Every endpoint once, and the rollouts of each arm in each domain. Raises ConfigError."""
    settings = plan.settings
    options = CallOptions(
        concurrency=settings.concurrency, call_deadline_s=settings.call_deadline_s, api_key=settings.api_key
    )
    limits = BudgetOptions(
        max_cost_usd=settings.max_cost_usd, max_tokens=settings.max_tokens, max_minutes=settings.max_minutes
    )
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(new_run_id(), store, Budget(limits), tracing=tracing)
        endpoints: dict[str, Endpoint] = {}
        for name in plan.models:
            endpoints[name] = await stack.enter_async_context(open_endpoint(name, options, seed=settings.seed))
        shared: dict[RolloutKey, Rollouts] = {}
        for task_set in plan.task_sets:
            for model in dict.fromkeys(arm.model for arm in plan.arms):
                rollouts = open_rollouts(
                    task_set.domain,
                    endpoints[model],
                    RolloutOptions(
                        rollout_deadline_s=settings.rollout_deadline_s,
                        max_turns=settings.max_turns,
                        sandbox=settings.sandbox,
                    ),
                    call_context=call_context,
                    judge=endpoints.get(plan.judge),
                )
                shared[model, task_set.domain.name] = await stack.enter_async_context(rollouts)
        yield Collector(plan, call_context, store, endpoints, _rollouts_of(plan.arms, shared), watcher)


def _rollouts_of(arms: Sequence[Arm], shared: dict[RolloutKey, Rollouts]) -> dict[RolloutKey, Rollouts]:
    """The rollouts of each arm; arms with instructions of their own have their own agent."""
    return {
        (arm.name, domain): rollouts.with_instructions(arm.instructions) if arm.instructions else rollouts
        for arm in arms
        for (model, domain), rollouts in shared.items()
        if model == arm.model
    }
