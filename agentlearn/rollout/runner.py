"""Runs one rollout: an agent on one task under one treatment. An error becomes a stored failure."""

import asyncio
import errno
import hashlib
import time
import traceback
from collections.abc import AsyncGenerator, Collection, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from typing import Any

import structlog
from pydantic_ai import (
    Agent,
    FunctionToolset,
    NativeOutput,
    PromptedOutput,
    TextOutput,
    UsageLimits,
    capture_run_messages,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage

from agentlearn.config import RolloutOptions, SiteOptions
from agentlearn.domain.base import Answer, Domain, JudgeModel, RolloutContext, TaskUser, Work
from agentlearn.errors import (
    AgentlearnError,
    BudgetExceeded,
    ConfigError,
    EndpointError,
    RolloutError,
    StopSignal,
    ToolError,
    ToolLost,
    VerifierError,
)
from agentlearn.library.capability import Experiences
from agentlearn.models.call_context import CallContext, CallRecord, WorkUnit
from agentlearn.models.endings import without_tokens
from agentlearn.models.endpoint import Endpoint
from agentlearn.rollout.dialogue import Dialogue, NotedModel, RequestTexts
from agentlearn.rollout.recorded_run import cause_of
from agentlearn.rollout.tool_journal import ToolJournal
from agentlearn.rollout.transcript import steps_of
from agentlearn.sandbox import open_sandbox
from agentlearn.store import Store
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import without_keys
from agentlearn.types.ids import ExperienceId, RolloutId, derive_seed, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import VERIFY_RAISED, Failure, PromptRef, Trajectory, Treatment, Usage, Verdict
from agentlearn.types.value import reward_of

SHORTAGES = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EIO, errno.EROFS)
)
"""No space or no quota on the disk, too many open files, no new process, no memory, a broken or read-only disk."""


@asynccontextmanager
async def _shortage_is_lost() -> AsyncGenerator[None]:
    """Raise ToolLost where the block raises an OSError for such a shortage: it says nothing about the agent."""
    try:
        yield
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
        raise ToolLost(f"a tool could not work on this machine: {error}", code="tool_system") from error


def stored_messages(messages: Sequence[ModelMessage]) -> bytes:
    """Return the messages as JSON.

    Exact tokens are left out, because the steps contain them. What a tool returned besides text, such as a screenshot,
    is replaced by its type, size and hash. Pictures of a task itself are kept.
    """
    return ModelMessagesTypeAdapter.dump_json([_stored(one) for one in messages])


def _stored(message: ModelMessage) -> ModelMessage:
    if isinstance(message, ModelResponse):
        return without_tokens(message)
    if not any(isinstance(part, ToolReturnPart) for part in message.parts):
        return message
    return replace(message, parts=[_without_binary(part) for part in message.parts])


def _without_binary(part: ModelRequestPart) -> ModelRequestPart:
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return part
    return replace(part, content=[_described(one) for one in part.content])


def _described(content: UserContent) -> UserContent:
    if not isinstance(content, BinaryContent):
        return content
    digest = hashlib.sha256(content.data).hexdigest()
    return f"[{content.media_type}, {len(content.data)} bytes, sha256 {digest}, not stored]"


DEFAULT_SANDBOX = "zygote"
DEFAULT_OPTIONS = RolloutOptions()
_MAX_REASON = 300
RESTARTS = 2
"""How often a rollout whose tools were lost is started again before it counts as failed."""


@dataclass(frozen=True, slots=True)
class RolloutSlot:
    """The place of a rollout in its run. Together with the run and the task it identifies the rollout."""

    phase: str
    """Such as `before`, `epoch-1` or `after`."""
    g: int
    """Index of the rollout among those of its task, from 0."""
    seed: int
    """Seed of this rollout."""
    batch: int = 0
    """Number of the batch in its epoch, from 1; 0 outside epochs."""
    attempt: int = 0
    """Number of attempts before this one."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished rollout."""

    trajectory: Trajectory
    messages: bytes
    """JSON of pydantic-ai's messages."""
    stored: bool = False
    """Whether the store holds it already."""
    texts: tuple[tuple[PromptRef, str], ...] = ()
    """Texts that its `prompts` refer to and that no other record holds: the tools that the model was offered."""
    output: Any = None
    """The output itself; None when the rollout failed."""
    cause: str = ""
    """What left it undecided: the same text for rollouts with one cause; empty when it is decided, and when its task
    alone is the cause."""

    async def save(self, store: Store) -> None:
        """Store the rollout and its texts. Raises StoreError."""
        for ref, text in self.texts:
            await store.save_prompt(ref, text)
        await store.save_trajectory(self.trajectory, self.messages)


