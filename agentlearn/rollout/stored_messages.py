"""The messages of a rollout as the store keeps them: without exact tokens, and without the pictures of tools."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequestPart,
    ModelResponse,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from agentlearn.models.tokens import without_tokens


def stored_messages(messages: Sequence[ModelMessage]) -> bytes:
    """Return the messages as JSON.

    Exact tokens are left out, because the steps contain them. What a tool returned besides text, such as a screenshot,
    is replaced by its type, size and hash. Pictures of a task itself are kept.
    """
    return ModelMessagesTypeAdapter.dump_json([_stored(one) for one in messages])


def _stored(message: ModelMessage) -> ModelMessage:
    if isinstance(message, ModelResponse):
        return without_tokens(message)
    if not any(isinstance(part, ToolReturnPart) for part in message.parts):
        return message
    return replace(message, parts=[_without_binary(part) for part in message.parts])


def _without_binary(part: ModelRequestPart) -> ModelRequestPart:
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str):
        return part
    return replace(part, content=[_described(one) for one in part.content])


def _described(content: UserContent) -> UserContent:
    if not isinstance(content, BinaryContent):
        return content
    digest = hashlib.sha256(content.data).hexdigest()
    return f"[{content.media_type}, {len(content.data)} bytes, sha256 {digest}, not stored]"
