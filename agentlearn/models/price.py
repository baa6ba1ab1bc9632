"""Cost of a response, from the public price list, and prices per token as the costs of replies show them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_GATEWAY = re.compile(r"gateway[a-z-]*\.pydantic\.(?:dev|info)")
"""Host of Pydantic's gateway, which takes the price of the service behind it."""


def cost_usd(response: "ModelResponse") -> float | None:
    """Return the cost in dollars: the one that the service reports, else that of the price list; None when unknown."""
    details: Mapping[str, Any] = response.provider_details or {}
    reported, fee, upstream = (_dollars(details.get(key)) for key in ("cost_usd", "cost", "upstream_inference_cost"))
    if reported is None and details.get("is_byok") is True and upstream is not None:
        # with a key of one's own, `cost` of OpenRouter is only its fee; the cost at the provider is in another field
        reported = (fee or 0.0) + upstream
    if reported is not None or fee is not None:
        return fee if reported is None else reported
    if price_of(response.model_name, response.provider_name, response.provider_url) is None:
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):  # no usage reported, or no price for this kind of token
        return None


def _dollars(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        return None
    return float(value)


USUAL_TOKENS = 1_000
"""Input tokens of a call whose size is not known."""


class Price(NamedTuple):
    """Dollars per million tokens of a model."""

    read: float
    written: float
    cached: float
    """Of input that the service has cached; the same as `read` where the price list has no other."""

    def usd(self, tokens_in: float, tokens_out: float, tokens_cached: float = 0.0) -> float:
        """Return the cost in dollars. tokens_cached: part of tokens_in that the service has cached."""
        full = tokens_in - tokens_cached
        return (full * self.read + tokens_cached * self.cached + tokens_out * self.written) / _MILLION


@lru_cache(maxsize=1_024)
def price_of(
    model_name: str | None, provider_name: str | None, provider_url: str | None, tokens_in: int = USUAL_TOKENS
) -> Price | None:
    """Return the price of a model of a service; None when unknown.

    The address decides whose price it is. Behind an address that the price list does not have, a model has a price only
    where its service is known by another name than `openai`, which every compatible service has.
    tokens_in: input tokens of one call. Many models cost more from some size on, and some have a price per call.
    """
    if model_name is None:
        return None
    parts = urlsplit(provider_url or "")
    host = (parts.hostname or "").casefold()
    if host in _LOOPBACK:
        return None
    if host:
        url = urlunsplit((parts.scheme.casefold(), parts.netloc.casefold(), parts.path, "", ""))
        price = _price_per_million(model_name, tokens_in, provider_api_url=url)
        if price is not None or (provider_name in (None, "openai") and not _GATEWAY.fullmatch(host)):
            return price
    return _price_per_million(model_name, tokens_in, provider_id=provider_name)


def _price_per_million(model_name: str, tokens_in: int, **by: Any) -> Price | None:
    from genai_prices import Usage, calc_price

    size = max(1, tokens_in)
    try:
        read, both, cached = (
            calc_price(Usage(input_tokens=size, **more), model_ref=model_name, **by).total_price
            for more in ({}, {"output_tokens": _MILLION}, {"cache_read_tokens": size})
        )
    except LookupError:
        return None
    return Price(float(read * _MILLION / size), float(both - read), float(cached * _MILLION / size))


_MILLION = 1_000_000
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
