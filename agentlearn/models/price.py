"""Cost of a response, from the public price list, and prices per token as the costs of replies show them."""

from dataclasses import dataclass
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


_MOST_BY_OUTPUT = 8.0
"""Price of an output token, in mean prices of all tokens, that is assumed at most while replies do not show it."""
_ALIKE = 1e-4
"""Replies whose numbers of tokens differ in proportion by less than this do not show two prices."""


@dataclass(slots=True)
class ObservedPrice:
    """The prices of a service as its replies show them: the least squares fit of cost to input and output tokens."""

    usd: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    in_in: int = 0
    in_out: int = 0
    out_out: int = 0
    in_usd: float = 0.0
    out_usd: float = 0.0

    def add(self, tokens_in: int, tokens_out: int, usd: float) -> None:
        """Add a reply whose cost is known."""
        self.usd += usd
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.in_in += tokens_in * tokens_in
        self.in_out += tokens_in * tokens_out
        self.out_out += tokens_out * tokens_out
        self.in_usd += tokens_in * usd
        self.out_usd += tokens_out * usd

    def per_token(self) -> tuple[float, float]:
        """Return dollars per input and output token, neither below 0; (0, 0) without a reply.

        While all replies are alike, the price of output is the highest that is likely.
        """
        if not self.tokens_in + self.tokens_out:
            return 0.0, 0.0
        both = self.in_in * self.out_out
        determinant = both - self.in_out * self.in_out
        if determinant <= _ALIKE * both:
            mean = self.usd / (self.tokens_in + self.tokens_out)
            return mean, min(self.usd / max(1, self.tokens_out), _MOST_BY_OUTPUT * mean)
        price_in = (self.in_usd * self.out_out - self.out_usd * self.in_out) / determinant
        price_out = (self.out_usd * self.in_in - self.in_usd * self.in_out) / determinant
        if price_in < 0:
            return 0.0, self.out_usd / self.out_out
        if price_out < 0:
            return self.in_usd / self.in_in, 0.0
        return price_in, price_out
