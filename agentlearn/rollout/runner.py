"""Run one rollout: a typed agent on one task under one treatment. Whatever breaks becomes a stored failure."""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from pydantic_ai import Agent, UsageLimits, capture_run_messages
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.settings import ModelSettings

from agentlearn.config import RolloutOptions
from agentlearn.domain.base import Answer, Domain, JudgeModel, RolloutContext
from agentlearn.errors import (
    BudgetExceeded,
    ConfigError,
    EndpointError,
    RolloutError,
    ToolError,
    ToolLost,
    VerifierError,
)
from agentlearn.library.capability import Experiences
from agentlearn.log import get_log
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.models.journal import CallRecord
from agentlearn.models.tokens import without_tokens
from agentlearn.models.work_unit import WorkUnit
from agentlearn.rollout.tool_journal import ToolJournal
from agentlearn.rollout.transcript import steps_of
from agentlearn.sandbox import open_sandbox
from agentlearn.types.ids import RolloutId, derive_seed, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Failure, PromptRef, Trajectory, Usage, Verdict
from agentlearn.types.treatment import Treatment

DEFAULT_SANDBOX = "zygote"
DEFAULT_OPTIONS = RolloutOptions()
RESTARTS = 2
"""How often a rollout whose tools were lost begins anew before that counts as its failure."""


@dataclass(frozen=True, slots=True)
class RolloutSlot:
    """Where in a run a rollout stands; with the task it is the rollout's logical key."""

    phase: str
    g: int
    seed: int
    """The rollout's own seed."""
    batch: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """A rollout's record, and pydantic-ai's own message JSON for replay."""

    trajectory: Trajectory
    messages: bytes
    stored: bool = False
    """Whether the store had it already."""


