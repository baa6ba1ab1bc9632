"""Runs the solver and the scorers of an inspect_ai task on one sample, inside of inspect_ai's own `eval`.

Solvers and scorers look up the running sample, its limits and the models of roles, all of which `eval` alone sets. A
process can run one `eval` at a time. So one runs for all rollouts. It takes a sample whenever a rollout brings one, and
leaves calling the solver, the scorers and the model to us. Its log is thrown away; the store holds what happened.
"""

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import inspect_ai
from inspect_ai import SampleSource, enqueue_sample
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    get_model,
    modelapi,
)
from inspect_ai.scorer import Score, Target
from inspect_ai.solver import Generate, Plan, Solver, TaskState, chain, solver
from inspect_ai.tool import ToolCall, ToolChoice, ToolFunction, ToolInfo
from inspect_ai.util import LimitExceededError, display_type, registry_info, subtask
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentlearn.domain.base import Work
from agentlearn.errors import ToolError, VerifierError, root_cause
from agentlearn.types.task import Task
from agentlearn_adapters.foreign_domain import ModelCalls, joined, reply_text

_STOPS: dict[str | None, StopReason] = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


_ASKED: "ContextVar[ModelCalls]" = ContextVar("asked")
"""The calls of the rollout that runs."""


@modelapi("agentlearn")
class _RolloutModel(ModelAPI):
    """The model of the rollout that runs. Limits, retries and the record are ours, so inspect_ai adds none."""

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 - the name that inspect_ai gives
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Return the model's response."""
        offered = [
            ToolDefinition(
                name=one.name,
                description=one.description,
                parameters_json_schema=one.parameters.model_dump(mode="json", exclude_none=True),
            )
            for one in (() if tool_choice == "none" else tools)
        ]
        settings = _settings(config, tool_choice if offered else None)
        response = await _ASKED.get().ask(joined(_message(one) for one in input), offered, settings)
        return _output_of(response)

    async def count_tokens(self, input: str | list[ChatMessage], config: GenerateConfig | None = None) -> int:  # noqa: A002
        """Return a rough number of tokens. inspect_ai's own count loads a tokenizer from the internet."""
        text = input if isinstance(input, str) else "".join(one.text for one in input)
        return len(text) // 4

    def max_connections(self) -> int:
        """Return a number that limits nothing: the run has its own limit."""
        return 4096


def _message(message: ChatMessage) -> ModelMessage:
    match message:
        case ChatMessageSystem():
            return ModelRequest(parts=[SystemPromptPart(message.text)])
        case ChatMessageAssistant():
            called = [ToolCallPart(one.function, one.arguments, one.id) for one in message.tool_calls or ()]
            return ModelResponse(parts=[*([TextPart(message.text)] if message.text else []), *called])
        case ChatMessageTool():
            text = message.error.message if message.error else message.text
            outcome = "failed" if message.error else "success"
            return ModelRequest(
                parts=[ToolReturnPart(message.function or "", text, message.tool_call_id or "", outcome=outcome)]
            )
        case _:
            content = message.content
            return ModelRequest(parts=[UserPromptPart(content if isinstance(content, str) else _parts(content))])


def _parts(content: Sequence[Content]) -> list[UserContent]:
    parts: list[UserContent] = []
    for one in content:
        match one:
            case ContentReasoning():
                continue
            case ContentText():
                parts.append(one.text)
            case ContentImage():
                inline = one.image.startswith("data:")
                parts.append(BinaryContent.from_data_uri(one.image) if inline else ImageUrl(one.image))
            case _:
                raise ToolError(f"a message has content of the type {one.type!r}, which is not sent")
    return parts


def _settings(config: GenerateConfig, choice: ToolChoice | None) -> ModelSettings:
    """Return what the task asks of the model, as far as every service knows it."""
    given: dict[str, Any] = {
        "max_tokens": config.max_tokens,
        "temperature": config.temperature,
        "top_p": config.top_p,
        "stop_sequences": config.stop_seqs,
    }
    if isinstance(choice, ToolFunction):
        given["tool_choice"] = [choice.name]
    elif choice == "any":
        given["tool_choice"] = "required"
    return ModelSettings(**{name: value for name, value in given.items() if value is not None})  # pyright: ignore[reportArgumentType]


