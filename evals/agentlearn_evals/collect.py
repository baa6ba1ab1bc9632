"""Collects the rollouts of all arms: stored ones are reused, the others are made interleaved and stored."""

from asyncio import TaskGroup
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.measure.observation import Observation
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.rollout.executor import open_executor
from agentlearn.rollout.first_rollouts import FirstRollouts
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot
from agentlearn.store import EvaluatedRow, Store
from agentlearn.types.ids import derive_seed, new_run_id
from agentlearn.types.task import Task
from agentlearn_evals.arms import Arm
from agentlearn_evals.eval_tasks import EvalTasks
from agentlearn_evals.plan import ComparePlan, StoredRollouts, rollout_seed
from agentlearn_evals.progress import CompareCallbacks


@dataclass(frozen=True, slots=True)
class _RolloutSpec:
    """One rollout that a comparison needs."""

    arm: Arm
    task: Task
    g: int
    """Index among the arm's rollouts on this task, from 0."""
    seed: int


def schedule(tasks: Sequence[Task], arms: Sequence[Arm], k: int, seed: int) -> Iterator[_RolloutSpec]:
    """Yield all rollouts, interleaved so that drift of a service affects all arms alike.

    The order is by index, then by task in a random order per index, then by arm; every arm goes first equally often.
    """
    turn = 0
    for g in range(k):
        order = list(tasks)
        Random(derive_seed(seed, "interleave", g)).shuffle(order)
        for task in order:
            first = turn % len(arms)
            turn += 1
            for arm in (*arms[first:], *arms[:first]):
                yield _RolloutSpec(arm, task, g, rollout_seed(seed, task, g))


_Key = tuple[str, str]
"""Arm name and domain name."""
_GO_ON = "compare again with --retry-failed (retry_failed=True)"