@dataclass(slots=True)
class Rollouts:
    """Everything that the rollouts of one run share."""

    call_context: CallContext
    domain: Domain
    endpoint: Endpoint
    options: RolloutOptions = DEFAULT_OPTIONS
    """Limits of one rollout."""
    sandbox: str = ""
    isolation: str = ""
    words: str = ""
    """Instructions in place of the agent's own; empty: its own."""
    answer_tokens: int | None = None
    """Tokens that one answer of the model may have; None: as many as its service gives."""
    record: Path | None = None
    """A folder in which each rollout's tools may record, in one of its own; None: no record is wanted."""
    agent: Agent[Any, Answer] = field(init=False)
    prompts: tuple[PromptRef, ...] = field(init=False)
    places: AbstractAsyncContextManager[object] = field(init=False)
    """Where rollouts wait for their turn, if only so many may be open at once."""

    def __post_init__(self) -> None:
        most = self.domain.max_open_rollouts()
        self.places = nullcontext() if most is None else asyncio.Semaphore(most)
        self.agent = self.domain.agent()
        self.prompts = (words_ref(self.words),) if self.words else self.domain.prompts()

    def reworded(self, words: str) -> "Rollouts":
        """The same with other instructions for the agent. Raises ConfigError for none."""
        if not words.strip():
            raise ConfigError("the instructions are empty; write what the agent is to be told", code="no_instructions")
        return replace(self, words=words)

    async def one(self, task: Task, place: RolloutSlot, treatment: Treatment, experiences: Experiences) -> Finished:
        """Run the agent, judge its answer. Raises only BudgetExceeded, StoreError, bugs and cancellation.

        A rollout whose tools were lost begins anew, as a further attempt; likewise one that a resumed run had begun,
        where what its tools did cannot be done again. `Trajectory.attempt` counts them.
        """
        first = self._attempt(task, place)
        async with self.places:
            for attempt in range(first, first + RESTARTS):
                try:
                    return await self._once(task, replace(place, attempt=attempt), treatment, experiences)
                except ToolLost as lost:
                    await self.call_context.wait_if_stopped()
                    told = {"attempt": attempt, "code": lost.code, "reason": lost.message}
                    get_log(task=task.id).warning("rollout.restarted", **told)
            last = replace(place, attempt=first + RESTARTS)
            return await self._once(task, last, treatment, experiences, last=True)

    def _attempt(self, task: Task, place: RolloutSlot) -> int:
        """The first attempt that was not begun before."""
        attempt = place.attempt
        if not self.domain.replayable:
            while self.call_context.journal.began(self._identity(task, replace(place, attempt=attempt))):
                attempt += 1
        return attempt

    def _identity(self, task: Task, place: RolloutSlot) -> RolloutId:
        return rollout_id(self.call_context.run, place.phase, task.id, place.g, place.attempt)

    async def _once(
        self, task: Task, place: RolloutSlot, treatment: Treatment, experiences: Experiences, *, last: bool = False
    ) -> Finished:
        """One attempt. Raises ToolLost too, unless it is the last."""
        identity = self._identity(task, place)
        structlog.contextvars.bind_contextvars(task=task.id, rollout=identity)  # each rollout is an asyncio task
        unit = WorkUnit(self.call_context, "rollout", identity, place.seed)
        tools = ToolJournal(unit)
        started_at, started = datetime.now(UTC), time.perf_counter()
        answer, failure = None, None
        with capture_run_messages() as messages:
            try:
                with unit.traced({"task": task.id, "rollout": identity, "phase": place.phase}) as tracing:
                    capabilities = [experiences, tools, *tracing]
                    with self._told(experiences):
                        answer = await self._act(task, place, treatment, capabilities, unit)
            except BudgetExceeded:
                raise
            except ToolLost as error:
                if not last:
                    raise
                await self.call_context.wait_if_stopped()
                failure = self._failure(error)
            except (RolloutError, TimeoutError, UnexpectedModelBehavior, UsageLimitExceeded) as error:
                await self.call_context.wait_if_stopped()  # what breaks while the run is being stopped is no result
                failure = self._failure(error)
        trajectory = Trajectory(
            id=identity,
            run=self.call_context.run,
            phase=place.phase,
            batch=place.batch,
            task=task.id,
            g=place.g,
            attempt=place.attempt,
            seed=place.seed,
            treatment=treatment,
            steps=steps_of(messages, unit.calls, tools.seconds, tools.diverged),
            answer=None if answer is None else answer.answer,
            failure=failure,
            usage=_total_usage(unit.calls),
            cost_usd=_total_cost(unit.calls),
            started_at=started_at,
            seconds=time.perf_counter() - started,
            prompts=self.prompts,
            isolation=self.isolation,
        )
        return Finished(await self._judged(task, trajectory), _dump(messages))

    def _told(self, experiences: Experiences) -> AbstractContextManager[None]:
        """What else the agent is told. Other instructions take the place of all; the lessons are among them."""
        if not self.words:
            return nullcontext()
        return self.agent.override(instructions=[self.words, *filter(None, [experiences.get_instructions()])])

    async def _act(
        self,
        task: Task,
        place: RolloutSlot,
        treatment: Treatment,
        capabilities: list[AbstractCapability[Any]],
        unit: WorkUnit,
    ) -> Answer:
        settings = ModelSettings()
        if treatment.temperature is not None:
            settings["temperature"] = treatment.temperature
        if self.answer_tokens is not None:
            settings["max_tokens"] = self.answer_tokens
        context = RolloutContext(
            task=task,
            seed=derive_seed("tools", place.seed),
            sandbox=self.sandbox,
            record=None if self.record is None else self.record / self._identity(task, place),
        )
        async with asyncio.timeout(self.options.rollout_deadline_s), self.domain.open(context) as deps:
            result = await self.agent.run(
                self.domain.question(task),
                model=self.endpoint.client(unit),
                deps=deps,
                model_settings=settings,
                usage_limits=UsageLimits(request_limit=self.options.max_turns),
                capabilities=capabilities,
            )
        return result.output

    async def _judged(self, task: Task, trajectory: Trajectory) -> Trajectory:
        if trajectory.failure is not None:
            return trajectory
        try:
            judged = self.domain.verify(task, trajectory)
            verdict = judged if isinstance(judged, Verdict) else await judged
        except VerifierError as error:
            verdict = Verdict(status="undecided", reason=f"{error.code}: {error}")
        return trajectory.model_copy(update={"verdict": verdict})

    def _failure(self, error: Exception) -> Failure:
        """The one place that turns what broke into a result."""
        match error:
            case EndpointError():
                return Failure(code=error.code, message=error.message, boundary="endpoint")
            case ToolError():
                return Failure(code=error.code, message=error.message, boundary="tool")
            case RolloutError():
                return Failure(code=error.code, message=error.message, boundary="verifier")
            case TimeoutError():
                message = f"the rollout took longer than {self.options.rollout_deadline_s:g} s"
                return Failure(code="rollout_timeout", message=message, boundary="deadline")
            case UsageLimitExceeded():
                message = f"the agent gave no answer within {self.options.max_turns} model calls"
                return Failure(code="too_many_turns", message=message, boundary="output")
            case _:
                return Failure(code="unusable_output", message=str(error), boundary="output")