def _output_of(response: ModelResponse) -> ModelOutput:
    """Return pydantic-ai's response as the output of inspect_ai."""
    called: list[ToolCall] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            call = ToolCall(part.tool_call_id, part.tool_name, {})
            try:
                call.arguments = part.args_as_dict(raise_if_invalid=True)
            except (ValueError, AssertionError, TypeError) as error:
                args = part.args if isinstance(part.args, str) else json.dumps(part.args)
                call.parse_error = f"the arguments {args} are no object: {error}"
            called.append(call)
    message = ChatMessageAssistant(content=reply_text(response), tool_calls=called or None, source="generate")
    stop = "tool_calls" if called else _STOPS.get(response.finish_reason, "stop")
    usage = response.usage
    return ModelOutput(
        model=response.model_name or "",
        choices=[ChatCompletionChoice(message=message, stop_reason=stop)],
        usage=ModelUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.input_tokens + usage.output_tokens,
        ),
    )


_JUDGE_CALLS = 64
"""Largest number of model calls of the scorers of one sample."""
_AT_ONCE = 4096
"""Largest number of samples that run at once: more than there are rollouts."""
_DISPLAY = "INSPECT_DISPLAY"
_OF_THE_TASK = (
    *("scorer", "config", "approval", "model_roles", "name"),
    *("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit"),
)
"""What of a task its rollouts keep."""


@dataclass
class _Job:
    """What is done with a sample while it is the one that runs."""

    calls: ModelCalls
    run: Callable[[TaskState, Generate], Awaitable[Any]]
    at_limit: Callable[[TaskState], Any]
    """What the result is when a limit of the task is reached."""
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    running: asyncio.Task[Any] | None = None


@dataclass
class _Eval(SampleSource):
    """An `eval` that runs, and the samples that it runs."""

    task: inspect_ai.Task
    name: str
    loop: asyncio.AbstractEventLoop
    users: int = 0
    jobs: dict[str, _Job] = field(default_factory=dict[str, _Job])
    context: Context | None = None
    """The context of its first sample, from which more can be added."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    idle: bool = False
    """Whether no sample runs. Then samples wait in `brought`, for a running eval alone can be given more."""
    brought: list[Sample] = field(default_factory=list[Sample])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is one in `brought`, or when the eval is to end."""
    running: asyncio.Task[Any] | None = None

    def initial_samples(self) -> list[Sample]:
        """One sample that does nothing but open the rest."""
        return [Sample(id="first", input="")]

    async def next_samples(self) -> list[Sample] | None:
        """The samples that rollouts bring while none runs; None at the end."""
        self.idle = True
        await self.arrived.wait()
        self.idle = False
        self.arrived.clear()
        brought, self.brought = self.brought, []
        return brought or None

    async def solve(self, state: TaskState, generate: Generate) -> TaskState:
        """Do the job of the sample. Only a limit of the task, or the end of the eval, raises."""
        job = self.jobs.get(str(state.sample_id))
        if job is None:
            self.context = copy_context()
            self.opened.set()
            return state
        _ASKED.set(job.calls)
        job.running = asyncio.ensure_future(job.run(state, generate))
        try:
            await asyncio.wait({job.running})
        except asyncio.CancelledError:  # a limit on time, or the end of the eval
            job.running.cancel()
            await asyncio.wait({job.running})
            if not job.result.done():
                job.result.set_result(job.at_limit(state))
            raise
        if job.result.done():
            return state
        failed = None if job.running.cancelled() else job.running.exception()
        error = failed and root_cause(failed)
        if error is None and not job.running.cancelled():
            job.result.set_result(job.running.result())
        elif error is None or isinstance(error, LimitExceededError):
            job.result.set_result(job.at_limit(state))
        else:
            job.result.set_exception(error)
        return state

    async def done(self, sample: Sample, job: _Job) -> Any:
        """Return the result of a job with a sample."""
        assert self.context is not None
        name = uuid4().hex
        self.jobs[name] = job
        try:
            named = sample.model_copy(update={"id": name})
            if self.idle:
                self.brought.append(named)
                self.arrived.set()
            else:
                self.context.run(enqueue_sample, named)
            ended = asyncio.ensure_future(asyncio.shield(job.result))
            await asyncio.wait({ended, self.running} if self.running else {ended}, return_when="FIRST_COMPLETED")
            if not ended.done():
                ended.cancel()
                raise ToolError("inspect_ai's eval ended before the rollout; start again")
            return await ended
        finally:
            del self.jobs[name]
            if not job.result.done():
                job.result.cancel()
                if job.running is not None:
                    job.running.cancel()


_open: dict[str, _Eval] = {}
"""The eval that runs, by the name of its task: at most one."""


