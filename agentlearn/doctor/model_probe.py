"""Testing a model for what learning needs, with three small real calls; nothing is stored.

The first call is like one of a run, with a temperature, a seed and instructions. A model that refuses it is asked again
without what it refuses, and then in the same way in the other calls.

The calls ask for plain words, a tool call, and a stage's structured reply through the tool `submit`. They also show
whether tokens are reported, whether the price is known, and how long an answer takes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentlearn.config import BudgetOptions, CallOptions
from agentlearn.doctor.machine import SLOW_S
from agentlearn.domain.base import CheckResult
from agentlearn.errors import ConfigError, EndpointError, RolloutError
from agentlearn.learning.costs import known_price
from agentlearn.learning.lessons.stage_agent import STAGE_PROMPTS, StageReply, stage_agent
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord, WorkUnit
from agentlearn.models.call_settings import CallSettings
from agentlearn.models.endings import fault_remedy
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.models.outage import RetryPolicy
from agentlearn.models.refusal import SYSTEM
from agentlearn.sandbox.python_tool import TOOL
from agentlearn.types.ids import CallId, derive_seed, new_run_id

OPTIONS = {"temperature": "--temperature none", "seed": "--no-seed", SYSTEM: "--fold-system"}
"""Parts of a request that can be left out, and the option that does it."""
_ACCEPTED_WORDS = {"temperature": "a temperature", "seed": "a seed", SYSTEM: "instructions"}
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_422"})

T = TypeVar("T")
_AskWithout = Callable[[Collection[str]], Awaitable[T]]
"""Asks without these parts. Raises EndpointError."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What a model accepts."""

    left_out: frozenset[str]
    """Parts that it refuses, by their names in `OPTIONS`."""

    def result(self, model: str, never_sent: Collection[str] = ()) -> CheckResult:
        """Return the line of the report, with the options to use. never_sent: what the client leaves out."""
        refused = [name for name in OPTIONS if name in self.left_out and name not in never_sent]
        sent = [
            words for name, words in _ACCEPTED_WORDS.items() if name not in self.left_out and name not in never_sent
        ]
        unsent = [words for name, words in _ACCEPTED_WORDS.items() if name in never_sent]
        parts = [
            f"accepts {_listed(sent)}" if sent and not refused else "",
            f"refuses the {_listed(refused, 'the ')}" if refused else "",
            f"its client sends no {_listed([one.removeprefix('a ') for one in unsent])}" if unsent else "",
        ]
        words = "; ".join(filter(None, parts))
        if not refused:
            return CheckResult(what="parameters", state="ok", words=words)
        options = " ".join(OPTIONS[name] for name in refused)
        return CheckResult(what="parameters", state="note", words=words, mend=f"use --model '{model}' {options}")


def _listed(names: Sequence[str], article: str = "") -> str:
    *first, last = names
    return f"{', '.join(first)} and {article}{last}" if first else last


def _settings_without(parts: Collection[str]) -> CallSettings:
    """Return the settings of an endpoint whose requests have none of these parts."""
    return CallSettings(left_out=frozenset(parts) - {SYSTEM}, fold_system=SYSTEM in parts)


async def accepted(ask: _AskWithout[T]) -> tuple[Accepted, T]:
    """Find out what a model accepts. Return the answer to the request with everything that it accepts.

    A model that accepts everything is asked once. Raises EndpointError when it answers in no case.
    """
    left_out = frozenset[str]()
    while True:
        try:
            return Accepted(left_out), await ask(left_out)
        except EndpointError as error:
            named = frozenset(error.refused) & OPTIONS.keys() - left_out
            if named:
                left_out |= named
                continue
            if error.code not in _REQUEST_REFUSED or left_out == OPTIONS.keys():
                raise
            return await _one_by_one(ask)


