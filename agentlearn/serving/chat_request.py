"""Chat completion requests, parsed and checked or refused as a real service would, and responses, whole or streamed.

Assistant messages are kept verbatim, so a conversation that continues starts with exactly the text sampled before.
`TEMPLATE` renders the same text with jinja; a test compares the two.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from agentlearn.serving.http11 import HttpResponse

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

    @classmethod
    def read(cls, value: object, at: int) -> "Message":
        """Read the message at this place of a request. Raises RequestRefused (400)."""
        sent = _object(value)
        role = "system" if sent.get("role") == "developer" else str(sent.get("role"))
        if role not in _ROLES:
            raise _invalid(f"'messages[{at}].role': {sent.get('role')!r}.")
        content, calls = sent.get("content"), list[CallInMessage]()
        if isinstance(content, list):  # the joined text parts
            content = "\n".join(str(_object(part).get("text") or "") for part in cast("list[object]", content))
        for one in map(_object, _list(sent.get("tool_calls"))):
            function = _object(one.get("function"))
            named = (one.get("id"), function.get("name"), function.get("arguments"))
            calls.append(CallInMessage(*(str(part or "") for part in named)))
        text = content if isinstance(content, str) else ""
        return cls(role, text, tuple(calls), answers=str(sent.get("tool_call_id") or ""))

    @property
    def meaning(self) -> tuple[object, ...]:
        """What an answer says. Clients may change the white space in arguments."""

        def value(arguments: str) -> object:
            try:
                return json.loads(arguments)
            except ValueError:
                return arguments

        return self.text, [(call.name, value(call.arguments)) for call in self.calls]

    def written(self) -> str:
        """Return text and calls of a message: verbatim if known, else with each call on its own lines."""
        if self.verbatim:
            return self.verbatim
        between = "\n" if self.calls and self.text and not self.text.endswith("\n") else ""
        bodies = (
            f'{{"name": {json.dumps(one.name, ensure_ascii=False)}, "arguments": {one.arguments}}}'
            for one in self.calls
        )
        return self.text + between + "\n".join(f"{CALL}{body}{CALL_END}" for body in bodies)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call."""

    name: str
    parameters: JsonObject
    size: str
    """The whole definition as JSON; token counts are estimated from it."""

    @classmethod
    def read(cls, value: object, at: int) -> "Tool":
        """Read the tool at this place of a request. Raises RequestRefused (400)."""
        function = _object(_object(value).get("function"))
        if not isinstance(function.get("name"), str):
            raise RequestRefused(400, f"Missing required parameter: 'tools[{at}].function.name'.", code="invalid_value")
        return cls(str(function["name"]), _object(function.get("parameters")), json.dumps(function))

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
_ROLES = frozenset({"system", "user", "assistant", "tool"})


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
    if sent.get("n") not in (None, 1):
        raise RequestRefused(400, "Only 'n': 1 is supported here.", code="unsupported_value")
    read = tuple(Message.read(one, at) for at, one in enumerate(messages))
    tools = tuple(Tool.read(one, at) for at, one in enumerate(_list(sent.get("tools"))))
    match sent.get("tool_choice"):
        case None:
            choice = "auto"
        case "auto" | "none" | "required" | {"function": {"name": str()}} as chosen:
            choice = chosen if isinstance(chosen, str) else str(cast("Any", chosen)["function"]["name"])
        case other:
            raise _invalid(f"'tool_choice': {other!r}.")
    wanted = _object(sent.get("response_format"))
    schema: JsonObject | None = {} if wanted.get("type") == "json_object" else None
    if wanted.get("type") == "json_schema":
        schema = _object(_object(wanted.get("json_schema")).get("schema"))
    return ChatRequest(
        model=str(sent["model"]),
        messages=read,
        tools=tools,
        choice=choice,
        schema=schema,
        seed=_number(sent, "seed", int),
        temperature=_number(sent, "temperature", float),
        max_tokens=_number(sent, "max_completion_tokens", int) or _number(sent, "max_tokens", int),
        top_p=_number(sent, "top_p", float),
        top_k=_number(sent, "top_k", int),
        min_p=_number(sent, "min_p", float),
        logprobs=sent.get("logprobs") is True,
        token_ids=sent.get("return_token_ids") is True,
        stream=sent.get("stream") is True,
        stream_usage=_object(sent.get("stream_options")).get("include_usage") is True,
        others={name: value for name, value in sent.items() if name not in _READ},
    )