@asynccontextmanager
async def running_eval(name: str, task: inspect_ai.Task) -> AsyncGenerator[_Eval]:
    """Run an `eval` of the task, or join the one that runs. Raises ToolError when another task's runs."""
    held = _open.get(name)
    if held is None and _open:
        raise ToolError(f"inspect_ai runs one task at a time in a process, and {next(iter(_open))!r} runs")
    if held is not None and held.loop is not asyncio.get_running_loop():
        raise ToolError(f"inspect_ai runs {name!r} in another thread of this process; wait for its end")
    if held is None:
        held = _open[name] = _Eval(task, name, asyncio.get_running_loop())
        held.running = asyncio.create_task(_run(held))
    held.users += 1
    try:
        opening = asyncio.ensure_future(held.opened.wait())
        assert held.running is not None
        await asyncio.wait({opening, held.running}, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            opening.cancel()
            await held.running
        yield held
    finally:
        held.users -= 1
        if not held.users:
            _open.pop(name, None)
            held.arrived.set()
            assert held.running is not None
            await asyncio.wait({held.running})


async def _run(held: _Eval) -> None:
    """Run the eval to its end. What it changes for the whole process is changed back."""
    task = held.task

    @solver
    def rollouts() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            return await held.solve(state, generate)

        return solve

    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get(_DISPLAY)  # inspect_ai prints nothing, unless the program chose another display before
        os.environ[_DISPLAY] = "none"
        display_type()
        if before is None:
            del os.environ[_DISPLAY]
        else:
            os.environ[_DISPLAY] = before
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        running = asyncio.ensure_future(
            inspect_ai.eval_async(
                inspect_ai.Task(
                    dataset=held, solver=rollouts(), **{name: getattr(task, name) for name in _OF_THE_TASK}
                ),
                get_model("agentlearn/rollout"),  # the model of the rollout that runs
                log_dir=folder,
                log_samples=False,
                log_realtime=False,
                max_samples=_AT_ONCE,
                score=False,
                fail_on_error=False,
                acp_server=False,
                ctl_server=False,
            )
        )
        opening = asyncio.ensure_future(held.opened.wait())
        try:
            await asyncio.wait({running, opening}, return_when=asyncio.FIRST_COMPLETED)
            root.handlers[:], root.level = handlers, level
            (log,) = await running
        finally:
            opening.cancel()
            running.cancel()
        if not held.opened.is_set():
            raise ToolError(f"inspect_ai cannot run {held.name!r}: {log.error or log.status}")


async def solved(name: str, task: inspect_ai.Task, sample: Sample, calls: ModelCalls) -> TaskState:
    """Return the state after the task's solver. A limit of the task ends the solver, and what there is gets scored."""
    steps = [*([task.setup] if task.setup else []), task.solver]
    last: list[TaskState] = []

    async def run(state: TaskState, generate: Generate) -> TaskState:
        for step in steps:
            if not state.completed:
                state = await (step if isinstance(step, Plan) else chain(step))(state, generate)
                last[:] = [state]
        return state

    async with running_eval(name, task) as held:
        state = await held.done(sample, _Job(calls, run, lambda state: last[0] if last else state))
    if task.cleanup is not None:
        await task.cleanup(state)
    state.completed = True
    return state


async def scored(
    name: str, task: inspect_ai.Task, sample: Sample, state: TaskState, of: Task, judge: PydanticModel | None
) -> Mapping[str, Score | None]:
    """Return the scores of all scorers by name, in the task's order. judge: the model for scorers that ask one."""
    if judge is None:
        raise VerifierError("no model was given for scorers that ask one")
    work = Work(task=of, lessons="", model=judge, deps=None, seed=0, settings=ModelSettings(), max_turns=_JUDGE_CALLS)
    calls = ModelCalls(work)
    scores: dict[str, Score | None] = {}

    async def score(_of_sample: TaskState, _generate: Generate) -> Mapping[str, Score | None]:
        async def in_store() -> None:
            for scorer in task.scorer or ():
                own = registry_info(scorer).name.rpartition("/")[2]
                same = sum(one.partition(" ")[0] == own for one in scores)
                scores[f"{own} {same + 1}" if same else own] = await scorer(state, Target(sample.target))

        await subtask("scorers", store=state.store)(in_store)()
        return scores

    async with running_eval(name, task) as held:
        return await calls.run(held.done(sample, _Job(calls, score, lambda _: scores)))
