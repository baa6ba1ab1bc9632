"""Asks a model once, and gives its reply the form that `openai` documents and that can be stored.

A service can send anything: other types, other encodings, endless nesting, numbers that no column holds. The libraries
that decode a reply raise many kinds of errors on such input, and may pass some of it on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.usage import RequestUsage

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.config.endpoint_address import without_credentials
from agentlearn.errors import AgentlearnError
from agentlearn.models.endings import ending_of, tidied, tokens_of
from agentlearn.models.reply import Reply, Said, Thought, dollars_of, is_count
from agentlearn.text import storable
from agentlearn.text.secret_values import without_secrets

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_CHANNEL_CALL = re.compile(r"\bto=functions\.\w")
"""A tool call in the channels of the harmony format, which also hold thoughts."""
COST = "cost_usd"
"""Key of the cost in dollars that a service reported, in the response's `provider_details`."""
STREAMED = "streamed"
"""Key that says that a service has streamed a reply although no stream was asked for."""
_COST_HEADERS = ("x-litellm-response-cost",)
"""Headers in which gateways report the cost of a reply."""

_Fields = dict[str, Any]


def completion_of(reply: Reply, asked: str) -> _Fields:
    """Return a reply in the form of a chat completion, with one choice. asked: name of the model that was asked.

    A reply that an error broke off ends with the words of the error.
    """
    ending = reply.error if reply.error and ending_of(reply.ending) in {"stop", "tool_call"} else reply.ending
    return {
        "id": reply.identity,
        "object": "chat.completion",
        "created": reply.created,
        "model": reply.model or asked,
        "choices": [{"index": 0, "message": _message(reply), "finish_reason": ending or None}],
        "usage": reply.usage,
    }


def _message(reply: Reply) -> _Fields:
    said = [one.text for one in reply.parts if isinstance(one, Said)]
    text = "".join(said) if said else None
    if text and not _CHANNEL_CALL.search(text) and (spoken := split_thoughts(text)).unfinished:
        text = f"{spoken.said}<think>{spoken.thoughts}</think>"  # pydantic-ai drops a mark that is never closed
    message: _Fields = {"role": "assistant", "content": text}
    if calls := reply.message.calls:
        message["tool_calls"] = [
            {
                "id": one.id or f"call_{index}",
                "type": "function",
                "function": {"name": one.name, "arguments": one.arguments},
                **({"extra_content": one.extra} if one.extra else {}),
            }
            for index, one in enumerate(calls)
        ]
    thoughts = [one for one in reply.parts if isinstance(one, Thought)]
    if thoughts:  # pydantic-ai reads these two fields
        field = "reasoning" if thoughts[0].field == "reasoning" else "reasoning_content"
        message[field] = "".join(one.text for one in thoughts)
    return message


def facts_of(reply: Reply, headers: Mapping[str, str]) -> _Fields:
    """Return what a reply says in addition to the completion: its exact tokens and its cost, where they are sent."""
    reported = (reply.cost_usd, *(dollars_of(headers.get(name)) for name in _COST_HEADERS))
    cost = next((one for one in reported if one is not None), None)
    return {**reply.details, **({} if cost is None else {COST: cost})}


_PASSED_ON = (ModelAPIError, UnexpectedModelBehavior, UserError, AgentlearnError, TimeoutError)
"""Errors that say themselves what they are."""


class _GarbledReply(UnexpectedModelBehavior):
    """Raised when a reply cannot be decoded."""


async def ask_once(
    model: "Model",
    messages: Sequence[ModelMessage],
    settings: "ModelSettings",
    parameters: "ModelRequestParameters",
    *,
    salt: str = "",
) -> tuple[ModelResponse, bytes]:
    """Return the reply of a model, safe to store, and its JSON. Raises _GarbledReply when it cannot be decoded.

    salt: makes ids differ that take the place of missing and repeated ids of tool calls.
    """
    try:
        response = await model.request(list(messages), settings, parameters)
        return checked(tidied(response, messages, parameters, salt))
    except _PASSED_ON:
        raise
    except Exception as error:  # a reply can make the libraries raise anything
        words = " ".join(str(error).split())[:200]
        raise _GarbledReply(
            f"the reply cannot be read: {type(error).__name__}{f': {words}' if words else ''}"
        ) from error


def checked(response: ModelResponse) -> tuple[ModelResponse, bytes]:
    """Return a reply that can be stored and read back, without known secrets, and its JSON. Raises an error else."""
    whole = replace(
        response,
        parts=[_storable_part(one) for part in response.parts for one in _without_thoughts(part)],
        usage=_believed(response.usage),
        model_name=None if response.model_name is None else storable(response.model_name),
        provider_url=response.provider_url and without_credentials(response.provider_url),
    )
    dumped = ModelMessagesTypeAdapter.dump_json([whole]).decode()
    written = without_secrets(dumped)  # a service can repeat a key anywhere, also in ids
    (again,) = ModelMessagesTypeAdapter.validate_json(written)
    assert isinstance(again, ModelResponse)
    tokens_of(again)  # a resumed run reads them; a number that is not finite is null there
    return whole if written == dumped else again, written.encode()


def _believed(usage: RequestUsage) -> RequestUsage:
    """Return the reported usage without the numbers that are impossible."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    wrong = {name: 0 for name in names if not is_count(getattr(usage, name))}
    details = {name: value for name, value in usage.details.items() if is_count(value)}
    return replace(usage, details=details, **wrong) if wrong or details != usage.details else usage


def _without_thoughts(part: ModelResponsePart) -> tuple[ModelResponsePart, ...]:
    """Return a part; of a text that holds thoughts, what was thought and what was said."""
    if not isinstance(part, TextPart) or _CHANNEL_CALL.search(part.content):
        return (part,)  # a tool call that was left in the text is no thought
    spoken = split_thoughts(part.content)
    if not spoken.thoughts and not spoken.unfinished:
        return (part if spoken.said == part.content else replace(part, content=spoken.said),)
    said = (replace(part, content=spoken.said),) if spoken.said else ()
    return (ThinkingPart(spoken.thoughts), *said)


def _storable_part(part: ModelResponsePart) -> ModelResponsePart:
    """Return a part without lone surrogates, which can be neither stored nor sent back."""
    match part:
        case TextPart() | ThinkingPart():
            text = storable(part.content)
            return part if text == part.content else replace(part, content=text)
        case ToolCallPart(args=str(args)):
            text = storable(args)
            return part if text == args else replace(part, args=text)
        case _:
            return part
