"""Cost of a response, from the public price list."""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def cost_usd(response: "ModelResponse") -> float | None:
    """Return the cost in dollars; None when the model's price is unknown."""
    if price_of(response.model_name, response.provider_name, response.provider_url) is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):  # no usage reported, or no price for this kind of token
        return None


@lru_cache(maxsize=256)
def price_of(model_name: str | None, provider_name: str | None, provider_url: str | None) -> tuple[float, float] | None:
    """Return dollars per million input and output tokens of a model of a service; None when unknown."""
    if model_name is None or (provider_url or "").startswith(("http://127.", "http://localhost", "http://[::1]")):
        return None
    return price_per_million(model_name, provider_name)


def price_per_million(model_name: str, provider_name: str | None = None) -> tuple[float, float] | None:
    """Return dollars per million input and output tokens, for estimates; None when unknown."""
    from genai_prices import Usage, calc_price

    try:
        one = [
            calc_price(usage, model_ref=model_name, provider_id=provider_name).total_price
            for usage in (Usage(input_tokens=1_000_000), Usage(output_tokens=1_000_000))
        ]
    except LookupError:
        return None
    return float(one[0]), float(one[1])