async def _one_by_one(ask: _AskWithout[T]) -> tuple[Accepted, T]:
    """Ask without all parts, then with each alone: the service does not name what it refuses."""
    everything, refused = frozenset(OPTIONS), set[str]()
    answer = await ask(everything)
    for name in OPTIONS:
        try:
            answer = await ask(everything - {name})
        except EndpointError:
            refused.add(name)
    return Accepted(frozenset(refused)), answer


CALLS, TOKENS_IN, TOKENS_OUT = 3, 1_500, 1_500
"""Calls and approximate tokens of one probe."""

_CALLS, _RETRY = CallOptions(concurrency=1, call_deadline_s=60, max_outage_minutes=0), RetryPolicy(attempts=2)
_LIMIT_S, _LIMIT_LOCAL_S = 60.0, 300.0
"""Seconds for all calls of a probe together: to a running service, and to a model that is served for the probe."""
_TEMPERATURE = 0.7
_INSTRUCTIONS = "Answer the question."
_WORDS = "Is 7 a prime number? Answer with one word."
_PROBLEM = "Find the number of integers from -101 to 126, inclusive, that are divisible by 6 or by 8."
_TOOL_QUESTION = f"{_PROBLEM} Use the tool {TOOL} to compute it."
_CODE_TOOL = ToolDefinition(
    name=TOOL,
    description="Run a Python program and return what it printed.",
    parameters_json_schema={
        "type": "object",
        "properties": {"code": {"type": "string", "description": "A complete program that prints its result."}},
        "required": ["code"],
    },
)
_STAGE_QUESTION = (
    f"<problem>\n{_PROBLEM}\n</problem>\n<verdict>wrong (reward 0.00)</verdict>\n<gold>\n56\n</gold>\n<trajectory>\n"
    "step 1 · model\nI count the multiples of 6 and of 8 from 1 to 126 only.\n"
    f"step 2 · tool {TOOL} · ok\n31\nstep 3 · model\nThe answer is \\boxed{{31}}.\n</trajectory>"
)
_SERVE_TOOLS = "serve it so that it calls tools (vLLM: --enable-auto-tool-choice --tool-call-parser NAME)"
_FIXES = {
    "endpoint_401": "set the key of the service (AGENTLEARN_API_KEY for an http endpoint)",
    "endpoint_403": "set a key that may use this model",
    "endpoint_404": "correct the address or the model's name after '#'",
    "endpoint_402": "add credit to the account of the key",
    "endpoint_quota": "add credit to the account of the key",
    "endpoint_429": "wait, or ask the service for a larger quota",
    "endpoint_timeout": "start the service, or give it a smaller model",
}


class MemoryJournal:
    """A journal that keeps nothing, for calls that are never resumed."""

    async def record(self, record: CallRecord) -> None:
        """Keep nothing: the work unit has its own list of calls."""

    def began(self, unit: str) -> bool:
        """Return False: nothing was started before."""
        return False

    def recorded(self, identity: CallId) -> CallRecord | None:
        """Return None: nothing was recorded before."""
        return None


@dataclass(frozen=True, slots=True)
class _Probe:
    """An endpoint and the work unit that calls it."""

    endpoint: Endpoint
    unit: WorkUnit

    def without(self, parts: Collection[str]) -> "_Probe":
        """Return a probe whose requests have none of these parts."""
        return replace(self, endpoint=replace(self.endpoint, call_settings=_settings_without(parts)))

    async def asked(self, question: str, *tools: ToolDefinition) -> ModelResponse:
        """Make one request without an agent and return the response."""
        return await model_request(
            self.endpoint.client(self.unit),
            [ModelRequest.user_text_prompt(question, instructions=_INSTRUCTIONS)],
            model_settings=ModelSettings(temperature=_TEMPERATURE),
            model_request_parameters=ModelRequestParameters(function_tools=list(tools)),
        )


