"""Prices: whose they are, which costs of a service are believed, and what has none."""

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from agentlearn.models.price import cost_usd, price_of

LLAMA, MINI = "llama-3.3-70b-versatile", "gpt-5-mini"
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
