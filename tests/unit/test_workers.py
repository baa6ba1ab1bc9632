"""Rollouts in workers give what rollouts in this process give, also when workers are lost."""

import asyncio
import pickle
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentlearn.config import BudgetOptions, WorkerOptions
from agentlearn.domain.base import JudgeModel, RolloutContext
from agentlearn.domain.custom import custom_tasks
from agentlearn.domain.custom.judge import JUDGE, JudgeReward
from agentlearn.errors import ConfigError, ToolLost
from agentlearn.learning.subject import named_agent
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.outage import RetryPolicy
from agentlearn.rollout.executor import open_executor
from agentlearn.rollout.link import LinkMessage, sendable
from agentlearn.rollout.runner import RESTARTS, Finished, Rollouts, RolloutSlot, open_rollouts
from agentlearn.rollout.worker import work
from agentlearn.rollout.workers import NoRoom, Started, WorkerNeeds, open_workers
from agentlearn.types.experience import library_of
from agentlearn.types.ids import derive_seed
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict
from tests.support.stages import RUN, ListJournal
from tests.support.toy_domain import ToyDomain

LESSONS = library_of(["When doubling, add it to itself."])
TASKS = ToyDomain().tasks("train", seed=0, limit=4)


@dataclass(slots=True)
class QueueLink:
    """One end of a link to a worker in this process. It breaks after some messages."""

    into: "asyncio.Queue[bytes]"
    out_of: "asyncio.Queue[bytes]"
    left: list[int]
    """Messages until the worker is gone, shared by both ends; empty: it stays."""

    async def send(self, message: LinkMessage) -> None:
        if self.left == [0]:
            raise BrokenPipeError
        self.into.put_nowait(pickle.dumps(message))

    async def receive(self) -> LinkMessage:
        message = await self.out_of.get()
        if message and self.left:
            self.left[0] = max(0, self.left[0] - 1)
        if not message or self.left == [0]:
            for queue in (self.into, self.out_of):
                queue.put_nowait(b"")  # wakes both ends
            raise EOFError
        return pickle.loads(message)


@dataclass(slots=True)
class Tasks:
    """Starts workers as asyncio tasks of this process."""

    ends_after: Iterable[int] = ()
    """Messages after which the first, the second, … worker is gone; those after them stay."""
    full: bool = False
    started: int = 0

    async def check(self, count: int, needs: WorkerNeeds) -> None:
        pass

    @asynccontextmanager
    async def start(self, needs: WorkerNeeds) -> AsyncGenerator[Started]:
        ends, self.started = list(self.ends_after), self.started + 1
        if self.full and self.started > 2:
            raise NoRoom("every machine is busy; wait")
        left = ends[self.started - 1 : self.started]
        driver, worker = asyncio.Queue[bytes](), asyncio.Queue[bytes]()
        task = asyncio.create_task(work(QueueLink(driver, worker, left)))

        async def cause() -> str:
            return "it was killed"

        try:
            yield Started(QueueLink(worker, driver, left), cause)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, BrokenPipeError, EOFError):
                await task


@asynccontextmanager
async def tasks(cluster: Tasks) -> AsyncGenerator[Tasks]:
    yield cluster


class CheckedJournal(ListJournal):
    """A journal that takes no record twice."""

    async def record(self, record: CallRecord) -> None:
        assert record.id not in {one.id for one in self.records}
        await super().record(record)


@dataclass
class Run:
    """What a run of rollouts came to."""

    finished: list[Finished] = field(default_factory=list[Finished])
    journal: ListJournal = field(default_factory=CheckedJournal)
    asked: Counter[str] = field(default_factory=Counter[str])
    """Requests that reached the model, by their question and turn."""
    lost: list[str] = field(default_factory=list[str])

    def model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked[f"{messages[0].parts[-1].content} {len(messages)}"] += 1  # type: ignore[union-attr]
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("double", {"n": 4}, tool_call_id="t1")])
        return ModelResponse(parts=[TextPart("The answer is 8")])

    def stored(self) -> list[Trajectory]:
        """The trajectories without times."""
        return [_timeless(one.trajectory) for one in self.finished]

    async def make(self, rollouts: Rollouts, number: int = 2) -> None:
        treatment = Treatment(model="scripted", library=LESSONS.version)
        self.finished = await asyncio.gather(
            *(
                rollouts.one(task, RolloutSlot("epoch-1", g, seed=g), treatment, Experiences(LESSONS))
                for task in TASKS
                for g in range(number)
            )
        )


