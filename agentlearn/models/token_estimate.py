"""Estimates the tokens of a call before it is made, and of a reply whose service reports none; and what replies cost.

The input is estimated from the size of the request's text and from what the service reported for earlier turns of the
same conversation. The output is estimated from the outputs of earlier calls of the same stage. Costs are from the
public price list, and prices per token are as the costs of replies show them.
"""

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from agentlearn.types.trajectory import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestParameters


BYTES_PER_TOKEN = 4.0
"""Bytes of a text's size per token while a service has reported none."""
_LETTERS, _MARKS, _OTHER = 4.7, 1.5, 3.6
"""Bytes of UTF-8 per token of ASCII letters and white space, of ASCII digits and marks, and of all other characters."""
_NOT_LETTERS = bytes(one for one in range(128) if not (chr(one).isalpha() or chr(one).isspace()))
FIRST_OUTPUT = 4_096
"""Expected output tokens of a call while nothing is known about its stage, unless the request has a lower limit."""
KEPT = 500
"""Number of newest outputs of a stage that the expectation is based on."""
_QUANTILE = 0.98
"""Part of the outputs that should be no longer than expected."""
_WEIGHT = 6
"""Number of observed outputs that weigh as much as the expectation before any."""
_MESSAGE_BYTES = 20
"""Size of a message in addition to its text, for its role and its marks: five tokens."""
_CALL_BYTES = 60
"""Size of a tool call in addition to its name and arguments, as a chat template writes it: 15 tokens."""
_RESULT_BYTES = 28
"""Size of a tool result in addition to its text and to that of a message: seven tokens."""
_TOOL_BYTES = 60
"""Size of a tool in addition to its name, description and schema: 15 tokens."""
_PICTURE_BYTES = 6_000
"""Size of a picture, whatever the number of its bytes: 1,500 tokens."""
_TOOLS_BYTES = 400
"""Size of the words with which a chat template introduces the tools: 100 tokens."""


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """What a call will probably take."""

    tokens_in: int
    tokens_out: int
    """Output that few calls exceed. It is larger while little is known."""
    tokens_out_usual: int
    """Output that half of the calls exceed, from what was observed only; 0 when nothing was."""
    most_out: int | None = None
    """Limit of the request on its output; None when it has none."""
    refused_out: int | None = None
    """Smallest limit on the output that the service has refused; None when it refused none."""
    price: tuple[float, float] | None = (0.0, 0.0)
    """Dollars per token of input and of output; None while it is not known whether calls cost anything."""

    def cost_usd(self, tokens_out: float) -> float:
        """Return the cost with that output; 0 while the price is unknown."""
        dollars_in, dollars_out = self.price or (0.0, 0.0)
        return self.tokens_in * dollars_in + tokens_out * dollars_out

    def cut_off_at(self, tokens_out: int) -> "ExpectedCall":
        """Return the call after a reply was cut off at that output: it needs more."""
        longer = [max(self.tokens_out, 2 * tokens_out), max(self.tokens_out_usual, ceil(1.25 * tokens_out))]
        few, half = (one if self.most_out is None else min(one, self.most_out) for one in longer)
        return replace(self, tokens_out=few, tokens_out_usual=half)


