"""Asks a model once and checks its reply. Whatever goes wrong while a reply is decoded is one kind of error here.

A service can send anything: other types, other encodings, endless nesting, numbers that no column holds. The libraries
that decode a reply raise many kinds of errors on such input, and may pass some of it on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

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
from agentlearn.models.chat_reply import CHANNEL_CALL, is_count
from agentlearn.models.endings import tidied
from agentlearn.models.tokens import tokens_of
from agentlearn.secret_values import without_secrets
from agentlearn.text import storable

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_PASSED_ON = (ModelAPIError, UnexpectedModelBehavior, UserError, AgentlearnError, TimeoutError)
"""Errors that say themselves what they are."""


class GarbledReply(UnexpectedModelBehavior):
    """Raised when a reply cannot be decoded."""


async def ask_once(
    model: "Model",
    messages: Sequence[ModelMessage],
    settings: "ModelSettings",
    parameters: "ModelRequestParameters",
    *,
    salt: str = "",
) -> ModelResponse:
    """Return the reply of a model, safe to store. Raises GarbledReply when it cannot be decoded.

    salt: makes ids differ that take the place of missing and repeated ids of tool calls.
    """
    try:
        response = await model.request(list(messages), settings, parameters)
        return checked(tidied(response, messages, parameters, salt))
    except _PASSED_ON:
        raise
    except Exception as error:  # a reply can make the libraries raise anything
        words = " ".join(str(error).split())[:200]
        raise GarbledReply(
            f"the reply cannot be read: {type(error).__name__}{f': {words}' if words else ''}"
        ) from error


def checked(response: ModelResponse) -> ModelResponse:
    """Return a reply that can be stored and read back. Raises an error for one that cannot."""
    whole = replace(
        response,
        parts=[_storable_part(one) for part in response.parts for one in _without_thoughts(part)],
        usage=believed(response.usage),
        model_name=None if response.model_name is None else without_secrets(storable(response.model_name)),
        provider_url=response.provider_url and without_credentials(response.provider_url),
    )
    (again,) = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json([whole]))
    assert isinstance(again, ModelResponse)
    tokens_of(again)  # a resumed run reads them; a number that is not finite is null there
    return whole


def believed(usage: RequestUsage) -> RequestUsage:
    """Return the reported usage without the numbers that are impossible."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    wrong = {name: 0 for name in names if not is_count(getattr(usage, name))}
    details = {name: value for name, value in usage.details.items() if is_count(value)}
    return replace(usage, details=details, **wrong) if wrong or details != usage.details else usage


def _without_thoughts(part: ModelResponsePart) -> tuple[ModelResponsePart, ...]:
    """Return a part; of a text that holds thoughts, what was thought and what was said."""
    if not isinstance(part, TextPart) or CHANNEL_CALL.search(part.content):
        return (part,)  # a tool call that was left in the text is no thought
    spoken = split_thoughts(part.content)
    if not spoken.thoughts and not spoken.unfinished:
        return (part if spoken.said == part.content else replace(part, content=spoken.said),)
    said = (replace(part, content=spoken.said),) if spoken.said else ()
    return (ThinkingPart(spoken.thoughts), *said)


def _storable_part(part: ModelResponsePart) -> ModelResponsePart:
    """Return a part without known secrets, and without lone surrogates, which can be neither stored nor sent back."""
    match part:
        case TextPart() | ThinkingPart():
            text = without_secrets(storable(part.content))
            return part if text == part.content else replace(part, content=text)
        case ToolCallPart(args=str(args)):
            text = without_secrets(storable(args))
            return part if text == args else replace(part, args=text)
        case _:
            return part
