"""Conversion between pydantic-ai's messages and the OpenAI chat format, in both directions."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from agentlearn.errors import DataError
from agentlearn.models.reply import (
    Attachment,
    CallResult,
    DialogueMessage,
    Part,
    Thought,
    distinct_id,
    read_messages,
    shown_text,
)
from agentlearn.text import storable

Chat = list[dict[str, Any]]
"""Messages in the OpenAI chat format, as JSON values."""


def to_chat(messages: bytes) -> Chat:
    """Return stored messages as chat: instructions first, without thinking. Raises DataError for other parts."""
    found = ModelMessagesTypeAdapter.validate_json(messages)
    chat: Chat = []
    instructions = next((one.instructions for one in found if isinstance(one, ModelRequest) and one.instructions), None)
    if instructions is not None:
        chat.append({"role": "system", "content": instructions})
    for message in found:
        if isinstance(message, ModelResponse):
            chat.append(assistant_message(message))
        else:
            chat.extend(request_message(part) for part in message.parts)
    return chat


def request_message(part: ModelRequestPart) -> dict[str, Any]:
    """One part of a request as a message of the chat format. Raises DataError for a part that it cannot express."""
    match part:
        case SystemPromptPart():
            return {"role": "system", "content": part.content}
        case UserPromptPart():
            content = part.content if isinstance(part.content, str) else [_content_part(one) for one in part.content]
            return {"role": "user", "content": content}
        case ToolReturnPart():
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
        case RetryFeedbackPart():
            return {"role": "user", "content": part.model_response()}
        case _:
            raise _not_chat(part.part_kind)


def _content_part(content: UserContent) -> dict[str, Any]:
    match content:
        case str():
            return {"type": "text", "text": content}
        case TextContent():
            return {"type": "text", "text": content.content}
        case ImageUrl():
            return {"type": "image_url", "image_url": {"url": content.url}}
        case BinaryContent() if content.is_image:
            data = base64.b64encode(content.data).decode()
            return {"type": "image_url", "image_url": {"url": f"data:{content.media_type};base64,{data}"}}
        case _:
            raise _not_chat(type(content).__name__)


def assistant_message(response: ModelResponse) -> dict[str, Any]:
    """An answer of a model as a message of the chat format, without thinking. Raises DataError, see above."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in response.parts:
        match part:
            case TextPart():
                texts.append(part.content)
            case ThinkingPart():
                pass
            case ToolCallPart():
                arguments = part.args if isinstance(part.args, str) else part.args_as_json_str()
                function = {"name": part.tool_name, "arguments": arguments}
                calls.append({"id": part.tool_call_id, "type": "function", "function": function})
            case _:
                raise _not_chat(part.part_kind)
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None}
    return message | {"tool_calls": calls} if calls else message


def _not_chat(kind: str) -> DataError:
    return DataError(
        f"a message has a part of kind {kind!r}, which the chat format cannot express; export with --format parquet"
    )


def from_chat(chat: Iterable[object]) -> list[ModelMessage]:
    """Return messages of any dialect as pydantic-ai's messages. Raises ValueError, which names the message."""
    return model_messages(read_messages(chat))


def model_messages(dialogue: Iterable[DialogueMessage], *, cut: bool = False) -> list[ModelMessage]:
    """Return a conversation as pydantic-ai's messages. Every call has an id of its own.

    cut: whether the calls that results answer may be missing, as in a conversation whose begin was cut off; attachments
    are only named then. Raises ValueError for the result of a call that does not exist.
    """
    messages: list[ModelMessage] = []
    known: dict[str, ToolCallPart] = {}
    waiting: list[tuple[str, ToolCallPart]] = []
    taken = set[str]()
    for place, message in enumerate(dialogue):
        if message.role == "assistant":
            calls = [
                (one.id, ToolCallPart(one.name, storable(one.arguments), distinct_id(one.id, taken, place, index)))
                for index, one in enumerate(message.calls)
            ]
            waiting = calls or waiting
            known |= dict(calls)
            thoughts = "".join(one.text for one in message.parts if isinstance(one, Thought))
            said: list[ModelResponsePart] = [ThinkingPart(storable(thoughts))] if thoughts else []
            said += [TextPart(storable(message.text))] if message.text else []
            messages.append(ModelResponse(parts=[*said, *(part for _, part in calls)]))
            continue
        if message.role == "tool":
            part, missing = _tool_return(message.parts, waiting, known, cut=cut)
            messages += [ModelResponse(parts=[missing])] if missing else []
        elif message.role == "system":
            part = SystemPromptPart(content=storable(message.text))
        else:
            part = UserPromptPart(content=storable(message.text) if cut else _user_content(message.parts))
        last = messages[-1] if messages else None
        if isinstance(last, ModelRequest):
            messages[-1] = ModelRequest(parts=[*last.parts, part])
        else:
            messages.append(ModelRequest(parts=[part]))
    return messages


def _tool_return(
    parts: Sequence[Part], waiting: list[tuple[str, ToolCallPart]], known: dict[str, ToolCallPart], *, cut: bool
) -> tuple[ToolReturnPart, ToolCallPart | None]:
    """The result of a call, and the call itself where it is missing.

    waiting: calls without a result, in order; the one that is answered is taken out. A result without an id answers the
    first call of its tool, and one with an id that no call has the first call without an id.
    """
    (result,) = parts
    assert isinstance(result, CallResult)
    if result.call:
        fits = [one for one in waiting if one[0] == result.call] or [
            one for one in waiting if not one[0] and result.call not in known
        ]
    else:
        fits = [one for one in waiting if one[1].tool_name == result.name] or waiting
    call, missing = known.get(result.call), None
    if fits:
        waiting.remove(one := fits[0])
        call = one[1]
    if call is None:
        if not cut:
            raise ValueError(f"a tool message answers the tool call {result.call!r}, which does not exist")
        call = missing = ToolCallPart(result.name or "unknown", "{}", result.call or "unknown")
        known[result.call] = call
    return ToolReturnPart(call.tool_name, storable(result.text), call.tool_call_id), missing


def _user_content(parts: Sequence[Part]) -> str | list[UserContent]:
    if not any(isinstance(one, Attachment) for one in parts):
        return storable(shown_text(parts))
    return [
        ImageUrl(url=one.url) if isinstance(one, Attachment) and one.url else storable(shown_text([one]))
        for one in parts
    ]