def probe_words(model: str) -> str:
    """Return a line on the calls, tokens and cost of a probe of that model."""
    price = known_price(model)
    cost = "an unknown price"
    if price is not None:
        cost = f"about ${(TOKENS_IN * price[0] + TOKENS_OUT * price[1]) / 1e6:.4f}"
    return f"{model}: {CALLS} calls, about {TOKENS_IN:,} tokens in and {TOKENS_OUT:,} out, {cost}"


async def probe(
    model: str,
    options: CallOptions = _CALLS,
    retry: RetryPolicy = _RETRY,
    *,
    limit_s: float | None = None,
    waiting: Callable[[str], None] = lambda _: None,
) -> tuple[CheckResult, ...]:
    """Return the results in order. A model that cannot be reached gives one broken result.

    limit_s: seconds for all calls together; None: 60, or 300 for a model that is served from this machine. waiting:
    called with the name of a check that takes more than three seconds.
    """
    try:
        async with open_endpoint(model, options, retry=retry) as endpoint:
            call_context = CallContext(new_run_id(), MemoryJournal(), Budget(BudgetOptions()))
            unit = WorkUnit(call_context, "probe", "doctor", derive_seed("probe", model))
            most_s = limit_s or (_LIMIT_S if endpoint.service is None else _LIMIT_LOCAL_S)
            asking = _Asking(waiting)
            try:
                async with asyncio.timeout(most_s):
                    return await _results(_Probe(endpoint, unit), asking)
            except TimeoutError:
                return (*asking.found, _too_slow(asking.what, most_s, unit))
            finally:
                asking.stop()
    except ConfigError as error:
        return (CheckResult(what=f"model {model}", state="broken", words=error.message),)


@dataclass(slots=True)
class _Asking:
    """The check whose answer is waited for."""

    waiting: Callable[[str], None]
    """Called with its name when the answer takes long."""
    what: str = ""
    found: tuple[CheckResult, ...] = ()
    """The results before it."""
    timer: asyncio.TimerHandle | None = None

    def start(self, what: str) -> None:
        """Begin with another check."""
        self.stop()
        self.what = what
        self.timer = asyncio.get_running_loop().call_later(SLOW_S, self.waiting, what)

    def stop(self) -> None:
        """Wait for nothing."""
        if self.timer is not None:
            self.timer.cancel()


async def _results(one: _Probe, asking: _Asking) -> tuple[CheckResult, ...]:
    asking.start("plain answer")
    try:
        found, response = await accepted(lambda parts: one.without(parts).asked(_WORDS))
    except RolloutError as error:
        if (remedy := fault_remedy(error.code)) is not None:
            words = error.message.removesuffix(f"; {remedy}")
            return (CheckResult(what="plain answer", state="broken", words=words, mend=remedy),)
        mend = _FIXES.get(error.code, "check that the service runs and accepts chat completions")
        name = f"model {one.endpoint.name}"
        return (CheckResult(what=name, state="broken", words=error.message, mend=mend),)
    one = one.without(found.left_out)
    asking.found = (_plain(response), found.result(one.endpoint.name, one.endpoint.never_sent))
    asking.start("tool call")
    asking.found += (await _tool(one),)
    asking.start("structured output")
    asking.found += (await _structured(one),)
    return (*asking.found, *_measured(one))


def _too_slow(what: str, limit_s: float, unit: WorkUnit) -> CheckResult:
    """Return the result of a probe that ran out of time."""
    answered = f"{len(unit.calls)} of {CALLS} calls were answered before"
    return CheckResult(
        what=what,
        state="broken",
        words=f"no answer within the {limit_s:g} s that all calls of this check may take together; {answered}",
        mend="try again when the service has less to do, or serve a smaller model",
    )


def _plain(response: ModelResponse) -> CheckResult:
    if any(isinstance(part, TextPart) and part.content.strip() for part in response.parts):
        return CheckResult(what="plain answer", state="ok", words="answers in words")
    return CheckResult(
        what="plain answer",
        state="broken",
        words="the answer has no words",
        mend="use a model tuned for chat, with room for its answer (a larger limit of output tokens)",
    )


