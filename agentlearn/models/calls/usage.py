"""What one call takes: expected before it is sent, and counted from its reply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.usage import RequestUsage

from agentlearn.models.price import price_of
from agentlearn.models.token_estimate import BYTES_PER_TOKEN, ExpectedCall, reply_bytes
from agentlearn.types.trajectory import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

    from agentlearn.models.endpoint_state import EndpointState


_DENSEST = 8
"""A text has at least one token for this many times the size of a usual token."""
_SHORT_BYTES = 256


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """The tokens of one reply."""

    usage: Usage
    estimated: int
    """How many of the tokens are estimated."""
    priced: "ModelResponse"
    """The reply with these tokens, to compute its price from."""


def usage_of(state: "EndpointState", stage: str, response: "ModelResponse", size_bytes: int) -> UsageCounts:
    """Return the tokens of a reply, estimated where its service reports none, or fewer than the text can have.

    size_bytes: of the request.
    """
    given, written = response.usage, reply_bytes(response)
    sure = state.free  # a service of ours counts right, whatever its tokens are
    reported_in = given.input_tokens if sure or _can_hold(given.input_tokens, size_bytes) else 0
    reported_out = given.output_tokens if sure or _can_hold(given.output_tokens, written) else 0
    tokens_in = reported_in or state.tokens.tokens_of_text(stage, size_bytes)
    tokens_out = reported_out or state.tokens.tokens_of_text(stage, written)
    estimated = (0 if reported_in else tokens_in) + (0 if reported_out else tokens_out)
    usage = Usage(requests=1, tokens_in=tokens_in, tokens_cached=given.cache_read_tokens, tokens_out=tokens_out)
    state.without_usage += estimated > 0
    state.tokens.learn(stage, size_bytes, usage, reported=bool(reported_in))
    if not estimated:
        return UsageCounts(usage, estimated, response)
    priced = replace(response, usage=RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out))
    return UsageCounts(usage, estimated, priced)


def _can_hold(tokens: int, size_bytes: int) -> bool:
    """Whether a text of that size can have so few tokens. A short text always can."""
    return size_bytes <= _SHORT_BYTES or tokens * BYTES_PER_TOKEN * _DENSEST >= size_bytes


def expected_call(
    model: "Model",
    state: "EndpointState",
    stage: str,
    messages: "Sequence[ModelMessage]",
    parameters: "ModelRequestParameters",
    sampling: Mapping[str, Any],
) -> ExpectedCall:
    """Return what a call will probably take."""
    call = state.tokens.expected(stage, messages, parameters, sampling.get("max_tokens"))
    call = replace(call, refused_out=state.refused_output)
    if state.free:
        return call
    price = price_of(model.model_name, model.system, model.base_url)
    if price is not None:
        return replace(call, price=(price[0] / 1e6, price[1] / 1e6))
    # Replies can name a model that has a price.
    return replace(call, price=state.price.per_token() if state.answers else None)
