"""A task of bfcl-eval as messages and tools for a model, and the model's tool calls as bfcl-eval writes them."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from agentlearn_adapters.bfcl.leaderboard import functions_for_models, type_names


def messages_of(messages: Sequence[Mapping[str, str]]) -> list[ModelMessage]:
    """Return the messages of a task, in order."""
    return [_message(one["role"], one["content"]) for one in messages]


def _message(role: str, content: str) -> ModelMessage:
    match role:
        case "assistant":
            return ModelResponse(parts=[TextPart(content)])
        case "system" | "developer":
            return ModelRequest(parts=[SystemPromptPart(content)])
        case _:
            return ModelRequest(parts=[UserPromptPart(content)])


def tools_of(fields: Mapping[str, Any]) -> list[ToolDefinition]:
    """Return the functions of a task as tools. Model services refuse dots in names, so they become underscores."""
    return [
        ToolDefinition(
            name=function["name"].replace(".", "_"),
            description=function["description"],
            parameters_json_schema=json_schema(function["parameters"], type_names()),
        )
        for function in functions_for_models(fields)
    ]


def json_schema(parameters: Mapping[str, Any], types: Mapping[str, str], *, of_item: bool = False) -> dict[str, Any]:
    """Return the parameters of a function with types as JSON Schema names them; unknown types become strings.

    types: JSON Schema's name of each type that bfcl-eval uses. of_item: whether this describes the items of a list.
    """
    schema = deepcopy(dict(parameters))
    named = schema.get("type", "string")
    if named == "float" and not of_item:
        schema["format"] = "float"
        schema["description"] = f"{schema.get('description', '')} This is a float type value."
    schema["type"] = types.get(named, "string")
    if schema["type"] == "object" and "properties" in schema:
        schema["properties"] = {name: json_schema(one, types) for name, one in schema["properties"].items()}
    elif schema["type"] == "array" and "items" in schema:
        schema["items"] = json_schema(schema["items"], types, of_item=True)
    return schema


def calls_of(response: ModelResponse) -> list[dict[str, Any]]:
    """Return the tool calls, each as `{name: arguments}`. Arguments that are no JSON object stay as they are."""
    return [{part.tool_name: _arguments(part)} for part in response.parts if isinstance(part, ToolCallPart)]


def _arguments(call: ToolCallPart) -> Any:
    try:
        return call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError, TypeError):
        return call.args
