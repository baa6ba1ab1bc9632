"""Prices: whose they are, which costs of a service are believed, and what has none."""

from typing import Any

import pytest
from genai_prices import Usage, calc_price
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from agentlearn.learning.costs import known_price
from agentlearn.models.token_estimate import cost_usd, price_of

LLAMA, MINI = "llama-3.3-70b-versatile", "gpt-5-mini"
PRICED = {
    "https://api.groq.com/openai/v1#llama-3.3-70b-versatile": "groq:llama-3.3-70b-versatile",
    "HTTPS://API.GROQ.COM/openai/v1#llama-3.3-70b-versatile": "groq:llama-3.3-70b-versatile",
    "https://api.deepseek.com#deepseek-chat": "deepseek:deepseek-chat",
    "https://api.deepseek.com/v1#deepseek-chat": "deepseek:deepseek-chat",
    "https://api.mistral.ai/v1#mistral-small-latest": "mistral:mistral-small-latest",
    "https://openrouter.ai/api/v1#deepseek/deepseek-chat": "openrouter:deepseek/deepseek-chat",
    "https://api.openai.com/v1#gpt-5-mini": "openai:gpt-5-mini",
    "https://api.together.xyz/v1#meta-llama/Llama-3.3-70B-Instruct-Turbo": (
        "together:meta-llama/Llama-3.3-70B-Instruct-Turbo"
    ),
    "https://generativelanguage.googleapis.com/v1beta/openai#gemini-2.5-flash": "google:gemini-2.5-flash",
    "https://api.x.ai/v1#grok-3-mini": "xai:grok-3-mini",
    "gateway/openai:gpt-5-mini": "openai-chat:gpt-5-mini",
}
"""Addresses and the names of the same models."""
UNPRICED = (
    "https://models.example.org/v1#gpt-5-mini",
    "http://10.0.0.7:8000/v1#gpt-5-mini",
    "http://127.0.0.1:8000/v1#gpt-5-mini",
    "http://localhost:4000/v1#gpt-5-mini",
    "https://api.groq.com/openai/v1#no-such-model",
    "openai:no-such-model",
    "huggingface:Qwen/Qwen3-32B",
)
REPORTED = (
    # what the service says, the cost
    ({"cost_usd": 0.25}, 0.25),
    ({"cost_usd": 0}, 0.0),
    ({"cost": 0.5}, 0.5),
    ({"cost": 0.01, "is_byok": True, "upstream_inference_cost": 0.2}, 0.21),
    ({"is_byok": True, "upstream_inference_cost": 0.2}, 0.2),
    ({"cost": 0.5, "is_byok": False, "upstream_inference_cost": 0.4}, 0.5),
    ({"cost_usd": True}, None),
    ({"cost_usd": -1}, None),
    ({"cost_usd": float("nan")}, None),
    ({"cost_usd": float("inf")}, None),
    ({"cost_usd": "0.25"}, None),
    ({"cost": None}, None),
    (None, None),
)


def test_an_address_has_the_price_of_its_service(subtests: pytest.Subtests) -> None:
    for address, name in PRICED.items():
        with subtests.test(address=address):
            assert known_price(address) is not None
            assert known_price(address) == known_price(name)


def test_an_unknown_host_or_model_has_no_price(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNPRICED:
        with subtests.test(name=name):
            assert known_price(name) is None
    assert known_price("openai:gpt-5-mini") is not None
    monkeypatch.setenv("OPENAI_BASE_URL", "https://models.example.org/v1")
    assert known_price("openai:gpt-5-mini") is None


def test_the_cost_that_a_service_reports_comes_first(subtests: pytest.Subtests) -> None:
    for details, cost in REPORTED:
        with subtests.test(details=details):
            usage = RequestUsage(input_tokens=1_000_000)
            named: Any = {"model_name": LLAMA, "provider_name": "openai", "provider_details": details}
            unknown = ModelResponse([TextPart("x")], usage=usage, provider_url="https://example.org/v1", **named)
            assert cost_usd(unknown) == pytest.approx(cost) if cost is not None else cost_usd(unknown) is None
            listed = ModelResponse([TextPart("x")], usage=usage, provider_url="https://api.groq.com/openai/v1", **named)
            price = price_of(LLAMA, "openai", "https://api.groq.com/openai/v1")
            assert price is not None
            assert cost_usd(listed) == pytest.approx(price[0] if cost is None else cost)


def test_a_call_has_the_price_of_its_size() -> None:
    for tokens_in in (4_000, 250_000):
        price = known_price("google:gemini-2.5-pro", tokens_in)
        listed = calc_price(Usage(input_tokens=tokens_in), model_ref="gemini-2.5-pro", provider_id="google").total_price
        assert price is not None
        assert price[0] * tokens_in / 1e6 == pytest.approx(float(listed))


def test_cached_input_has_a_price_of_its_own_where_the_list_has_one(subtests: pytest.Subtests) -> None:
    for name, cheaper in (("openai:gpt-5-mini", True), ("openai:gpt-4", False)):
        with subtests.test(name=name):
            price = known_price(name)
            assert price is not None
            usage = Usage(input_tokens=1_000, cache_read_tokens=400, output_tokens=10)
            listed = calc_price(usage, model_ref=name.partition(":")[2], provider_id="openai").total_price
            assert price.usd(1_000, 10, 400) == pytest.approx(float(listed))
            assert (price.cached < price.read) == cheaper
