"""Conversion between pydantic-ai's messages and the OpenAI chat format, in both directions."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
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
from agentlearn.text import storable
from agentlearn.types.value import Value

Chat = list[dict[str, Any]]
"""Messages in the OpenAI chat format, as JSON values."""


class _Foreign(Value):
    """Base of what other programs write; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class _ChatImage(_Foreign):
    """An image of a message."""

    url: str


class _ChatPart(_Foreign):
    """A part of a message."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: _ChatImage | None = None


class _ChatFunction(_Foreign):
    """The function and the arguments of a tool call."""

    name: str
    arguments: str | dict[str, Any] = ""


class _ChatCall(_Foreign):
    """A tool call."""

    id: str
    function: _ChatFunction


class ChatMessage(_Foreign):
    """One message of the chat format."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[_ChatPart, ...] | None = None
    tool_calls: tuple[_ChatCall, ...] | None = None
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """Text of the message."""
        if isinstance(self.content, tuple):
            return storable("\n".join(part.text for part in self.content if part.type == "text"))
        return storable(self.content or "")


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
        f"a message has a part of kind {kind!r}, which the chat format cannot express; export with --format parquet",
        code="not_chat",
    )


def from_chat(chat: Sequence[ChatMessage]) -> list[ModelMessage]:
    """Return chat as pydantic-ai's messages. Raises ValueError for a tool message without a matching tool call."""
    messages: list[ModelMessage] = []
    tools: dict[str, str] = {}
    for message in chat:
        if message.role == "assistant":
            response = ModelResponse(parts=list(_response_parts(message)))
            tools |= {one.tool_call_id: one.tool_name for one in response.parts if isinstance(one, ToolCallPart)}
            messages.append(response)
            continue
        part = _request_part(message, tools)
        last = messages[-1] if messages else None
        if isinstance(last, ModelRequest):
            messages[-1] = ModelRequest(parts=[*last.parts, part])
        else:
            messages.append(ModelRequest(parts=[part]))
    return messages


def _response_parts(message: ChatMessage) -> Iterator[TextPart | ToolCallPart]:
    if message.text:
        yield TextPart(content=message.text)
    for call in message.tool_calls or ():
        arguments = call.function.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        yield ToolCallPart(tool_name=call.function.name, args=storable(text), tool_call_id=call.id)


def _request_part(message: ChatMessage, tools: dict[str, str]) -> ModelRequestPart:
    match message.role:
        case "system" | "developer":
            return SystemPromptPart(content=message.text)
        case "tool":
            if message.tool_call_id not in tools:
                raise ValueError(f"a tool message answers the tool call {message.tool_call_id!r}, which does not exist")
            return ToolReturnPart(
                tool_name=tools[message.tool_call_id], content=message.text, tool_call_id=message.tool_call_id
            )
        case _:
            if not isinstance(message.content, tuple):
                return UserPromptPart(content=message.text)
            pieces = [
                ImageUrl(url=one.image_url.url) if one.image_url is not None else storable(one.text)
                for one in message.content
            ]
            return UserPromptPart(content=pieces)
