"""A budget holds calls back before it is passed, lets all go on that fit, and never waits for nothing."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.usage import RequestUsage

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.models.budget import Budget
from agentlearn.models.service_record import service_notes, service_records
from agentlearn.models.token_estimate import (
    FIRST_OUTPUT,
    TokenEstimates,
    request_bytes,
)
from agentlearn.types.trajectory import Usage
from tests.support.served import Served, lognormal

NONE = ModelRequestParameters()


def test_what_is_served_stays_near_the_limit(subtests: pytest.Subtests) -> None:
    for seed in range(5):
        for turns, reported in [(1, True), (4, True), (1, False), (4, False)]:
            with subtests.test(repr((seed, turns, reported))):
                served = Served(BudgetOptions(max_tokens=20_000), seed=seed, sizes=lognormal(1.0), reported=reported)
                with pytest.raises(BudgetExceeded) as caught:
                    asyncio.run(served.run(200, turns))
                assert 0.6 * 20_000 < served.tokens <= (1.05 if reported else 1.15) * 20_000
                about = "" if reported else "about "
                assert f"the run has used {about}{served.call_context.budget.tokens:,} tokens" in caught.value.message


def test_a_service_that_refuses_a_limit_on_its_output_gets_none() -> None:
    served = Served(BudgetOptions(max_tokens=20_000), seed=1, sizes=lognormal(0.5), refuses_above=0)
    with pytest.raises(BudgetExceeded):
        asyncio.run(served.run(400, 1))
    assert 0.85 * 20_000 < served.tokens <= 1.15 * 20_000
    assert not served.state.failures
    (note,) = service_notes(service_records([served.state]))
    assert "refused a limit on the output of" in note


@settings(max_examples=25, deadline=None)
@given(
    limit=st.integers(1, 60_000), seed=st.integers(0, 9), turns=st.integers(1, 4), calls=st.integers(1, 40),
    spread=st.floats(0, 2), reported=st.booleans(),
)  # fmt: skip
def test_a_run_ends_or_stops_and_never_hangs(
    limit: int, seed: int, turns: int, calls: int, spread: float, *, reported: bool
) -> None:
    served = Served(BudgetOptions(max_tokens=limit), seed=seed, sizes=lognormal(spread), reported=reported)
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

    served = Served(BudgetOptions(max_cost_usd=0.05), seed=seed, sizes=lognormal(1.0))
    served.state.free = False
    monkeypatch.setattr("agentlearn.models.call.cost_usd", price)
    monkeypatch.setattr("agentlearn.models.call.price_of", prices)
    with pytest.raises(BudgetExceeded, match=r"the run has spent \$0\.0\d+ of --max-cost-usd 0\.05"):
        asyncio.run(served.run(300, 1))
    assert 0.6 * 0.05 < served.call_context.budget.cost_usd <= 1.05 * 0.05


def test_the_expectation_follows_what_is_observed_and_never_passes_the_output_limit() -> None:
    estimates = TokenEstimates()
    messages: list[ModelMessage] = [ModelRequest.user_text_prompt("word " * 100)]
    first = estimates.expected("rollout", messages, NONE)
    assert (first.tokens_out, first.tokens_out_usual) == (FIRST_OUTPUT, 0)
    assert 100 <= first.tokens_in <= 160
    assert estimates.expected("rollout", messages, NONE, 50).tokens_out == 50
    for number in range(300):
        usage = Usage(requests=1, tokens_in=250, tokens_out=100 + number % 10)
        estimates.learn("rollout", request_bytes(messages, NONE), usage, reported=True)
    later = estimates.expected("rollout", messages, NONE)
    assert later.tokens_in == 250
    assert 109 <= later.tokens_out <= 250
    assert later.tokens_out_usual == 105
    assert estimates.expected("compare", messages, NONE).tokens_out == 109, "another stage is the best guess"
    said = ModelResponse(parts=[TextPart("x")], usage=RequestUsage(input_tokens=900, output_tokens=70))
    talk = [*messages, said, ModelRequest.user_text_prompt("go on")]
    assert 970 < estimates.expected("rollout", talk, NONE).tokens_in < 1000


def test_what_is_released_is_what_was_reserved() -> None:
    budget = Budget(BudgetOptions(max_tokens=10_000))
    call = TokenEstimates().expected("rollout", [ModelRequest.user_text_prompt("hello")], NONE)
    first, second = budget.reserve(call, 2), budget.reserve(call, 2)
    assert first is not None
    assert second is not None
    assert budget.reserve(call) is None, "it waits"
    budget.release(first)
    third = budget.reserve(call)
    assert third is not None
    budget.release(third)
    budget.release(second)
    assert budget.reserved_tokens == 0