def _timeless(trajectory: Trajectory) -> Trajectory:
    steps = [one.model_copy(update={"seconds": 0.0, "at": None}) for one in trajectory.steps]
    return trajectory.model_copy(update={"steps": tuple(steps), "started_at": None, "seconds": 0.0})


def made(cluster: Tasks | None, domain: ToyDomain | None = None, *, workers: int = 2, run: Run | None = None) -> Run:
    """Make rollouts in workers; without a cluster, in this process."""
    run, toy = run or Run(), domain or ToyDomain()
    state = EndpointState(Limiter(4), deadline_s=60, retry=RetryPolicy(attempts=1))
    endpoint = Endpoint("scripted", FunctionModel(run.model), state, simulated=True, url="scripted")

    async def main() -> None:
        context, options = CallContext(RUN, run.journal, Budget(BudgetOptions())), WorkerOptions(workers=workers)
        if cluster is None:
            async with open_rollouts(toy, endpoint, options, call_context=context) as rollouts:
                await run.make(rollouts)
            return
        async with (
            open_workers(tasks(cluster), options, [toy], context, otel=False) as opened,
            opened.open(toy, endpoint) as rollouts,
        ):
            await run.make(rollouts)
        run.lost = context.lost_workers
        if agents := asyncio.all_tasks() - {asyncio.current_task()}:  # of workers that were killed in this process
            await asyncio.wait(agents, timeout=10)

    asyncio.run(main())
    return run


def test_workers_give_what_this_process_gives() -> None:
    own, spread = made(None), made(Tasks())
    assert spread.stored() == own.stored()
    assert {one.trajectory.outcome for one in own.finished} == {"ok"}
    assert sorted(one.id for one in spread.journal.records) == sorted(one.id for one in own.journal.records)
    assert [one.messages != b"" for one in spread.finished] == [True] * len(own.finished)
    assert spread.finished[0].output == own.finished[0].output


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(2, 60), max_size=4))
def test_lost_workers_change_nothing_and_no_call_is_repeated(ends_after: list[int]) -> None:
    spread = made(Tasks(ends_after))
    assert spread.stored() == made(None).stored()
    assert set(spread.asked.values()) == {2}  # two rollouts of each task
    assert len(spread.lost) <= len(ends_after)


def test_a_rollout_that_loses_every_worker_is_a_stored_failure_of_a_tool() -> None:
    spread = made(Tasks([9] * 100))
    failures = [one.trajectory.failure for one in spread.finished if one.trajectory.failure is not None]
    assert {(one.code, one.boundary, one.message) for one in failures} == {
        ("worker_lost", "tool", "a worker is gone: it was killed")
    }
    assert {one.trajectory.outcome for one in spread.finished} == {"undecided"}


def test_a_run_goes_on_with_the_workers_that_are_left() -> None:
    spread = made(Tasks([9], full=True))
    assert {one.trajectory.outcome for one in spread.finished} == {"ok"}
    with pytest.raises(ConfigError, match="every machine is busy; wait"):
        made(Tasks(full=True), workers=3)


def falls(*of: object, share: float) -> bool:
    """Whether something fails that happens in this share of cases, the same in every run."""
    return derive_seed(*of) % 1000 < 1000 * share