@dataclass(slots=True)
class Rollouts:
    """Runs rollouts of one domain on one endpoint."""

    call_context: CallContext
    domain: Domain
    endpoint: Endpoint
    options: RolloutOptions = DEFAULT_OPTIONS
    """Limits of one rollout."""
    sandbox: str = ""
    """Name of the sandbox; empty when the domain runs no code."""
    isolation: str = ""
    """JSON report on how the sandbox isolates code."""
    instructions: str = ""
    """Instructions that replace those of the agent; empty: the agent's own."""
    notes: tuple[str, ...] = ()
    """Notes on the model's chat template, for the report."""
    user: Endpoint | None = None
    """Endpoint of the model that plays the users of tasks; None: the same endpoint."""
    agent: Agent[Any, Any] | None = field(init=False)
    """The domain's agent; None for a domain that runs itself."""
    prompts: tuple[PromptRef, ...] = field(init=False)
    open_slots: AbstractAsyncContextManager[object] = field(init=False)
    """Limits the number of open rollouts, for domains that have such a limit."""

    def __post_init__(self) -> None:
        most = self.domain.max_open_rollouts()
        self.open_slots = nullcontext() if most is None else asyncio.Semaphore(most)
        self.agent = None if self.domain.runs_itself else self.domain.agent()
        self.prompts = (instructions_ref(self.instructions),) if self.instructions else self.domain.prompts()

    def with_instructions(self, instructions: str) -> "Rollouts":
        """Return these rollouts with other instructions for the agent. Raises ConfigError when they are empty."""
        if not instructions.strip():
            raise ConfigError("the instructions are empty; write instructions for the agent")
        if self.agent is None:
            raise ConfigError(
                f"{self.domain.name!r} is not an agent, so its instructions cannot be replaced; leave them out"
            )
        return replace(self, instructions=instructions)

    async def one(
        self,
        task: Task,
        slot: RolloutSlot,
        treatment: Treatment,
        experiences: Experiences,
        *,
        without: Collection[ExperienceId] = (),
    ) -> Finished:
        """Run the agent and judge its answer. Raises only BudgetExceeded, StoreError, bugs and cancellation.

        Of a library that is too large to show all, the agent gets the lessons that fit the task's problem. without:
        lessons that are not to be chosen.

        A rollout whose tools were lost is started again as a new attempt. So is one that an interrupted run started, if
        what its tools did cannot be repeated. `Trajectory.attempt` counts the attempts before.
        """
        experiences = await experiences.for_query(task.problem, without=without)
        try:
            return await self.attempts(task, slot, treatment, experiences)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            # the loop would take the rollout for cancelled, and the run would wait for it for ever
            raise RuntimeError("CancelledError was raised, and nothing was cancelled").with_traceback(
                error.__traceback__
            ) from error

    async def attempts(self, task: Task, slot: RolloutSlot, treatment: Treatment, experiences: Experiences) -> Finished:
        """As `one`, with lessons that are chosen already."""
        first = self._attempt(task, slot)
        async with self.open_slots:
            for attempt in range(first, first + RESTARTS):
                try:
                    return await self._once(task, replace(slot, attempt=attempt), treatment, experiences)
                except ToolLost as lost:
                    await self.call_context.wait_if_stopped()
                    get_log(task=task.id).warning(
                        "rollout.restarted", attempt=attempt, code=lost.code, reason=lost.message
                    )
            last = replace(slot, attempt=first + RESTARTS)
            return await self._once(task, last, treatment, experiences, last=True)

    def _attempt(self, task: Task, slot: RolloutSlot) -> int:
        """Return the first attempt that no interrupted run has started."""
        attempt = slot.attempt
        if not self.domain.replayable:
            while self.call_context.journal.began(self._identity(task, replace(slot, attempt=attempt))):
                attempt += 1
        return attempt

    def _identity(self, task: Task, slot: RolloutSlot) -> RolloutId:
        return rollout_id(self.call_context.run, slot.phase, task.id, slot.g, slot.attempt)

    async def _once(
        self, task: Task, slot: RolloutSlot, treatment: Treatment, experiences: Experiences, *, last: bool = False
    ) -> Finished:
        """Run one attempt. Raises ToolLost too, unless it is the last."""
        identity = self._identity(task, slot)
        structlog.contextvars.bind_contextvars(task=task.id, rollout=identity)  # each rollout is an asyncio task
        unit = WorkUnit(self.call_context, "rollout", identity, slot.seed)
        texts = RequestTexts(task, self.domain, self.agent, experiences.get_instructions() or "", self.instructions)
        tools = ToolJournal(experiences, unit, texts)
        started_at, started = datetime.now(UTC), time.perf_counter()
        output, answer, failure, cause = None, None, None, ""
        with capture_run_messages() as messages:
            try:
                with unit.traced({"task": task.id, "rollout": identity, "phase": slot.phase}) as tracing:
                    capabilities = [tools, *tracing]
                    output = await self._act(task, slot, treatment, experiences, capabilities, unit, texts)
                    answer = self._answer(output)
            except BudgetExceeded:
                raise
            except ToolLost as error:
                if not last:
                    raise
                await self.call_context.wait_if_stopped()
                failure, cause = self._failure(error), cause_of(error)
            except (RolloutError, TimeoutError, UnexpectedModelBehavior, UsageLimitExceeded) as error:
                await self.call_context.wait_if_stopped()  # an error while the run is being stopped is not a result
                failure, cause = self._failure(error, texts.said or messages), cause_of(error)
        said = texts.said or max(messages, texts.messages, key=len) or texts.talk  # of several agents, one is captured
        trajectory = Trajectory(
            id=identity,
            run=self.call_context.run,
            phase=slot.phase,
            batch=slot.batch,
            task=task.id,
            g=slot.g,
            attempt=slot.attempt,
            seed=slot.seed,
            treatment=treatment,
            offered=experiences.choice.lessons,
            steps=steps_of(
                said,
                unit.calls,
                tools.seconds,
                tools.diverged,
                opening=texts.opening,
                texts=texts,
                answer="" if answer is None or self.agent is not None else answer.text,
            ),
            answer=None if answer is None else answer.answer,
            failure=failure,
            usage=_total_usage(unit.calls),
            cost_usd=_total_cost(unit.calls),
            started_at=started_at,
            seconds=time.perf_counter() - started,
            prompts=(*self.prompts, *(ref for ref, _ in tools.offered.recorded())),
            isolation=self.isolation,
        )
        if failure is None:
            trajectory, cause = await self._judged(task, trajectory, output)
        kept = output if failure is None else None
        return Finished(trajectory, stored_messages(said), texts=tools.offered.recorded(), output=kept, cause=cause)

    def _answer(self, output: Any) -> Answer:
        with self._errors("answer_of"):
            return self.domain.answer_of(output)

    @contextmanager
    def _errors(self, what: str) -> Generator[None]:
        """Make any exception of a user's own code a failure of the rollout, if the domain says so."""
        try:
            yield
        except (AgentlearnError, TimeoutError, UnexpectedModelBehavior, UsageLimitExceeded, StopSignal):
            raise
        except (Exception, SystemExit) as error:
            if not self.domain.errors_are_failures:
                raise
            get_log().warning("rollout.raised", what=what, reason=_last_line(error))
            get_log().debug("rollout.traceback", what=what, exc_info=error)
            raise ToolError(f"{what} raised {without_keys(_last_line(error))}", code=f"{what}_raised") from error

    def _instructed(self, experiences: Experiences) -> AbstractContextManager[None]:
        """Replace all instructions of the agent by the given ones and the lessons, if any are given.

        Instructions that were improved as a document take the place of the agent's own.
        """
        replaced = bool(self.instructions) or experiences.library.document == "instructions"
        if not replaced or self.agent is None:
            return nullcontext()
        texts = (self.instructions, experiences.get_instructions())
        return self.agent.override(instructions=[one for one in texts if one])

    async def _act(
        self,
        task: Task,
        slot: RolloutSlot,
        treatment: Treatment,
        experiences: Experiences,
        capabilities: Sequence[AbstractCapability[Any]],
        unit: WorkUnit,
        texts: RequestTexts,
    ) -> Any:
        """Return the output. texts: get the messages of a dialogue, and those that a domain that runs itself gives."""
        settings = ModelSettings()
        if treatment.temperature is not None:
            settings["temperature"] = treatment.temperature
        context = RolloutContext(
            task=task,
            seed=derive_seed("tools", slot.seed),
            sandbox=self.sandbox,
            record=None if self.options.record is None else self.options.record / self._identity(task, slot),
        )
        deadline = asyncio.timeout(self.options.rollout_deadline_s)
        unit.deadline = deadline
        model = NotedModel(self.endpoint.client(unit, history_tokens=self.options.history_tokens), texts)
        async with deadline, _shortage_is_lost(), self.domain.open(context) as deps:
            with self._errors("user"):
                dialogue = self._user(task, slot, deadline, deps)
            if self.agent is None:
                work = Work(
                    task=task,
                    lessons=experiences.get_instructions() or "",
                    model=model,
                    deps=deps,
                    seed=context.seed,
                    settings=settings,
                    max_turns=self.options.max_turns,
                    reply=None if dialogue is None else lambda said: texts.reply(dialogue, said),
                )
                with self._errors("program"):
                    worked = await self.domain.work(work)
                texts.said[:] = worked.messages
                return worked.output
            question, limits = self.domain.question(task), UsageLimits(request_limit=self.options.max_turns)
            texts.know(question, texts.written_by(question, self.domain.question_by))
            given: dict[str, Any] = {"model": model, "deps": deps, "model_settings": settings, "usage_limits": limits}
            given["capabilities"] = capabilities
            with self._errors("agent"), self._instructed(experiences):
                if dialogue is None:
                    return (await self.agent.run(question, **given)).output
                texts.opening = (first := await dialogue.begin(question)) != question
                return await self._talk(self.agent, dialogue, first, given, texts)

    def _user(self, task: Task, slot: RolloutSlot, deadline: asyncio.Timeout, deps: object) -> TaskUser | None:
        """Whom the agent talks with; None for nobody. The model that plays the user has a unit of its own, whose
        waiting for a silent service counts for the rollout's time limit as that of the agent does."""
        unit = WorkUnit(
            self.call_context, "user", self._identity(task, slot), derive_seed("user", slot.seed), deadline=deadline
        )

        def model() -> Model:
            return (self.user or self.endpoint).client(unit)

        found = self.domain.user(task, deps, model)
        return found if found is not None or task.user is None else Dialogue(task.user, task.problem, model)

    async def _talk(
        self,
        agent: Agent[Any, Any],
        dialogue: TaskUser,
        question: str,
        given: dict[str, Any],
        texts: RequestTexts,
    ) -> Any:
        """Run the agent on each message of the user in turn, and return its last output; None where a tool ended the
        conversation. texts: get all messages."""
        usage, said, next_message = RunUsage(), texts.said, question
        while True:
            async with agent.iter(next_message, message_history=list(said), usage=usage, **given) as run:
                last: list[ModelMessage] = []
                try:
                    async for node in run:
                        if dialogue.over and Agent.is_model_request_node(node):
                            last = [node.request]  # the results of its tools, which the model is not sent
                            break
                finally:
                    said[:] = [*run.all_messages(), *last]
            if last:
                return None
            output = None if run.result is None else run.result.output
            reply = await texts.reply(dialogue, self._answer(output).text)
            if reply is None:
                said += [ModelRequest.user_text_prompt(dialogue.farewell)] if dialogue.farewell else []
                return output
            next_message = reply

    async def _judged(self, task: Task, trajectory: Trajectory, output: Any) -> tuple[Trajectory, str]:
        """Return the trajectory with its verdict, and what left it undecided."""
        try:
            verdict = await self._verdict(task, trajectory, output)
            # without an expected answer, that the verifier cannot decide says something about this task only
            cause = verdict.reason if verdict.reward is None and task.answer is not None else ""
        except AgentlearnError as error:
            if not isinstance(error, RolloutError) or error.resumable:
                raise
            await self.call_context.wait_if_stopped()
            verdict, cause = Verdict(status="undecided", reason=f"{error.code}: {error}"), cause_of(error)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            # a bug of the verifier says nothing about the answer
            await self.call_context.wait_if_stopped()
            reason = f"{VERIFY_RAISED}: {_last_line(error)}"
            get_log(task=task.id).warning("verify.raised", reason=reason, exc_info=error)
            verdict, cause = Verdict(status="undecided", reason=reason), cause_of(error)
        return trajectory.model_copy(update={"verdict": verdict}), cause

    async def _verdict(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict:
        judged: Any = self.domain.verify_output(task, trajectory, output)
        verdict: Any = await judged if isawaitable(judged) else judged
        if not isinstance(verdict, Verdict):
            raise TypeError(f"verify of the domain {self.domain.name!r} gave {verdict!r}, which is not a Verdict")
        try:
            reward_of(verdict.reward or 0)
        except ConfigError as error:
            raise VerifierError(f"verify of the domain {self.domain.name!r}: {error}", code="bad_reward") from error
        return verdict

    def _failure(self, error: Exception, messages: Sequence[ModelMessage] = ()) -> Failure:
        """Return the failure to store for an error. messages: of the rollout."""
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
            case _ if messages and isinstance(last := messages[-1], ModelResponse) and last.finish_reason == "length":
                message = "the reply was cut off at the limit of its request on output tokens, before it was complete"
                return Failure(code="cut_off", message=message, boundary="output")
            case _:
                return Failure(code="unusable_output", message=without_keys(str(error)), boundary="output")


@asynccontextmanager
async def open_rollouts(
    domain: Domain,
    endpoint: Endpoint,
    options: RolloutOptions = DEFAULT_OPTIONS,
    *,
    call_context: CallContext,
    judge: Endpoint | None = None,
    user: Endpoint | None = None,
) -> AsyncGenerator[Rollouts]:
    """Open rollouts of a domain on an endpoint, with the sandbox they need.

    judge: endpoint of a verifier that asks a model; None: the same endpoint. user: endpoint that plays the users of
    tasks; None: the judge's.

    Raises ConfigError when the model's chat template cannot hold the conversation, when the sandbox cannot isolate code
    on this machine, and when the sites cannot be reached as the options say; the message says what to do.
    """
    notes = endpoint.check_chat(tools=domain.runs_code)  # before a sandbox or a browser is started
    async with AsyncExitStack() as stack:
        isolation, name = "", sandbox_for(domain, options.sandbox)
        if name:
            opened = await stack.enter_async_context(open_sandbox(name))
            domain = domain.with_sandbox(opened)
            isolation = opened.report.model_dump_json()
        if options.sites != SiteOptions():
            domain = domain.with_sites(options.sites)
        domain = await stack.enter_async_context(domain.running())
        if domain.uses_judge:
            domain = domain.with_judge(_judge(judge or endpoint, call_context))
        rollouts = Rollouts(
            call_context=call_context,
            domain=domain,
            endpoint=endpoint,
            options=options,
            sandbox=name,
            isolation=isolation,
            notes=notes,
            user=user or judge,
        )
        if rollouts.agent is not None and _has_tools(rollouts.agent):
            rollouts = replace(rollouts, notes=endpoint.check_chat(tools=True))
        yield rollouts


def _has_tools(agent: Agent[Any, Any]) -> bool:
    """Whether an agent's model is offered tools: the agent's own, or one to hand in a structured output."""
    own = any(not isinstance(one, FunctionToolset) or one.tools for one in agent.toolsets)
    as_text = agent.output_type is str or isinstance(agent.output_type, TextOutput | NativeOutput | PromptedOutput)
    return own or not as_text


def _judge(endpoint: Endpoint, call_context: CallContext) -> JudgeModel:
    """Return a function from the name of a question to a model whose seed depends only on that name."""
    return lambda name: endpoint.client(WorkUnit(call_context, "judge", name, derive_seed("judge", name)))


def sandbox_for(domain: Domain, chosen: str | None) -> str:
    """Return the name of the sandbox: the one chosen, else the default; empty for a domain that runs no code."""
    return (chosen or DEFAULT_SANDBOX) if domain.runs_code else ""


def instructions_ref(instructions: str) -> PromptRef:
    """Return the reference under which replaced instructions are recorded."""
    return PromptRef(name="instructions", version=0, sha256=hashlib.sha256(instructions.encode()).hexdigest())


def _is_cancelled() -> bool:
    """Whether the current asyncio task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


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


def _last_line(error: BaseException) -> str:
    """Return the last line of the traceback, with the place that raised the error."""
    line = " ".join("".join(traceback.format_exception_only(error)).split())[:_MAX_REASON]
    frames = traceback.extract_tb(error.__traceback__)
    return f"{line} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else line