@dataclass(slots=True)
class Collector:
    """Makes and reuses the rollouts of one comparison, with all models open."""

    plan: ComparePlan
    call_context: CallContext
    store: Store
    endpoints: dict[str, Endpoint]
    rollouts: dict[_Key, Rollouts]
    callbacks: CompareCallbacks
    experiences: dict[str, Experiences] = field(init=False)
    phases: dict[_Key, str] = field(init=False)
    reusable: dict[_Key, StoredRollouts] = field(default_factory=dict[_Key, StoredRollouts])
    """Stored rollouts that can be reused."""
    apart: dict[str, int] = field(default_factory=dict[str, int])
    """Number of stored rollouts that are made again, by arm."""
    first: FirstRollouts = field(init=False)
    """The first rollouts of the comparison."""
    first_of: dict[_Key, FirstRollouts] = field(init=False)
    """The first rollouts of each arm in each domain."""

    def __post_init__(self) -> None:
        plan = self.plan
        retriever = Retriever.in_store(plan.settings.retrieval, plan.settings.store)
        self.experiences = {
            arm.name: Experiences(arm.library, masked=arm.without, retrieval=retriever) for arm in plan.arms
        }
        holds_back = not any(one.endpoint_state.takes_all for one in self.endpoints.values())
        self.first = FirstRollouts(_GO_ON, holds_back=holds_back)
        self.first_of, self.phases = {}, {}
        for arm in plan.arms:
            for task_set in plan.task_sets:
                key = (arm.name, task_set.domain.name)
                self.first_of[key] = FirstRollouts(_GO_ON, f"the arm {arm.name!r}", holds_back=holds_back)
                self.phases[key] = plan.conditions(arm, task_set).phase

    @property
    def simulated(self) -> bool:
        """Whether any arm uses a simulated model."""
        return any(endpoint.simulated for endpoint in self.endpoints.values())

    async def prepare(self) -> None:
        """Store the tasks and libraries, and look up reusable rollouts."""
        plan = self.plan
        await self.store.save_tasks(plan.all_tasks)
        for arm in plan.arms:
            await self.store.save_version(arm.library, run=None)
        for task_set in plan.task_sets:
            reusable = plan.reusable(self.store, task_set)
            for arm in plan.arms:
                self.reusable[arm.name, task_set.domain.name] = reusable[arm.name]
                if apart := len(plan.stored(self.store, arm, task_set)) - len(reusable[arm.name]):
                    self.apart[arm.name] = self.apart.get(arm.name, 0) + apart

    def reused(self, arm: str) -> int:
        """Return the number of the arm's reused rollouts."""
        return sum(len(reusable) for (name, _), reusable in self.reusable.items() if name == arm)

    async def make_missing(self, task_set: EvalTasks) -> None:
        """Make the rollouts of a domain that are not reused, interleaved, and store them."""
        settings, domain = self.plan.settings, task_set.domain.name
        every = schedule(task_set.tasks, self.plan.arms, settings.k, settings.seed)
        missing = (one for one in every if (one.task.id, one.g) not in self.reusable[one.arm.name, domain])

        async def work() -> None:
            for spec in missing:  # shared: each worker takes the next spec
                await self._make_one(spec, task_set)

        async with TaskGroup() as workers:
            # More than calls: some rollouts run a tool or wait for a retry.
            for _ in range(settings.concurrency + settings.concurrency // 2):
                workers.create_task(work())
        for endpoint in self.endpoints.values():
            endpoint.endpoint_state.refuse_silence(self.call_context.budget)

    async def _make_one(self, spec: _RolloutSpec, task_set: EvalTasks) -> None:
        key = (spec.arm.name, task_set.domain.name)
        rollouts, first_of_arm = self.rollouts[key], self.first_of[key]
        slot = RolloutSlot(self.phases[key], spec.g, spec.seed)

        async def one() -> Finished:
            return await rollouts.one(spec.task, slot, spec.arm.treatment, self.experiences[spec.arm.name])

        finished = await self.first.make(lambda: first_of_arm.make(one))
        await finished.save(self.store)
        self.callbacks.rollout_done(spec.arm.name, finished.trajectory)
        self.first.refuse(finished, spec.task)
        first_of_arm.refuse(finished, spec.task)

    def observations(self, task_set: EvalTasks) -> list[Observation]:
        """Return the rollouts of a domain in all arms: the reused ones, and those that this run made."""
        observations, by_id = list[Observation](), {task.id: task for task in task_set.tasks}
        for arm in self.plan.arms:
            tokens = self.plan.library_tokens(arm)
            made = self.plan.stored(self.store, arm, task_set, run=self.call_context.run)
            rows = {**self.reusable[arm.name, task_set.domain.name], **made}
            found = [(by_id[key[0]], row) for key, row in sorted(rows.items()) if key[0] in by_id]
            observations += [_observation(row, arm, task, tokens) for task, row in found]
        return observations


@asynccontextmanager
async def open_collector(plan: ComparePlan, store: Store, callbacks: CompareCallbacks) -> AsyncGenerator[Collector]:
    """Open every endpoint once, and the rollouts of each arm in each domain. Raises ConfigError."""
    settings = plan.settings
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(new_run_id(), store, Budget(settings), tracing=tracing)
        endpoints: dict[str, Endpoint] = {}
        for name in plan.models:
            opened = open_endpoint(
                name,
                settings,
                seed=settings.seed,
                call_settings=plan.call_settings(name),
                model=plan.given.models.get(name),
            )
            endpoints[name] = await stack.enter_async_context(opened)
            endpoints[name].endpoint_state.outage.tell = callbacks.service_changed
        domains = [task_set.domain for task_set in plan.task_sets]
        executor = await stack.enter_async_context(open_executor(settings, domains, call_context, otel=settings.otel))
        by_arm: dict[_Key, Rollouts] = {}
        for task_set in plan.task_sets:
            for model in dict.fromkeys(arm.model for arm in plan.arms):
                rollouts = await stack.enter_async_context(
                    executor.open(
                        task_set.domain,
                        endpoints[model],
                        judge=endpoints.get(plan.judge),
                        user=endpoints.get(plan.user),
                    )
                )
                for arm in plan.arms:  # an arm with other instructions gets another agent
                    if arm.model == model:
                        own = rollouts.with_instructions(arm.instructions) if arm.instructions else rollouts
                        by_arm[arm.name, task_set.domain.name] = own
        yield Collector(plan, call_context, store, endpoints, by_arm, callbacks)


_CODES = {"undecided": "verifier", "no_answer": "no_answer"}
"""Codes of rollouts by the status of their verdict."""


def _observation(row: EvaluatedRow, arm: Arm, task: Task, library_tokens: int) -> Observation:
    """Return a stored rollout as an observation.

    library_tokens: estimated tokens of the arm's lessons in one prompt.
    """
    return Observation.model_validate(
        {
            "arm": arm.name,
            "task": task.id,
            "g": row.g,
            "score": row.reward,
            "status": row.outcome,
            "error": row.failure_code or _CODES.get(row.verdict or "", ""),
            "tokens_library": library_tokens * row.requests,
            "rollout": row.id,
            **{name: getattr(task, name) for name in ("cluster", "tags", "domain", "problem")},
            **{name: getattr(row, name) for name in ("cost_usd", "tokens_in", "tokens_out", "tool_calls", "seconds")},
        }
    )