@dataclass
class FlakyDomain(ToyDomain):
    """Loses its sandbox in a quarter of the attempts, before or after the calls of the model, and asks a judge."""

    uses_judge = True
    judged: JudgeReward = JUDGE
    begun: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Attempts by the task and the seed of the rollout."""

    def with_judge(self, judge: JudgeModel) -> "FlakyDomain":
        return replace(self, judged=self.judged.with_model(judge))

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[None]:
        key = (context.task.id, context.seed)
        attempt, self.begun[key] = self.begun[key], self.begun[key] + 1
        lost = attempt < RESTARTS and falls("sandbox", *key, attempt, share=0.25)
        if lost and context.seed % 2:
            raise ToolLost("the sandbox is gone", code="sandbox_lost")
        yield
        if lost:
            raise ToolLost("the sandbox is gone", code="sandbox_lost")

    async def verify(self, task: Task, trajectory: Trajectory) -> Verdict:  # type: ignore[override]
        return await self.judged.judge(task, trajectory)


@dataclass
class FlakyRun(Run):
    """A run whose judge fails in three requests of ten: the service is silent, refuses, or answers nonsense."""

    failed: Counter[str] = field(default_factory=Counter[str])
    asked_judge: Counter[int] = field(default_factory=Counter[int])

    def model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if not any(tool.name == "submit" for tool in info.output_tools):
            return super().model(messages, info)
        seed = int((info.model_settings or {}).get("seed") or 0)
        self.asked_judge[seed] += 1
        number = self.asked_judge[seed]
        if number <= 3 and falls("judge", seed, number, share=0.3):
            failures = ModelHTTPError(503, "m"), ModelHTTPError(429, "m"), UnexpectedModelBehavior("nonsense")
            failure = failures[self.failed.total() % 3]
            self.failed[repr(failure)] += 1
            raise failure
        return ModelResponse(parts=[ToolCallPart("submit", {"verdict": "right"}, tool_call_id="t2")])


@pytest.mark.slow
def test_flaky_sandboxes_and_flaky_judges_cost_no_rollout() -> None:
    run, cluster = FlakyRun(), Tasks()
    state = EndpointState(Limiter(8), deadline_s=60, retry=RetryPolicy(attempts=5, base_s=0))
    endpoint = Endpoint("scripted", FunctionModel(run.model), state, simulated=True, url="scripted")

    async def main() -> None:
        context, domain = CallContext(RUN, run.journal, Budget(BudgetOptions())), FlakyDomain()
        async with (
            open_workers(tasks(cluster), WorkerOptions(workers=2), [domain], context, otel=False) as opened,
            opened.open(domain, endpoint) as rollouts,
        ):
            await run.make(rollouts, number=25)

    asyncio.run(main())
    trajectories = [one.trajectory for one in run.finished]
    assert {(one.outcome, one.reward) for one in trajectories} == {("ok", 1.0)}
    restarted = sum(one.attempt for one in trajectories)
    assert 0.15 < restarted / (restarted + len(trajectories)) < 0.35
    failed, asked = run.failed.total(), run.asked_judge.total()
    assert 0.2 < failed / asked < 0.4
    assert state.failures.total() == failed, "every failed request is counted"


class OddError(Exception):
    """An error of a user's own model that pickle cannot make again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class OddRun(Run):
    def model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise OddError("odd", "words")


def test_a_model_that_fails_leaves_the_same_failures() -> None:
    for run in (made(Tasks(), run=OddRun()), made(None, run=OddRun())):
        assert {one.trajectory.outcome for one in run.finished} == {"undecided"}
        codes = {one.failure.code for one in run.stored() if one.failure}
        assert codes == {"endpoint_garbled", "never_answered"}  # which of them depends on the order of calls
    assert str(sendable(OddError("odd", "words"))) == "OddError: odd words"


@dataclass
class GreedyDomain(ToyDomain):
    worker_memory_mib: int = 1


def test_a_worker_that_takes_too_much_memory_is_replaced() -> None:
    cluster = Tasks()
    spread = made(cluster, GreedyDomain())
    assert {one.trajectory.outcome for one in spread.finished} == {"ok"}
    assert spread.lost == []


def test_what_cannot_be_sent_to_a_worker_is_said_before_anything_is_asked() -> None:
    domain = ToyDomain()
    domain.secret = lambda: None  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"cannot be sent to another process .* give the agent, the reward"):
        made(Tasks(), domain)


@pytest.mark.parametrize("reward", ["exact", "number", "choice", "contains", "judge"])
def test_tasks_of_your_own_can_be_sent(reward: str) -> None:
    domain = custom_tasks("own", reward, tools="none", instructions=None, only_instructions=False)
    assert pickle.loads(pickle.dumps(domain)).reward.name == reward


def test_an_agent_that_is_named_is_made_again_in_the_worker() -> None:
    domain = named_agent("tests.support.named_agent:agent", reward="exact").domain
    again = pickle.loads(pickle.dumps(domain))
    assert (again.name, again.judged.reward.name) == (domain.name, "exact")
    assert again.agent() is domain.agent()  # the same module here


def test_a_cluster_needs_a_number_of_workers() -> None:
    async def main() -> None:
        context = CallContext(RUN, ListJournal(), Budget(BudgetOptions()))
        async with open_executor(WorkerOptions(ray="auto"), (), context):
            pass

    with pytest.raises(ConfigError, match="--ray auto needs --workers N"):
        asyncio.run(main())
