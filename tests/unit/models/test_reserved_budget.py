"""A budget holds calls back before it is passed, lets all go on that fit, and never waits for nothing."""

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.usage import RequestUsage

from agentlearn.config import BudgetOptions
from agentlearn.errors import BudgetExceeded
from agentlearn.models.budget import Budget
from agentlearn.models.endings import is_at_limit
from agentlearn.models.endpoint_state import Limiter
from agentlearn.models.service_record import ServiceRecord, service_notes, service_records
from agentlearn.models.token_estimate import (
    BYTES_PER_TOKEN,
    FIRST_OUTPUT,
    Price,
    TokenEstimates,
    request_bytes,
    text_bytes,
)
from agentlearn.types.trajectory import Usage
from tests.support.served import WITH_TOOLS, Served, lognormal, pareto

NONE = ModelRequestParameters()


@pytest.mark.parametrize("seeds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_what_is_served_stays_near_the_limit(seeds: int, subtests: pytest.Subtests) -> None:
    for seed in range(seeds):
        for turns, reported in [(1, True), (4, True), (1, False), (4, False)]:
            with subtests.test(repr((seed, turns, reported))):
                served = Served(BudgetOptions(max_tokens=20_000), seed=seed, sizes=lognormal(1.0), reported=reported)
                with pytest.raises(BudgetExceeded) as caught:
                    asyncio.run(served.run(200, turns))
                assert 0.6 * 20_000 < served.tokens <= (1.05 if reported else 1.15) * 20_000
                about = "" if reported else "about "
                assert f"the run has used {about}{served.call_context.budget.tokens:,} tokens" in caught.value.message


@pytest.mark.parametrize("seeds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_limit_holds_for_replies_of_any_size(seeds: int, subtests: pytest.Subtests) -> None:
    """A reply is sometimes a hundred times larger than usual. What the limit cuts off is never a result."""
    for seed in range(seeds):
        for turns in [1, 4]:
            for tools in [True, False]:
                with subtests.test(repr((seed, turns, tools))):
                    served = Served(BudgetOptions(max_tokens=20_000), seed=seed, sizes=pareto(1.1), tools=tools)
                    with pytest.raises(BudgetExceeded):
                        asyncio.run(served.run(300, turns))
                    assert 0.85 * 20_000 < served.tokens <= 1.05 * 20_000
                    assert served.tokens == served.call_context.budget.tokens
                    assert served.tokens == sum(one.tokens_in + one.tokens_out for one in served.journal.records), (
                        "all is recorded"
                    )
                    assert served.cut_off == sum(not one.ok for one in served.journal.records)
                    assert not served.state.cut_off


def test_a_service_that_refuses_a_limit_on_its_output_gets_none() -> None:
    served = Served(BudgetOptions(max_tokens=20_000), seed=1, sizes=lognormal(0.5), refuses_above=0)
    with pytest.raises(BudgetExceeded):
        asyncio.run(served.run(400, 1))
    assert 0.85 * 20_000 < served.tokens <= 1.15 * 20_000
    assert not served.state.failures
    (note,) = service_notes(service_records([served.state]))
    assert "refused a limit on the output of" in note


@pytest.mark.parametrize(
    ("stage", "option"),
    [
        ("rollout", "max"),
        ("judge", "max"),
        ("summarise", "reflector"),
        ("compare", "reflector"),
        ("consolidate", "reflector"),
    ],
)
def test_a_note_on_cut_off_replies_names_the_option_of_their_stage(stage: str, option: str) -> None:
    (note,) = service_notes([ServiceRecord(name="any", cut_off={stage: 1}, by_stage={stage: 4})])
    assert note.startswith("1 of 4 replies")
    assert note.endswith(f"were cut off at the output limit; raise --{option}-output-tokens")


@pytest.mark.parametrize("most", [200, 1000, 16_384])
def test_a_limit_above_the_largest_of_the_service_is_found_out(most: int) -> None:
    served = Served(BudgetOptions(max_tokens=60_000), seed=1, sizes=pareto(1.1), refuses_above=most)
    with pytest.raises(BudgetExceeded):
        asyncio.run(served.run(300, 2))
    assert 0.85 * 60_000 < served.tokens <= 1.05 * 60_000
    assert served.state.refused_outputs < 128


def test_far_from_the_limit_nothing_is_added_to_a_request() -> None:
    served = Served(BudgetOptions(max_tokens=50_000_000), seed=1, sizes=pareto(1.1))
    asyncio.run(served.run(200, 2))
    assert served.limits == {None}


def test_a_reply_that_was_cut_off_is_not_replayed() -> None:
    served = Served(BudgetOptions(max_tokens=3_000), seed=2, sizes=lambda random: 5_000)
    with pytest.raises(BudgetExceeded, match=r"has used 3,0?\d\d tokens|has used 2,9\d\d tokens"):
        asyncio.run(served.run(4, 1))
    assert served.cut_off >= 1
    again = Served(BudgetOptions(), seed=2, sizes=lambda random: 5_000, past=served.journal.records)
    asyncio.run(again.run(4, 1))
    assert again.state.replayed.total() == 0
    assert not again.state.cut_off


@pytest.mark.parametrize(
    ("finish", "tokens", "cut"),
    [("length", 100, True), ("length", 97, True), ("length", 40, False), ("length", 0, True), ("stop", 100, True),
     ("stop", 99, False), ("tool_call", 130, False)],
)  # fmt: skip
def test_a_reply_counts_as_cut_off_where_it_ended_at_the_limit(finish: Any, tokens: int, *, cut: bool) -> None:
    usage = RequestUsage(input_tokens=1, output_tokens=tokens)
    assert is_at_limit(ModelResponse(parts=[TextPart("x")], usage=usage, finish_reason=finish), 100) is cut


def test_with_a_large_limit_all_calls_are_in_flight() -> None:
    served = Served(BudgetOptions(max_tokens=50_000_000), seed=1, sizes=lognormal(1.0))
    asyncio.run(served.run(200, 2))
    assert served.most_in_flight == 64


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

    def prices(*model: str | None) -> Price | None:
        return Price(1.0, 4.0, 1.0) if listed else None

    served = Served(BudgetOptions(max_cost_usd=0.05), seed=seed, sizes=lognormal(1.0))
    served.state.free = False
    monkeypatch.setattr("agentlearn.models.call.cost_usd", price)
    monkeypatch.setattr("agentlearn.models.call.price_of", prices)
    with pytest.raises(BudgetExceeded, match=r"the run has spent \$0\.0\d+ of --max-cost-usd 0\.05"):
        asyncio.run(served.run(300, 1))
    assert 0.6 * 0.05 < served.call_context.budget.cost_usd <= 1.05 * 0.05


@pytest.mark.slow
def test_a_service_that_waits_for_all_calls_is_never_held_back() -> None:
    """Local weights are sampled in rounds: no reply comes before all calls of a round have arrived."""
    served = Served(BudgetOptions(max_tokens=3_000), seed=1, sizes=lognormal(0.1))
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


def test_tools_their_calls_and_their_results_count_as_a_chat_template_writes_them() -> None:
    """Counted by hand for a template that introduces the tools and marks each call, result and message."""
    asked = ModelRequest.user_text_prompt("word " * 50)
    called = ModelResponse(parts=[ToolCallPart("python", json.dumps({"code": "print(1)"}), tool_call_id="c")])
    results = ModelRequest(parts=[ToolReturnPart("python", "word " * 10, tool_call_id="c") for _ in range(3)])
    plain, with_tools = ([asked], NONE), ([asked, called, results], WITH_TOOLS)
    assert 0.9 * 55 < request_bytes(*plain) / BYTES_PER_TOKEN < 1.15 * 55
    template = 100 + 4 * (15 + 40 + 30) + 55 + (5 + 15 + 9) + 3 * (5 + 7 + 10)
    assert 0.85 * template < request_bytes(*with_tools) / BYTES_PER_TOKEN < 1.2 * template


@pytest.mark.parametrize(
    ("text", "most", "least"),
    [("The library keeps what it has learned. " * 20, 5.2, 3.8), ('{"a": [1, 2], "b": {"c": 3.5}}' * 20, 2.6, 1.4),
     (r"\frac{x^2 + 1}{\sqrt{2}} = \sum_{i=1}^{n} a_i" * 20, 2.6, 1.4), ("我们从自己的经验中学习" * 20, 4.0, 2.6),
     ("def size(text):\n    return len(text.encode())\n" * 20, 4.2, 2.6)],
)  # fmt: skip
def test_marks_and_digits_take_more_tokens_than_words(text: str, most: float, least: float) -> None:
    assert least < len(text.encode()) / (text_bytes(text) / BYTES_PER_TOKEN) < most