async def _tool(one: _Probe) -> CheckResult:
    what, needed = "tool call", "domains with tools, such as math, need it; custom tasks with --tools none do not"
    try:
        response = await one.asked(_TOOL_QUESTION, _CODE_TOOL)
    except RolloutError as error:
        return CheckResult(what=what, state="missing", words=f"refused: {error.message}; {needed}", mend=_SERVE_TOOLS)
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    if not calls:
        return CheckResult(what=what, state="missing", words=f"answered in words instead; {needed}", mend=_SERVE_TOOLS)
    try:
        fits = calls[0].tool_name == TOOL and isinstance(calls[0].args_as_dict().get("code"), str)
    except ValueError:
        fits = False
    if not fits:
        words = f"called {calls[0].tool_name!r} with unusable arguments; {needed}"
        return CheckResult(what=what, state="missing", words=words, mend="use a model that was trained to call tools")
    return CheckResult(what=what, state="ok", words=f"calls {TOOL} with a program")


async def _structured(one: _Probe) -> CheckResult:
    what = "structured output"
    stage = stage_agent(STAGE_PROMPTS.summarise.load().text, "steps")
    try:
        reply = await stage.ask(_STAGE_QUESTION, one.endpoint, one.unit)
    except RolloutError as error:
        words = f"refused: {error.message}; the stages of learning need it"
        return CheckResult(what=what, state="missing", words=words, mend=f"{_SERVE_TOOLS}, or name another --reflector")
    if not reply.salvaged.items:
        faults = ", ".join(reply.salvaged.faults) or "no steps"
        words = f"the reply has no usable form ({faults}); learning loses such replies"
        return CheckResult(what=what, state="missing", words=words, mend="name a stronger model as --reflector")
    if not _submitted(reply):
        words = "writes JSON as text, which works; the tool submit would be more reliable"
        return CheckResult(what=what, state="note", words=words, mend=_SERVE_TOOLS)
    if reply.salvaged.faults:
        words = f"uses the tool submit; not quite in the expected form, but usable ({', '.join(reply.salvaged.faults)})"
        return CheckResult(what=what, state="note", words=words)
    return CheckResult(what=what, state="ok", words="uses the tool submit")


def _submitted(reply: StageReply) -> bool:
    """Whether the reply came as a tool call."""
    responses = [message for message in reply.messages if isinstance(message, ModelResponse)]
    return any(isinstance(part, ToolCallPart) for response in responses for part in response.parts)


def _measured(one: _Probe) -> Iterator[CheckResult]:
    """Yield results on usage, price and latency of the answered calls."""
    calls, simulated = one.unit.calls, one.endpoint.simulated
    tokens_in, tokens_out = sum(call.tokens_in for call in calls), sum(call.tokens_out for call in calls)
    if not one.endpoint.endpoint_state.without_usage:
        words = f"{tokens_in:,} tokens in and {tokens_out:,} out were reported for {len(calls)} calls"
        yield CheckResult(what="usage", state="ok", words=words)
    else:
        words = "tokens are not reported for every call, so they are estimated from the length of the texts"
        yield CheckResult(what="usage", state="missing", words=words, mend="keep a margin below a limit on tokens")
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    if simulated:
        yield CheckResult(what="price", state="ok", words="free: the model is simulated")
    elif len(costs) == len(calls):
        yield CheckResult(what="price", state="ok", words=f"known: these {len(calls)} calls cost ${sum(costs):.4f}")
    else:
        words = "unknown: costs are shown as unknown, and --max-cost-usd is refused"
        yield CheckResult(what="price", state="note", words=words, mend="limit runs with --max-tokens or --max-minutes")
    seconds = [call.seconds for call in calls]
    yield CheckResult(
        what="latency",
        state="ok",
        words=f"{median(seconds):.2f} s per call (median of {len(seconds)}, the longest {max(seconds):.2f} s)",
    )
