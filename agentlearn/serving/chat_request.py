"""Chat completion requests: parsed and checked, or refused with the error that a real service would send."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

JsonObject = Mapping[str, object]


class RequestRefused(Exception):
    """A request that is answered with an error, in the form of OpenAI's service."""

    def __init__(self, status: int, message: str, *, code: str, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind

    @property
    def body(self) -> JsonObject:
        """The error as JSON."""
        return {"error": {"message": self.message, "type": self.kind, "param": None, "code": self.code}}


@dataclass(frozen=True, slots=True)
class CallInMessage:
    """A tool call in an assistant's message."""

    id: str
    name: str
    arguments: str
    """Arguments as JSON text, exactly as written."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation."""

    role: str
    """`system` (also for `developer`), `user`, `assistant` or `tool`."""
    text: str
    calls: tuple[CallInMessage, ...] = ()
    answers: str = ""
    """Id of the call that a tool message answers."""
    verbatim: str = ""
    """Exact text that the model wrote, if known; it replaces text and calls when the prompt is rendered."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call."""

    name: str
    parameters: JsonObject
    size: str
    """The whole definition as JSON; token counts are estimated from it."""

    @property
    def properties(self) -> JsonObject:
        """The schemas of its parameters, by name."""
        return _object(self.parameters.get("properties"))


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request for a chat completion."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    """`auto`, `none`, `required`, or the name of the one tool that must be called."""
    schema: JsonObject | None = None
    """JSON schema of the requested answer; empty: any JSON object; None: text."""
    seed: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    logprobs: bool = False
    token_ids: bool = False
    """Whether to return the token ids of prompt and answer (`return_token_ids`)."""
    stream: bool = False
    stream_usage: bool = False
    others: JsonObject = field(default_factory=dict[str, object])
    """All other fields of the request, by name."""

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that `choice` allows."""
        match self.choice:
            case "none":
                return ()
            case "auto" | "required":
                return self.tools
            case name:
                return tuple(tool for tool in self.tools if tool.name == name)


_READ = frozenset(
    {
        *("model", "messages", "n", "tools", "tool_choice", "response_format", "seed", "temperature", "top_p", "top_k"),
        *("min_p", "max_tokens", "max_completion_tokens", "logprobs", "return_token_ids", "stream", "stream_options"),
    }
)
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def chat_request(body: bytes) -> ChatRequest:
    """Parse a request body. Raises RequestRefused (400) for a field with an invalid value."""
    try:
        value: object = json.loads(body)
    except ValueError as error:
        raise RequestRefused(
            400, f"We could not parse the JSON body of your request: {error}", code="invalid_json"
        ) from None
    if not isinstance(value, dict):
        raise RequestRefused(400, "The body of a request is a JSON object.", code="invalid_json")
    sent = cast("JsonObject", value)
    messages = sent.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestRefused(400, "Missing required parameter: 'messages'.", code="missing_required_parameter")
    if not isinstance(sent.get("model"), str):
        raise RequestRefused(400, "Missing required parameter: 'model'.", code="missing_required_parameter")
    if sent.get("n") not in {None, 1}:
        raise RequestRefused(400, "Only 'n': 1 is supported here.", code="unsupported_value")
    return ChatRequest(
        model=str(sent["model"]),
        messages=tuple(_message(one, at) for at, one in enumerate(messages)),
        tools=tuple(_tool(one, at) for at, one in enumerate(_list(sent.get("tools")))),
        choice=_choice(sent.get("tool_choice")),
        schema=_schema(_object(sent.get("response_format"))),
        seed=_integer(sent, "seed"),
        temperature=_real(sent, "temperature"),
        max_tokens=_integer(sent, "max_completion_tokens") or _integer(sent, "max_tokens"),
        top_p=_real(sent, "top_p"),
        top_k=_integer(sent, "top_k"),
        min_p=_real(sent, "min_p"),
        logprobs=sent.get("logprobs") is True,
        token_ids=sent.get("return_token_ids") is True,
        stream=sent.get("stream") is True,
        stream_usage=_object(sent.get("stream_options")).get("include_usage") is True,
        others={name: value for name, value in sent.items() if name not in _READ},
    )


def _message(value: object, at: int) -> Message:
    sent = _object(value)
    role = _ROLES.get(str(sent.get("role")))
    if role is None:
        raise RequestRefused(
            400, f"Invalid value for 'messages[{at}].role': {sent.get('role')!r}.", code="invalid_value"
        )
    return Message(
        role=role,
        text=_text(sent.get("content")),
        calls=tuple(_called(one) for one in _list(sent.get("tool_calls"))),
        answers=str(sent.get("tool_call_id") or ""),
    )


def _text(content: object) -> str:
    """The content as text: a string, or the joined text parts of a list."""
    if isinstance(content, list):
        return "\n".join(str(_object(part).get("text") or "") for part in cast("list[object]", content))
    return content if isinstance(content, str) else ""


def _called(value: object) -> CallInMessage:
    sent = _object(value)
    function = _object(sent.get("function"))
    return CallInMessage(
        str(sent.get("id") or ""), str(function.get("name") or ""), str(function.get("arguments") or "")
    )


def _tool(value: object, at: int) -> Tool:
    function = _object(_object(value).get("function"))
    if not isinstance(function.get("name"), str):
        raise RequestRefused(400, f"Missing required parameter: 'tools[{at}].function.name'.", code="invalid_value")
    return Tool(str(function["name"]), _object(function.get("parameters")), json.dumps(function))


def _choice(value: object) -> str:
    match value:
        case None:
            return "auto"
        case "auto" | "none" | "required":
            return str(value)
        case {"function": {"name": str(name)}}:
            return name
        case _:
            raise RequestRefused(400, f"Invalid value for 'tool_choice': {value!r}.", code="invalid_value")


def _schema(response_format: JsonObject) -> JsonObject | None:
    match response_format.get("type"):
        case "json_schema":
            return _object(_object(response_format.get("json_schema")).get("schema"))
        case "json_object":
            return {}
        case _:
            return None


def _integer(sent: JsonObject, name: str) -> int | None:
    value = sent.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise RequestRefused(400, f"Invalid value for '{name}': {value!r}; an integer is needed.", code="invalid_value")


def _real(sent: JsonObject, name: str) -> float | None:
    value = sent.get(name)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise RequestRefused(400, f"Invalid value for '{name}': {value!r}; a number is needed.", code="invalid_value")


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
