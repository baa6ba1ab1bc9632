"""Testing a model for what learning needs, with three small real calls; nothing is stored.

The first call is like one of a run, with a temperature, a seed and instructions. A model that refuses it is asked again
without what it refuses, and then in the same way in the other calls.

The calls ask for plain words, a tool call, and a stage's structured reply through the tool `submit`. They also show
whether tokens are reported, whether the price is known, and how long an answer takes.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentlearn.cli.machine import SLOW_S
from agentlearn.config import BudgetOptions, CallOptions
from agentlearn.domain.base import CheckResult
from agentlearn.errors import ConfigError, EndpointError, RolloutError
from agentlearn.learning.costs import known_price
from agentlearn.learning.lessons.stage_agent import STAGE_PROMPTS, StageAgent
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord, WorkUnit
from agentlearn.models.call_settings import CallSettings
from agentlearn.models.endings import fault_remedy
from agentlearn.models.endpoint import Endpoint, open_endpoint
from agentlearn.models.outage import RetryPolicy
from agentlearn.models.refusal import SYSTEM
from agentlearn.sandbox.python_tool import TOOL
from agentlearn.types.ids import CallId, derive_seed, new_run_id

_OPTIONS = {"temperature": "--temperature none", "seed": "--no-seed", SYSTEM: "--fold-system"}
"""Parts of a request that can be left out, and the option that does it."""
_ACCEPTED_WORDS = {"temperature": "a temperature", "seed": "a seed", SYSTEM: "instructions"}
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_422"})

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

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return None: nothing was recorded before."""
        return None


def probe_words(model: str) -> str:
    """Return a line on the calls, tokens and cost of a probe of that model."""
    price = known_price(model)
    cost = "an unknown price"
    if price is not None:
        cost = f"about ${price.usd(TOKENS_IN, TOKENS_OUT):.4f}"
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
            asking = _Probe(endpoint, unit, waiting)
            try:
                async with asyncio.timeout(most_s):
                    await asking.run()
            except TimeoutError:
                limit = f"no answer within the {most_s:g} s that all calls of this check may take together"
                words = f"{limit}; {len(unit.calls)} of {CALLS} calls were answered before"
                mend = "try again when the service has less to do, or serve a smaller model"
                asking.found.append(CheckResult(what=asking.what, state="broken", words=words, mend=mend))
            finally:
                asking.stop_timer()
            return tuple(asking.found)
    except ConfigError as error:
        return (CheckResult(what=f"model {model}", state="broken", words=error.message),)


