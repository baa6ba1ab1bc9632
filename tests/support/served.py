"""A simulated service with replies of given sizes that counts what it serves, and conversations with it."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from agentlearn.config import BudgetOptions
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, CallRecord, WorkUnit
from agentlearn.models.client import ModelClient
from agentlearn.models.endpoint_state import EndpointState, Limiter
from agentlearn.models.token_estimate import request_bytes
from agentlearn.types.ids import CallId
from tests.support.stages import RUN, ListJournal

Sizes = Callable[[Random], int]
"""Draws the output tokens of a reply."""
PLAIN = ModelRequestParameters()
SCHEMA = {"type": "object", "properties": {"code": {"type": "string", "description": "code"}}, "required": ["code"]}
_TOOLS = [ToolDefinition(name=name, description="runs it " * 20, parameters_json_schema=SCHEMA) for name in "abcd"]
WITH_TOOLS = ModelRequestParameters(function_tools=_TOOLS)


def lognormal(spread: float) -> Sizes:
    """Return sizes around 55 tokens."""
    return lambda random: int(min(4000, random.lognormvariate(4.0, spread)))


def pareto(alpha: float) -> Sizes:
    """Return sizes of at least 50 tokens with a heavy tail."""
    return lambda random: int(min(100_000, 50 * random.paretovariate(alpha)))


class Unreported(FunctionModel):
    """A function model whose replies have no usage; the plain one estimates it."""

    async def request(self, *arguments: Any, **named: Any) -> ModelResponse:
        return replace(await super().request(*arguments, **named), usage=RequestUsage())


class PastJournal(ListJournal):
    """A journal in memory with the records of an interrupted run."""

    def __init__(self, past: Sequence[CallRecord]) -> None:
        super().__init__()
        self.past = {one.id: one for one in past}

    async def recorded(self, identity: CallId) -> CallRecord | None:
        """Return the record of the interrupted run."""
        return self.past.get(identity)


class Served:
    """A service, and the run that uses it. Replies end at the limit of a request on its output."""

    def __init__(
        self,
        limits: BudgetOptions,
        *,
        seed: int,
        sizes: Sizes,
        reported: bool = True,
        tools: bool = False,
        refuses_above: int | None = None,
        past: Sequence[CallRecord] = (),
    ) -> None:
        """refuses_above: requests with a larger limit on the output are refused, and no reply is longer."""
        self.random, self.sizes, self.reported, self.tools = Random(seed), sizes, reported, tools
        self.refuses_above = refuses_above
        self.tokens = self.cut_off = self.in_flight = self.most_in_flight = 0
        self.limits: set[int | None] = set()
        """The limits on the output that requests had."""
        self.parameters = WITH_TOOLS if tools else PLAIN
        self.state = EndpointState(Limiter(64), deadline_s=30.0, free=True)
        self.journal = PastJournal(past)
        self.call_context = CallContext(RUN, self.journal, Budget(limits))

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Serve one reply."""
        limit = (info.model_settings or {}).get("max_tokens")
        self.limits.add(limit)
        if limit is not None and self.refuses_above is not None and limit > self.refuses_above:
            raise ModelHTTPError(400, "m", {"error": {"message": f"the output is too large: {limit}"}})
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.random.uniform(0, 0.003))
        self.in_flight -= 1
        wanted = self.sizes(self.random)
        if self.refuses_above:
            wanted = min(wanted, self.refuses_above)
        tokens_out = wanted if limit is None else min(wanted, limit)
        at_limit = wanted == tokens_out == limit or tokens_out < wanted
        self.cut_off += at_limit
        tokens_in = request_bytes(messages, self.parameters) // 4
        self.tokens += tokens_in + tokens_out
        usage = RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out)
        text = "abc " * tokens_out
        said = ToolCallPart("a", json.dumps({"code": text})) if self.tools else TextPart(text)
        return ModelResponse(parts=[said], usage=usage, finish_reason="length" if at_limit else "stop")

    async def talk(self, name: str, turns: int) -> None:
        """One conversation, each turn with all that was said before."""
        unit = WorkUnit(self.call_context, "rollout", name, 7)
        model = FunctionModel(self.answer) if self.reported else Unreported(self.answer)
        client = ModelClient(model, self.state, unit)
        messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(f"{name} " * 20)])]
        for _ in range(turns):
            reply = await client.request(messages, None, self.parameters)
            messages += [reply, ModelRequest(parts=[await self._next(reply)])]

    async def _next(self, reply: ModelResponse) -> ModelRequestPart:
        said = reply.parts[0]
        if not isinstance(said, ToolCallPart):
            return UserPromptPart("go on " * 20)
        await asyncio.sleep(self.random.uniform(0, 0.01))
        return ToolReturnPart(said.tool_name, "1234 " * self.random.randrange(10, 200), tool_call_id=said.tool_call_id)

    async def run(self, conversations: int, turns: int) -> None:
        """Hold all conversations at once. Raises BudgetExceeded at a limit."""

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(conversations):
                    group.create_task(self.talk(f"u{number}", turns))

        async with asyncio.timeout(60):
            await self.call_context.until_stopped(work())