@asynccontextmanager
async def open_rollouts(
    domain: Domain,
    endpoint: Endpoint,
    options: RolloutOptions = DEFAULT_OPTIONS,
    *,
    call_context: CallContext,
    judge: Endpoint | None = None,
    answer_tokens: int | None = None,
    record: Path | None = None,
) -> AsyncGenerator[Rollouts]:
    """Rollouts of a domain on an open endpoint, with the sandbox they need.

    judge: whom a verifier that asks a model asks; None: the same endpoint. record: a folder for what tools record.

    Raises ConfigError when the sandbox cannot hold here what it promises; its words name the ways out.
    """
    async with AsyncExitStack() as stack:
        isolation, name = "", sandbox_for(domain, options.sandbox)
        if name:
            opened = await stack.enter_async_context(open_sandbox(name))
            domain = domain.with_sandbox(opened)
            isolation = opened.report.model_dump_json()
        domain = await stack.enter_async_context(domain.running())
        if domain.uses_judge:
            domain = domain.with_judge(_judge(judge or endpoint, call_context))
        yield Rollouts(
            call_context=call_context,
            domain=domain,
            endpoint=endpoint,
            options=options,
            sandbox=name,
            isolation=isolation,
            answer_tokens=answer_tokens,
            record=record,
        )


def _judge(endpoint: Endpoint, call_context: CallContext) -> JudgeModel:
    """Models whose seed depends on the question's name alone."""
    return lambda name: endpoint.client(WorkUnit(call_context, "judge", name, derive_seed("judge", name)))


def sandbox_for(domain: Domain, chosen: str | None) -> str:
    """The sandbox to use: the isolated one unless the user named another; none for a domain that runs no code."""
    return (chosen or DEFAULT_SANDBOX) if domain.runs_code else ""


def words_ref(words: str) -> PromptRef:
    """What instructions in place of the agent's own are recorded as."""
    return PromptRef(name="instructions", version=0, sha256=hashlib.sha256(words.encode()).hexdigest())


def _total_usage(calls: list[CallRecord]) -> Usage:
    return Usage(
        requests=len(calls),
        tokens_in=sum(call.tokens_in for call in calls),
        tokens_cached=sum(call.tokens_cached for call in calls),
        tokens_out=sum(call.tokens_out for call in calls),
    )


def _total_cost(calls: list[CallRecord]) -> float | None:
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    return sum(costs) if len(costs) == len(calls) else None


def _dump(messages: list[ModelMessage]) -> bytes:
    """The messages as JSON; exact tokens stand in the steps already."""
    plain = [without_tokens(one) if isinstance(one, ModelResponse) else one for one in messages]
    return ModelMessagesTypeAdapter.dump_json(plain)