@dataclass(slots=True)
class _Probe:
    """The checks of one model, and their results so far."""

    endpoint: Endpoint
    unit: WorkUnit
    waiting: Callable[[str], None]
    """Called with the name of a check when its answer takes long."""
    what: str = ""
    """The check whose answer is waited for."""
    found: list[CheckResult] = field(default_factory=list[CheckResult])
    timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Make all checks; the first that shows that the model cannot be used is the last."""
        self._start("plain answer")
        try:
            left_out, response = await self._accepted()
        except RolloutError as error:
            if (remedy := fault_remedy(error.code)) is not None:
                self._add("broken", error.message.removesuffix(f"; {remedy}"), remedy)
            else:
                mend = _FIXES.get(error.code, "check that the service runs and accepts chat completions")
                self._add("broken", error.message, mend, what=f"model {self.endpoint.name}")
            return
        if any(isinstance(part, TextPart) and part.content.strip() for part in response.parts):
            self._add("ok", "answers in words")
        else:
            mend = "use a model tuned for chat, with room for its answer (a larger limit of output tokens)"
            self._add("broken", "the answer has no words", mend)
        self.endpoint = self._without(left_out)
        self._add_parameters(left_out)
        self._start("tool call")
        await self._check_tool()
        self._start("structured output")
        await self._check_structured()
        self._add_measured()

    def stop_timer(self) -> None:
        """Wait for nothing."""
        if self.timer is not None:
            self.timer.cancel()

    def _start(self, what: str) -> None:
        self.stop_timer()
        self.what = what
        self.timer = asyncio.get_running_loop().call_later(SLOW_S, self.waiting, what)

    def _add(
        self, state: Literal["ok", "missing", "broken", "note"], words: str, mend: str = "", *, what: str = ""
    ) -> None:
        self.found.append(CheckResult(what=what or self.what, state=state, words=words, mend=mend))

    def _without(self, parts: Collection[str]) -> Endpoint:
        """The endpoint with requests that have none of these parts."""
        settings = CallSettings(left_out=frozenset(parts) - {SYSTEM}, fold_system=SYSTEM in parts)
        return replace(self.endpoint, call_settings=settings)

    async def _ask(self, question: str, *tools: ToolDefinition, without: Collection[str] = ()) -> ModelResponse:
        """Make one request without an agent and return the response."""
        endpoint = self._without(without) if without else self.endpoint
        return await model_request(
            endpoint.client(self.unit),
            [ModelRequest.user_text_prompt(question, instructions=_INSTRUCTIONS)],
            model_settings=ModelSettings(temperature=_TEMPERATURE),
            model_request_parameters=ModelRequestParameters(function_tools=list(tools)),
        )

    async def _accepted(self) -> tuple[frozenset[str], ModelResponse]:
        """The parts that the model refuses, and its answer to the request with everything that it accepts.

        A model that accepts everything is asked once. One that does not name what it refuses is asked without all
        parts, then with each alone. Raises EndpointError when it answers in no case.
        """
        everything, left_out = frozenset(_OPTIONS), frozenset[str]()
        while True:
            try:
                return left_out, await self._ask(_WORDS, without=left_out)
            except EndpointError as error:
                named = frozenset(error.refused) & everything - left_out
                left_out |= named
                if not named and (error.code not in _REQUEST_REFUSED or left_out == everything):
                    raise
                if not named:
                    break
        answer, refused = await self._ask(_WORDS, without=everything), set[str]()
        for name in _OPTIONS:
            try:
                answer = await self._ask(_WORDS, without=everything - {name})
            except EndpointError:
                refused.add(name)
        return frozenset(refused), answer

    def _add_parameters(self, left_out: Collection[str]) -> None:
        """Add what the model accepts, with the options to use."""

        def listed(names: Sequence[str], article: str = "") -> str:
            *first, last = names
            return f"{', '.join(first)} and {article}{last}" if first else last

        never_sent = self.endpoint.never_sent
        refused = [name for name in _OPTIONS if name in left_out and name not in never_sent]
        sent = [words for name, words in _ACCEPTED_WORDS.items() if name not in left_out and name not in never_sent]
        unsent = [words.removeprefix("a ") for name, words in _ACCEPTED_WORDS.items() if name in never_sent]
        parts = [
            f"accepts {listed(sent)}" if sent and not refused else "",
            f"refuses the {listed(refused, 'the ')}" if refused else "",
            f"its client sends no {listed(unsent)}" if unsent else "",
        ]
        options = " ".join(_OPTIONS[name] for name in refused)
        mend = f"use --model '{self.endpoint.name}' {options}" if refused else ""
        self._add("note" if refused else "ok", "; ".join(filter(None, parts)), mend, what="parameters")

    async def _check_tool(self) -> None:
        needed = "domains with tools, such as math, need it; custom tasks with --tools none do not"
        try:
            response = await self._ask(_TOOL_QUESTION, _CODE_TOOL)
        except RolloutError as error:
            self._add("missing", f"refused: {error.message}; {needed}", _SERVE_TOOLS)
            return
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not calls:
            self._add("missing", f"answered in words instead; {needed}", _SERVE_TOOLS)
            return
        try:
            fits = calls[0].tool_name == TOOL and isinstance(calls[0].args_as_dict().get("code"), str)
        except ValueError:
            fits = False
        if fits:
            self._add("ok", f"calls {TOOL} with a program")
        else:
            words = f"called {calls[0].tool_name!r} with unusable arguments; {needed}"
            self._add("missing", words, "use a model that was trained to call tools")

    async def _check_structured(self) -> None:
        stage = StageAgent(STAGE_PROMPTS.summarise.load().text, "steps")
        try:
            reply = await stage.ask(_STAGE_QUESTION, self.endpoint, self.unit)
        except RolloutError as error:
            words = f"refused: {error.message}; the stages of learning need it"
            self._add("missing", words, f"{_SERVE_TOOLS}, or name another --reflector")
            return
        faults = ", ".join(reply.salvaged.faults)
        responses = [message for message in reply.messages if isinstance(message, ModelResponse)]
        if not reply.salvaged.items:
            words = f"the reply has no usable form ({faults or 'no steps'}); learning loses such replies"
            self._add("missing", words, "name a stronger model as --reflector")
        elif not any(isinstance(part, ToolCallPart) for response in responses for part in response.parts):
            words = "writes JSON as text, which works; the tool submit would be more reliable"
            self._add("note", words, _SERVE_TOOLS)
        elif faults:
            self._add("note", f"uses the tool submit; not quite in the expected form, but usable ({faults})")
        else:
            self._add("ok", "uses the tool submit")

    def _add_measured(self) -> None:
        """Add usage, price and latency of the answered calls."""
        calls = self.unit.calls
        tokens_in, tokens_out = sum(call.tokens_in for call in calls), sum(call.tokens_out for call in calls)
        if not self.endpoint.endpoint_state.without_usage:
            words = f"{tokens_in:,} tokens in and {tokens_out:,} out were reported for {len(calls)} calls"
            self._add("ok", words, what="usage")
        else:
            words = "tokens are not reported for every call, so they are estimated from the length of the texts"
            self._add("missing", words, "keep a margin below a limit on tokens", what="usage")
        costs = [call.cost_usd for call in calls if call.cost_usd is not None]
        if self.endpoint.simulated:
            self._add("ok", "free: the model is simulated", what="price")
        elif len(costs) == len(calls):
            self._add("ok", f"known: these {len(calls)} calls cost ${sum(costs):.4f}", what="price")
        else:
            words = "unknown: costs are shown as unknown, and --max-cost-usd is refused"
            self._add("note", words, "limit runs with --max-tokens or --max-minutes", what="price")
        seconds = [call.seconds for call in calls]
        middle = f"{median(seconds):.2f} s per call"
        self._add("ok", f"{middle} (median of {len(seconds)}, the longest {max(seconds):.2f} s)", what="latency")
