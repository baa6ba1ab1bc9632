"""A budget holds calls back before it is passed, lets all go on that fit, and never waits for nothing."""

import asyncio
import contextlib
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.calls import usage as usage_module
from agentlearn.models.client import ModelClient
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.limiter import Limiter
from agentlearn.models.token_estimate import FIRST_OUTPUT, TokenEstimates, request_bytes
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.trajectory import Usage
from tests.support.stages import RUN, ListJournal

NONE = ModelRequestParameters()


class Unreported(FunctionModel):
    """A function model whose replies have no usage; the plain one estimates it."""

    async def request(self, *arguments: Any, **named: Any) -> ModelResponse:
        return replace(await super().request(*arguments, **named), usage=RequestUsage())


class Served:
    """A service with replies of given sizes that counts what it serves."""

    def __init__(self, limits: BudgetOptions, *, seed: int, spread: float, reported: bool = True) -> None:
        self.random, self.spread, self.reported, self.tokens = Random(seed), spread, reported, 0
        self.in_flight = self.most_in_flight = 0
        self.state = EndpointState(Limiter(64), deadline_s=30.0, free=True)
        self.call_context = CallContext(RUN, ListJournal(), Budget(limits))

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.random.uniform(0, 0.003))
        self.in_flight -= 1
        tokens_out = int(min(4000, self.random.lognormvariate(4.0, self.spread)))
        tokens_in = request_bytes(messages, NONE) // 4
        self.tokens += tokens_in + tokens_out
        usage = RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out)
        return ModelResponse(parts=[TextPart("abc " * tokens_out)], usage=usage)

    async def talk(self, name: str, turns: int) -> None:
        """One conversation, each turn with all that was said before."""
        unit = WorkUnit(self.call_context, "rollout", name, 7)
        model = FunctionModel(self.answer) if self.reported else Unreported(self.answer)
        client = ModelClient(model, self.state, unit)
        messages: list[ModelMessage] = []
        for turn in range(turns):
            messages.append(ModelRequest(parts=[UserPromptPart(f"{name} {turn} " * 20)]))
            messages.append(await client.request(messages, None, NONE))

    async def run(self, conversations: int, turns: int) -> None:
        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(conversations):
                    group.create_task(self.talk(f"u{number}", turns))

        async with asyncio.timeout(60):
            await self.call_context.until_stopped(work())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("turns", "reported"), [(1, True), (4, True), (1, False), (4, False)])
def test_what_is_served_stays_near_the_limit(seed: int, turns: int, *, reported: bool) -> None:
    served = Served(BudgetOptions(max_tokens=20_000), seed=seed, spread=1.0, reported=reported)
    with pytest.raises(BudgetExceeded) as caught:
        asyncio.run(served.run(200, turns))
    assert 0.6 * 20_000 < served.tokens <= (1.05 if reported else 1.15) * 20_000
    about = "" if reported else "about "
    assert f"the run has used {about}{served.call_context.budget.tokens:,} tokens" in caught.value.message


def test_with_a_large_limit_all_calls_are_in_flight() -> None:
    served = Served(BudgetOptions(max_tokens=50_000_000), seed=1, spread=1.0)
    asyncio.run(served.run(200, 2))
    assert served.most_in_flight == 64


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 60_000), seed=st.integers(0, 9), turns=st.integers(1, 4), calls=st.integers(1, 40),
    spread=st.floats(0, 2), reported=st.booleans(),
)  # fmt: skip
def test_a_run_ends_or_stops_and_never_hangs(
    limit: int, seed: int, turns: int, calls: int, spread: float, *, reported: bool
) -> None:
    served = Served(BudgetOptions(max_tokens=limit), seed=seed, spread=spread, reported=reported)
    with contextlib.suppress(BudgetExceeded):
        asyncio.run(served.run(calls, turns))
    budget = served.call_context.budget
    assert (budget.reserved_tokens, budget.reserved_usd) == (0, 0.0)
    assert served.call_context.in_flight == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("listed", [True, False])
def test_a_limit_in_dollars_holds_with_64_calls_in_flight(
    seed: int, monkeypatch: pytest.MonkeyPatch, *, listed: bool
) -> None:
    """listed: whether the price of the model is known before its first reply."""

    def price(response: ModelResponse) -> float:
        return response.usage.input_tokens * 1e-6 + response.usage.output_tokens * 4e-6

    def prices(*model: str | None) -> tuple[float, float] | None:
        return (1.0, 4.0) if listed else None

    served = Served(BudgetOptions(max_cost_usd=0.05), seed=seed, spread=1.0)
    served.state.free = False
    monkeypatch.setattr("agentlearn.models.calls.answers.cost_usd", price)
    monkeypatch.setattr(usage_module, "price_of", prices)
    with pytest.raises(BudgetExceeded, match=r"the run has spent \$0\.0\d+ of --max-cost-usd 0\.05"):
        asyncio.run(served.run(300, 1))
    assert 0.6 * 0.05 < served.call_context.budget.cost_usd <= 1.05 * 0.05


def test_a_service_that_waits_for_all_calls_is_never_held_back() -> None:
    """Local weights are sampled in rounds: no reply comes before all calls of a round have arrived."""
    served = Served(BudgetOptions(max_tokens=3_000), seed=1, spread=0.1)
    served.state.limiter = Limiter(16, adaptive=False)
    arrived = asyncio.Barrier(16)
    plain = served.answer

    async def together(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await arrived.wait()
        return await plain(messages, info)

    served.answer = together  # type: ignore[method-assign]
    with pytest.raises(BudgetExceeded):
        asyncio.run(served.run(16, 30))


def test_the_expectation_follows_what_is_observed_and_never_passes_the_output_limit() -> None:
    estimates = TokenEstimates()
    messages: list[ModelMessage] = [ModelRequest.user_text_prompt("word " * 100)]
    first = estimates.expected("rollout", messages, NONE)
    assert (first.tokens_out, first.tokens_out_known) == (FIRST_OUTPUT, 0)
    assert 100 <= first.tokens_in <= 160
    assert estimates.expected("rollout", messages, NONE, 50).tokens_out == 50
    for number in range(300):
        usage = Usage(requests=1, tokens_in=250, tokens_out=100 + number % 10)
        estimates.learn("rollout", request_bytes(messages, NONE), usage, reported=True)
    later = estimates.expected("rollout", messages, NONE)
    assert later.tokens_in == 250
    assert 109 <= later.tokens_out <= 250
    assert later.tokens_out_known == 109
    assert estimates.expected("compare", messages, NONE).tokens_out == 109, "another stage is the best guess"
    said = ModelResponse(parts=[TextPart("x")], usage=RequestUsage(input_tokens=900, output_tokens=70))
    talk = [*messages, said, ModelRequest.user_text_prompt("go on")]
    assert 970 < estimates.expected("rollout", talk, NONE).tokens_in < 1000


def test_what_is_released_is_what_was_reserved() -> None:
    budget = Budget(BudgetOptions(max_tokens=10_000))
    call = TokenEstimates().expected("rollout", [ModelRequest.user_text_prompt("hello")], NONE)
    assert budget.reserve(call)
    assert budget.reserve(call)
    assert not budget.reserve(call), "it waits"
    budget.release(call)
    assert budget.reserve(call)
    budget.release(call)
    budget.release(call)
    assert budget.reserved_tokens == 0