def _number(sent: JsonObject, name: str, kind: type[int] | type[float]) -> Any:
    """The number of this name; None when it is not given."""
    value = sent.get(name)
    if value is None or (isinstance(value, (int, kind)) and not isinstance(value, bool)):
        return value
    raise _invalid(f"'{name}': {value!r}; {'an integer' if kind is int else 'a number'} is needed.")


def _invalid(what: str) -> RequestRefused:
    return RequestRefused(400, f"Invalid value for {what}", code="invalid_value")


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A model's answer, split into text and tool calls."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Tool name and arguments of each call. Arguments are the JSON text that the model wrote."""


class ChatFormat(Protocol):
    """One model's tokenizer and chat template."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return the prompt: the conversation, and the text that starts the assistant's answer.

        A message's `verbatim` text is used unchanged. Raises RequestRefused (400) for messages it cannot render.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text. Special tokens are recognised; none is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, special tokens included."""
        ...

    def parse(self, text: str, tools: Sequence[Tool], *, prompt: str) -> ParsedAnswer:
        """Parse an answer without its stop token. Text that is not a valid call stays text.

        tools: those that were offered. prompt: what the model read; a template may write the start of an answer itself.
        """
        ...


START = "<|im_start|>"
END = "<|im_end|>"
CALL = "<tool_call>\n"
CALL_END = "\n</tool_call>"
TOOLS = "Tools: "
ANSWER = f"{START}assistant\n"

