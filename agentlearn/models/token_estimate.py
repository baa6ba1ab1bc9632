"""Estimates the tokens of a call before it is made, and of a reply whose service reports none.

The input is estimated from the size of the request's text and from what the service reported for earlier turns of the
same conversation. The output is estimated from the outputs of earlier calls of the same stage.
"""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

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
