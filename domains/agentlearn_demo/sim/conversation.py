"""Chat requests as inputs of the simulated solver and reflector, and their answers in the form asked for."""

import json
import re
from collections.abc import Mapping
from typing import cast

from agentlearn.serving.chat_completion import AssistantMessage
from agentlearn.serving.chat_request import ChatRequest, JsonObject, Message, Tool
from agentlearn_demo.sim.draws import fingerprint
from agentlearn_demo.sim.lessons import ShownLesson, experiences_in, without_experiences
from agentlearn_demo.sim.prompts import refusals_in, stage_of
from agentlearn_demo.sim.reflector import ReflectorRequest, StageAnswer
from agentlearn_demo.sim.skills import Act, Conversation, FinalMessage, ToolExchange
from agentlearn_demo.sim.solver import IGNORANT, SolverInput

_OUTPUT_TOOL = re.compile(r"^(?:submit|final_result|answer|done)(?:_|$)")
_URL = re.compile(r"\bhttps?://\S+")
_BOXED = re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")


def solver_input(request: ChatRequest) -> SolverInput:
    """The solver's input. Lessons are read from system and user messages, never from tool results."""
    shown = _experiences(request)
    return SolverInput(
        conversations=_conversations(request),
        experiences=shown,
        seed=request_seed(request),
        temperature=request.temperature,
    )


def reflector_request(request: ChatRequest, *, malformed: float | None) -> ReflectorRequest | None:
    """The reflector's input; None if the conversation is not about one of its stages."""
    users = [message for message in request.messages if message.role == "user"]
    prompt = next((user.text for user in users if stage_of(user.text) is not None), "")
    stage = stage_of(prompt)
    if stage is None:
        return None
    said = [message for message in request.messages if message.role == "assistant"]
    refusal = users[-1].text if said and refusals_in(users[-1].text) else ""
    return ReflectorRequest(
        stage=stage,
        prompt=prompt,
        seed=request_seed(request),
        earlier=len(said),
        refusal=refusal,
        previous=_as_sent(said[-1]) if refusal else "",
        malformed=malformed,
    )


def request_seed(request: ChatRequest) -> int | str:
    """The request's seed, or a hash of its messages without lessons, so that lessons do not change random draws."""
    if request.seed is not None:
        return request.seed
    return fingerprint(*((one.role, without_experiences(one.text), _as_sent(one)) for one in request.messages))


def _experiences(request: ChatRequest) -> tuple[ShownLesson, ...]:
    spoken = (message.text for message in request.messages if message.role in {"system", "user"})
    return tuple(shown for text in spoken for shown in experiences_in(text))


def _conversations(request: ChatRequest) -> tuple[Conversation, ...]:
    """One interpretation per user message, the last first: a later message may be a new problem or only a reminder."""
    instructions = "\n\n".join(
        without_experiences(message.text) for message in request.messages if message.role == "system"
    )
    tools = tuple(tool.name for tool in request.callable_tools)
    return tuple(
        Conversation(instructions, without_experiences(message.text), tools, _turns(request.messages[at:]))
        for at, message in reversed(list(enumerate(request.messages)))
        if message.role == "user"
    )


def _turns(messages: tuple[Message, ...]) -> tuple[ToolExchange, ...]:
    """Tool calls with their results, without calls whose arguments are not a JSON object."""
    results = {message.answers: message.text for message in messages if message.role == "tool"}
    turns: list[ToolExchange] = []
    for call in (call for message in messages for call in message.calls if call.id in results):
        try:
            arguments: object = json.loads(call.arguments or "{}")
        except ValueError:
            continue
        if isinstance(arguments, dict):
            turns.append(ToolExchange(call.name, arguments, results[call.id]))
    return tuple(turns)


def _as_sent(message: Message) -> str:
    return message.calls[0].arguments if message.calls else message.text


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
        arguments = json.dumps(_filled(output.parameters, text), ensure_ascii=False)
        held = json.dumps(text, ensure_ascii=False)[1:-1] in arguments
        said = "" if held else text  # the work, where no field of the output holds it
        return AssistantMessage(said, (output.name, arguments))
    if request.schema is not None:
        return AssistantMessage(json.dumps(_filled(request.schema or _ANY_OBJECT, text), ensure_ascii=False))
    return AssistantMessage(text)


def _is_output(tool: Tool) -> bool:
    return _OUTPUT_TOOL.match(tool.name) is not None


_ANY_OBJECT: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}}


def _filled(schema: JsonObject, text: str) -> object:
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