TEMPLATE = """\
{%- set ns = namespace(system='', tools='') -%}
{%- for tool in tools or [] -%}
{%- set ns.tools = ns.tools + (', ' if ns.tools else '') + tool.function.name -%}
{%- endfor -%}
{%- for message in messages if message.role in ['system', 'developer'] and message.content -%}
{%- set ns.system = ns.system + ('\n\n' if ns.system else '') + message.content -%}
{%- endfor -%}
{%- if ns.tools -%}{%- set ns.system = ns.system + ('\n\n' if ns.system else '') + 'Tools: ' + ns.tools -%}{%- endif -%}
{%- if ns.system -%}{{- '<|im_start|>system\n' + ns.system + '<|im_end|>\n' -}}{%- endif -%}
{%- for message in messages if message.role not in ['system', 'developer'] -%}
{%- set said = message.content or '' -%}
{{- '<|im_start|>' + message.role + '\n' + said -}}
{{- '\n' if message.tool_calls and said and not said.endswith('\n') else '' -}}
{%- for call in message.tool_calls or [] -%}
{%- set function = call.function or call -%}
{{- '\n' if not loop.first else '' -}}
{{- '<tool_call>\n{"name": ' + function.name | tojson + ', "arguments": ' -}}
{%- if function.arguments is string -%}{{- function.arguments -}}
{%- else -%}{{- function.arguments | tojson(separators=(',', ':')) -}}{%- endif -%}
{{- '}\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""
"""For `tokenizer.chat_template`. Arguments are written without white space, as pydantic-ai sends them."""


def conversation_text(messages: Sequence[Message], tools: Sequence[str] = (), *, answer: bool = True) -> str:
    """Return the conversation as text. tools: their names; answer: whether to add the start of an answer."""
    turns = (f"{START}{one.role}\n{one.written()}{END}\n" for one in messages if one.role != "system")
    return system_text(messages, tools) + "".join(turns) + (ANSWER if answer else "")


def system_text(messages: Sequence[Message], tools: Sequence[str] = ()) -> str:
    """Return the system message: the text of all system messages, and the names of the tools."""
    said = [message.text for message in messages if message.role == "system" and message.text]
    offered = [TOOLS + ", ".join(tools)] if tools else []
    return f"{START}system\n" + "\n\n".join(said + offered) + f"{END}\n" if said or offered else ""


_PIECE = re.compile(r".{1,24}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer with all fields of a chat completion response."""

    id: str
    model: str
    text: str
    calls: tuple[tuple[str, str, str], ...]
    """Id, tool name and arguments of each tool call."""
    finish: str
    prompt_tokens: int
    answer_tokens: int
    created: int
    served_by: str
    cached_tokens: int = 0
    """Number of prompt tokens that did not have to be computed."""
    prompt_ids: tuple[int, ...] | None = None
    """Tokens of the prompt, if they were asked for."""
    ids: tuple[int, ...] | None = None
    """Tokens of the answer, if they were asked for."""
    token_logprobs: tuple[tuple[str, float], ...] | None = None
    """Text and log-probability of each answer token, if they were asked for."""

    @property
    def usage(self) -> JsonObject:
        """Token counts in OpenAI's form."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.answer_tokens,
            "total_tokens": self.prompt_tokens + self.answer_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    @property
    def logprobs(self) -> JsonObject | None:
        """Log-probabilities in OpenAI's form."""
        if self.token_logprobs is None:
            return None
        content = [
            {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
            for text, logprob in self.token_logprobs
        ]
        return {"content": content, "refusal": None}

    def body(self) -> bytes:
        """Return the completion as one JSON body."""
        message: dict[str, object] = {"role": "assistant", "content": self.text or None, "refusal": None}
        if self.calls:
            message["tool_calls"] = [_call(*call) for call in self.calls]
        choice = {"index": 0, "message": message, **self._end}
        body = {**self._head("chat.completion"), "choices": [choice], "usage": self.usage, **self._prompt}
        return json.dumps(body).encode()

    def events(self, *, with_usage: bool) -> list[bytes]:
        """Return the completion as server-sent events, the final `[DONE]` included."""
        deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _PIECE.findall(self.text)]
        for index, (identity, tool, arguments) in enumerate(self.calls):
            deltas.append({"tool_calls": [{"index": index, **_call(identity, tool, "")}]})
            pieces = _PIECE.findall(arguments)
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
        head, choice = self._head("chat.completion.chunk"), {"index": 0, "logprobs": None, "finish_reason": None}
        chunks: list[JsonObject] = [{**head, "choices": [{**choice, "delta": delta}]} for delta in deltas]
        chunks[0] = {**chunks[0], **self._prompt}
        # The chunks above are pieces of text, so the tokens are all sent at the end.
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, **self._end}]})
        if with_usage:
            chunks.append({**head, "choices": [], "usage": self.usage})
        return [*(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks), b"data: [DONE]\n\n"]

    def response(self, request: ChatRequest) -> HttpResponse:
        """Return the completion as it was asked for: whole, or as a stream."""
        if not request.stream:
            return HttpResponse(200, self.body())
        events = self.events(with_usage=request.stream_usage)
        return HttpResponse(200, pieces=events, content_type="text/event-stream")

    def _head(self, kind: str) -> JsonObject:
        named = {"id": self.id, "object": kind, "created": self.created}
        return {**named, "model": self.model, "system_fingerprint": self.served_by}

    @property
    def _end(self) -> JsonObject:
        ids = {} if self.ids is None else {"token_ids": list(self.ids)}
        return {"logprobs": self.logprobs, "finish_reason": self.finish, **ids}

    @property
    def _prompt(self) -> JsonObject:
        return {} if self.prompt_ids is None else {"prompt_token_ids": list(self.prompt_ids)}


def _call(identity: str, tool: str, arguments: str) -> JsonObject:
    return {"id": identity, "type": "function", "function": {"name": tool, "arguments": arguments}}