@dataclass(slots=True)
class _StageTokens:
    """What the calls of one stage took."""

    bytes_in: int = 0
    """Bytes of the requests whose tokens the service reported."""
    tokens_in: int = 0
    """Tokens that the service reported for them."""
    outputs: deque[int] = field(default_factory=lambda: deque[int](maxlen=KEPT))
    """Output tokens of the newest replies."""

    def usual_most(self) -> int:
        """Return the output that few replies exceed; 0 when there was none."""
        if not self.outputs:
            return 0
        ordered = sorted(self.outputs)
        return ordered[min(len(ordered) - 1, ceil(_QUANTILE * len(ordered)))]

    def usual(self) -> int:
        """Return the output that half of the replies exceed; 0 when there was none."""
        return sorted(self.outputs)[len(self.outputs) // 2] if self.outputs else 0


@dataclass(slots=True)
class TokenEstimates:
    """The estimates for one endpoint."""

    stages: dict[str, _StageTokens] = field(default_factory=dict[str, _StageTokens])

    def expected(
        self,
        stage: str,
        messages: "Sequence[ModelMessage]",
        parameters: "ModelRequestParameters",
        most_out: int | None = None,
    ) -> ExpectedCall:
        """Return what a call will probably take. most_out: limit of the request on its output."""
        seen, most = self._stage(stage), most_out or FIRST_OUTPUT
        known = seen.usual_most()
        others = [usual for one in self.stages.values() if (usual := one.usual_most())]
        before = min(max(others, default=FIRST_OUTPUT) if not seen.outputs else FIRST_OUTPUT, most)
        count = len(seen.outputs)
        blended = ceil((known * count + before * _WEIGHT) / (count + _WEIGHT))
        few, half = max(known, blended), seen.usual()
        if most_out is not None:
            few, half = min(few, most_out), min(half, most_out)
        return ExpectedCall(self._tokens_in(stage, messages, parameters), few, half, most_out)

    def learn(self, stage: str, size_bytes: int, usage: Usage, *, reported: bool) -> None:
        """Add one reply. size_bytes: of the request. reported: whether its service reported the usage."""
        seen = self._stage(stage)
        seen.outputs.append(usage.tokens_out)
        if reported:
            seen.bytes_in += size_bytes
            seen.tokens_in += usage.tokens_in

    def tokens_of_text(self, stage: str, size_bytes: int) -> int:
        """Return the estimated tokens of a text."""
        seen = self._stage(stage)
        ratio = seen.tokens_in / seen.bytes_in if seen.bytes_in and seen.tokens_in else 1 / BYTES_PER_TOKEN
        return ceil(size_bytes * ratio)

    def _stage(self, stage: str) -> _StageTokens:
        return self.stages.setdefault(stage, _StageTokens())

    def _tokens_in(self, stage: str, messages: "Sequence[ModelMessage]", parameters: "ModelRequestParameters") -> int:
        """Return the input tokens: those of the last turn as reported, and the text since, if that is more."""
        whole = self.tokens_of_text(stage, request_bytes(messages, parameters))
        for back, message in enumerate(reversed(messages)):
            if isinstance(message, ModelResponse) and message.usage.input_tokens:
                since = sum(message_bytes(one) for one in messages[len(messages) - back :])
                known = message.usage.input_tokens + message.usage.output_tokens
                return known + self.tokens_of_text(stage, since)
        return whole


def request_bytes(messages: "Sequence[ModelMessage]", parameters: "ModelRequestParameters") -> int:
    """Return the size of a request: its messages, its instructions and its tools. BYTES_PER_TOKEN make a token."""
    given = [part.content for part in parameters.instruction_parts or ()]
    requests = [one for one in messages if isinstance(one, ModelRequest)]
    if not given and requests and requests[-1].instructions:
        given = [requests[-1].instructions]
    size = sum(map(message_bytes, messages)) + sum(map(_size, given)) + (_MESSAGE_BYTES if given else 0)
    tools = [*parameters.function_tools, *parameters.output_tools]
    schemas = [[tool.name, tool.description, tool.parameters_json_schema] for tool in tools]
    return size + sum(_size(one) + _TOOL_BYTES for one in schemas) + (_TOOLS_BYTES if tools else 0)


def message_bytes(message: "ModelMessage") -> int:
    """Return the size of a message. Each part of a request is a message of its own to the service."""
    if isinstance(message, ModelResponse):
        return reply_bytes(message) + _MESSAGE_BYTES
    results = sum(part.part_kind in {"tool-return", "retry-prompt"} for part in message.parts)
    contents = [getattr(part, "content", "") for part in message.parts]
    pictures = sum(isinstance(one, BinaryContent) for some in contents if isinstance(some, list) for one in some)
    texts = sum(map(_size, contents)) + pictures * _PICTURE_BYTES
    return texts + _MESSAGE_BYTES * max(1, len(message.parts)) + _RESULT_BYTES * results


def reply_bytes(response: ModelResponse) -> int:
    """Return the size of what a model wrote."""
    size = 0
    for part in response.parts:
        match part:
            case TextPart() | ThinkingPart():
                size += _size(part.content)
            case ToolCallPart():
                size += _size(part.tool_name) + _size(part.args_as_json_str()) + _CALL_BYTES
            case _:
                pass
    return size


def text_bytes(text: str) -> int:
    """Return the size of a text: its bytes, weighted by how many of each kind make a token."""
    ascii_only = text.encode("ascii", errors="ignore")
    letters = len(ascii_only.translate(None, _NOT_LETTERS))
    other = len(text.encode(errors="replace")) - len(ascii_only)
    tokens = letters / _LETTERS + (len(ascii_only) - letters) / _MARKS + other / _OTHER
    return ceil(BYTES_PER_TOKEN * tokens)


def _size(content: Any) -> int:
    """Return the size of a text, or of a value as JSON; 0 for a value that has no JSON."""

    def plain(value: object) -> str:
        return "" if isinstance(value, BinaryContent) else str(value)  # the bytes of a picture are no text

    try:
        text = content if isinstance(content, str) else json.dumps(content, default=plain, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return 0
    return text_bytes(text)


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
