"""Our model as a model of inspect_ai: messages and tools become pydantic-ai's, and its response an output."""

import json
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    StopReason,
    get_model,
    modelapi,
)
from inspect_ai.tool import ToolCall, ToolChoice, ToolFunction, ToolInfo
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentlearn.errors import ToolError
from agentlearn_adapters.foreign_domain import ModelCalls, joined, text_of

_STOPS: dict[str | None, StopReason] = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


ASKED: "ContextVar[ModelCalls]" = ContextVar("asked")
"""The calls of the rollout that runs."""


@modelapi("agentlearn")
class _RolloutModel(ModelAPI):
    """The model of the rollout that runs. Limits, retries and the record are ours, so inspect_ai adds none."""

    async def generate(
        self,
        input: list[ChatMessage],  # noqa: A002 - the name that inspect_ai gives
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput:
        """Return the model's response."""
        offered = [] if tool_choice == "none" else [_tool(one) for one in tools]
        settings = _settings(config, tool_choice if offered else None)
        response = await ASKED.get().ask(_messages_of(input), offered, settings)
        return _output_of(response)

    async def count_tokens(self, input: str | list[ChatMessage], config: GenerateConfig | None = None) -> int:  # noqa: A002
        """Return a rough number of tokens. inspect_ai's own count loads a tokenizer from the internet."""
        text = input if isinstance(input, str) else "".join(one.text for one in input)
        return len(text) // 4

    def max_connections(self) -> int:
        """Return a number that limits nothing: the run has its own limit."""
        return 4096


def rollout_model() -> Model:
    """Return the model of the rollout that runs."""
    return get_model("agentlearn/rollout")


def _messages_of(chat: Sequence[ChatMessage]) -> list[ModelMessage]:
    """Return inspect_ai's messages as pydantic-ai's. Raises ToolError for audio, video and documents."""
    return joined(_message(one) for one in chat)


def _message(message: ChatMessage) -> ModelMessage:
    match message:
        case ChatMessageSystem():
            return ModelRequest(parts=[SystemPromptPart(message.text)])
        case ChatMessageAssistant():
            called = [ToolCallPart(one.function, one.arguments, one.id) for one in message.tool_calls or ()]
            return ModelResponse(parts=[*([TextPart(message.text)] if message.text else []), *called])
        case ChatMessageTool():
            text = message.error.message if message.error else message.text
            outcome = "failed" if message.error else "success"
            return ModelRequest(
                parts=[ToolReturnPart(message.function or "", text, message.tool_call_id or "", outcome=outcome)]
            )
        case _:
            content = message.content
            return ModelRequest(parts=[UserPromptPart(content if isinstance(content, str) else _parts(content))])


def _parts(content: Sequence[Content]) -> list[UserContent]:
    return [_part(one) for one in content if not isinstance(one, ContentReasoning)]


def _part(content: Content) -> UserContent:
    match content:
        case ContentText():
            return content.text
        case ContentImage() if content.image.startswith("data:"):
            return BinaryContent.from_data_uri(content.image)
        case ContentImage():
            return ImageUrl(content.image)
        case _:
            raise ToolError(
                f"a message has content of the type {content.type!r}, which is not sent", code="bad_content"
            )


def _tool(tool: ToolInfo) -> ToolDefinition:
    schema = tool.parameters.model_dump(mode="json", exclude_none=True)
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=schema)


def _settings(config: GenerateConfig, choice: ToolChoice | None) -> ModelSettings:
    """Return what the task asks of the model, as far as every service knows it."""
    given: dict[str, Any] = {
        "max_tokens": config.max_tokens,
        "temperature": config.temperature,
        "top_p": config.top_p,
        "stop_sequences": config.stop_seqs,
    }
    if isinstance(choice, ToolFunction):
        given["tool_choice"] = [choice.name]
    elif choice == "any":
        given["tool_choice"] = "required"
    return ModelSettings(**{name: value for name, value in given.items() if value is not None})  # pyright: ignore[reportArgumentType]


def _output_of(response: ModelResponse) -> ModelOutput:
    """Return pydantic-ai's response as the output of inspect_ai."""
    called = [_call(part) for part in response.parts if isinstance(part, ToolCallPart)]
    message = ChatMessageAssistant(content=text_of(response), tool_calls=called or None, source="generate")
    stop = "tool_calls" if called else _STOPS.get(response.finish_reason, "stop")
    usage = response.usage
    return ModelOutput(
        model=response.model_name or "",
        choices=[ChatCompletionChoice(message=message, stop_reason=stop)],
        usage=ModelUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.input_tokens + usage.output_tokens,
        ),
    )


def _call(part: ToolCallPart) -> ToolCall:
    try:
        return ToolCall(part.tool_call_id, part.tool_name, part.args_as_dict(raise_if_invalid=True))
    except (ValueError, AssertionError, TypeError) as error:
        args = part.args if isinstance(part.args, str) else json.dumps(part.args)
        return ToolCall(
            part.tool_call_id, part.tool_name, {}, parse_error=f"the arguments {args} are no object: {error}"
        )
