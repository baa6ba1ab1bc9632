"""A chat model of an OpenAI-compatible service that believes no more of a reply than it must."""

from functools import cached_property
from typing import Any, cast

from openai.types.chat import ChatCompletion
from openai.types.completion_usage import CompletionUsage
from pydantic import ValidationError
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile

from agentlearn.models.reply import is_count

_ENDED = ("stop", "tool_calls", "function_call")
"""Reasons to finish after which there must be an answer."""


class ChatModel(OpenAIChatModel):
    """A chat model that reads replies of any service. Impossible numbers of tokens count as not reported.

    Instructions and lessons are sent as one system message: many chat templates read only the first, or refuse more.
    """

    @cached_property
    def profile(self) -> OpenAIModelProfile:
        """What is known of the service."""
        one_system_message = OpenAIModelProfile(openai_chat_supports_multiple_system_messages=False)
        return cast("OpenAIModelProfile", merge_profile(super().profile, one_system_message))

    def _process_response(
        self, response: ChatCompletion | str, *, include_raw_annotations: bool = False
    ) -> ModelResponse:
        if isinstance(response, ChatCompletion):
            response.usage = _believed(response.usage)
        return super()._process_response(response, include_raw_annotations=include_raw_annotations)

    def _validate_completion(self, response: ChatCompletion) -> Any:
        valid = super()._validate_completion(response)
        if not valid.choices:
            raise UnexpectedModelBehavior("the reply has no choices")
        choice = valid.choices[0]
        if choice.finish_reason in _ENDED and _says_nothing(choice.message.model_dump()):
            raise UnexpectedModelBehavior("the reply has neither content nor a tool call")
        return valid


def _says_nothing(message: dict[str, Any]) -> bool:
    """Whether a message has no content at all. An empty text is content: the model ended at once."""
    said = ("content", "tool_calls", "function_call", "refusal", "reasoning", "reasoning_content", "audio")
    return all(message.get(key) is None or message.get(key) == [] for key in said)


def _believed(usage: object) -> CompletionUsage | None:
    """Return the usage of a reply without what cannot be true; None when it has no total of both kinds."""
    fields = usage.model_dump(warnings=False) if isinstance(usage, CompletionUsage) else usage
    if not isinstance(fields, dict):
        return None
    counts = _counts(cast("dict[Any, Any]", fields))
    given, made = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if not isinstance(given, int) or not isinstance(made, int):
        return None
    totals = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    try:
        return CompletionUsage.model_validate({**counts, **totals})
    except ValidationError:
        return CompletionUsage.model_validate(totals)


def _counts(fields: dict[Any, Any]) -> dict[str, Any]:
    """Return the fields that are possible numbers of tokens, and of the details one level down the same."""
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(name, str) and is_count(value):
            kept[name] = value
        elif isinstance(name, str) and isinstance(value, dict):
            details = cast("dict[Any, Any]", value)
            kept[name] = {key: one for key, one in details.items() if isinstance(key, str) and is_count(one)}
    return kept
