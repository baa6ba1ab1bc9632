"""Put a simulated model's answer into the form that the request asked for: text, a tool call, or JSON."""

import json
import re
from collections.abc import Mapping
from typing import cast

from agentlearn.serving.chat_completion import AssistantMessage
from agentlearn.serving.chat_request import ChatRequest, JsonObject, Tool
from agentlearn_demo.sim.malformed import StageAnswer
from agentlearn_demo.sim.novice import IGNORANT
from agentlearn_demo.sim.skills import Act, FinalMessage

_OUTPUT_TOOL = re.compile(r"^(?:submit|final_result|answer|done)(?:_|$)")
_URL = re.compile(r"\bhttps?://\S+")
_BOXED = re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")


def stage_answer(reply: StageAnswer, key: str, request: ChatRequest) -> AssistantMessage:
    """A stage's answer as a call of the output tool if there is one, else as JSON text."""
    tool = next((tool for tool in request.callable_tools if key in tool.properties or _is_output(tool)), None)
    return AssistantMessage(call=(tool.name, reply.text)) if tool and reply.structured else AssistantMessage(reply.text)


def act_answer(act: Act, request: ChatRequest) -> AssistantMessage:
    """The solver's act as a message. An unavailable tool is not called; a final message fills an output tool."""
    if isinstance(act, FinalMessage):
        return _said(act.text, request)
    if act.tool not in {tool.name for tool in request.callable_tools}:
        return _said(IGNORANT.text, request)
    return AssistantMessage(act.text, (act.tool, json.dumps(dict(act.arguments), ensure_ascii=False)))


def _said(text: str, request: ChatRequest) -> AssistantMessage:
    tools = request.callable_tools
    output = next((tool for tool in tools if _is_output(tool)), None)
    if output is None and tools and request.choice != "auto":
        output = tools[0]
    if output is not None:
        arguments = json.dumps(filled(output.parameters, text), ensure_ascii=False)
        held = json.dumps(text, ensure_ascii=False)[1:-1] in arguments
        said = "" if held else text  # the work, where no field of the output holds it
        return AssistantMessage(said, (output.name, arguments))
    if request.schema is not None:
        return AssistantMessage(json.dumps(filled(request.schema or _ANY_OBJECT, text), ensure_ascii=False))
    return AssistantMessage(text)


def _is_output(tool: Tool) -> bool:
    return _OUTPUT_TOOL.match(tool.name) is not None


_ANY_OBJECT: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}}


def filled(schema: JsonObject, text: str) -> object:
    """The simplest value of the schema that contains the text."""
    return _value(schema, "", text, cast("Mapping[str, JsonObject]", schema.get("$defs") or {}))


def _value(schema: JsonObject, name: str, text: str, definitions: Mapping[str, JsonObject]) -> object:
    if reference := str(schema.get("$ref") or ""):
        return _value(definitions.get(reference.rpartition("/")[2], {}), name, text, definitions)
    if choices := cast("list[JsonObject]", schema.get("anyOf") or schema.get("oneOf") or []):
        return _value(choices[0], name, text, definitions)
    if options := cast("list[object]", schema.get("enum") or []):
        return options[0]
    properties = cast("Mapping[str, JsonObject]", schema.get("properties") or {})
    match schema.get("type"):
        case "object":
            return {key: _value(one, key, text, definitions) for key, one in properties.items()}
        case "array":
            return []
        case "integer" | "number" as kind:
            return _number(text, whole=kind == "integer")
        case "boolean":
            return False
        case "null":
            return None
        case _:
            if name == "url":
                return next(iter(_URL.findall(text)), "")
            boxed = _BOXED.findall(text)
            return boxed[-1] if boxed and name == "answer" else text


def _number(text: str, *, whole: bool) -> int | float:
    """The number in the last box of the text; 0 when there is none."""
    boxed = _BOXED.findall(text)
    try:
        return int(boxed[-1]) if whole else float(boxed[-1])
    except (IndexError, ValueError):
        return 0
