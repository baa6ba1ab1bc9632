"""What the three dialects say: Chat Completions, Responses, and Anthropic's Messages.

A request is changed in one place only, where lessons are added; every other byte stays. Requests and replies are also
read as messages, to record them. Nothing is translated from one dialect into another.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json

from agentlearn.formats.openai_chat import Chat, ChatMessage, from_chat
from agentlearn.library.lessons import Advice, takes_advice, with_advice

_Json = Mapping[str, Any]
_CHAT = TypeAdapter(list[ChatMessage])
_COUNT = "/count_tokens"
_SPACE = re.compile(r"[ \t\r\n]*")
_DATA = re.compile(rb"^data: ?(\{.*)", re.MULTILINE)
_value_at = json.JSONDecoder().raw_decode


def is_counted(path: str) -> bool:
    """Whether a path asks how many tokens a request has, which no model answers."""
    return path.endswith(_COUNT)


def is_inference(path: str) -> bool:
    """Whether a request to this path gets lessons: a model answers it, or its tokens are counted."""
    return takes_advice(path.removesuffix(_COUNT))


def json_object(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a body; None for anything else."""
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def with_lessons(path: str, content: bytes, body: dict[str, Any], model: str, choose: Callable[[str], Advice]) -> bytes:
    """Return a request with lessons and for this model; all bytes of `content` that say something else stay.

    body: what `json_object` returned for it. choose: returns the lessons for the last user message. Raises LibraryError
    for a system message that is no text.
    """
    wanted = dict(with_advice(path.removesuffix(_COUNT), body, choose))
    if model != body.get("model"):
        wanted["model"] = model
    text = content.decode()
    start = _skip(text, 0)
    for begin, end, changed in sorted(_changes(text, start, _value_at(text, start)[1], body, wanted), reverse=True):
        text = text[:begin] + changed + text[end:]
    return text.encode()


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _values(text: str, at: int) -> Iterator[tuple[Any, int, int]]:
    """Key or place, begin and end of each value of the JSON object or list that begins at `at`."""
    is_object, place = text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: Any = place
        if is_object:
            key, at = _value_at(text, at)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        _, end = _value_at(text, at)
        yield key, at, end
        at, place = _skip(text, end), place + 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _changes(text: str, begin: int, end: int, old: Any, new: Any) -> Iterator[tuple[int, int, str]]:
    """Begin, end and new text of each place where the JSON value from `begin` to `end` differs from `new`."""
    if isinstance(old, str) and isinstance(new, str) and new.startswith(old):
        yield end - 1, end - 1, json.dumps(new[len(old) :])[1:-1]
    elif isinstance(old, dict) and isinstance(new, dict):
        known, wanted = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        places = list(_values(text, begin))
        if len(places) > len(known):  # a name stands twice, so a service may read another value than we did
            yield begin, end, json.dumps(wanted)
            return
        for key, first, last in places:
            if known[key] != wanted[key]:
                yield from _changes(text, first, last, known[key], wanted[key])
        added = {key: value for key, value in wanted.items() if key not in known}
        if added:
            yield begin + 1, begin + 1, json.dumps(added)[1:-1] + (", " if known else "")
    elif isinstance(old, list) and isinstance(new, list) and len(new := cast("list[Any]", new)) == len(old) + 1:
        known = cast("list[Any]", old)
        in_front = new[1:] == known
        at = begin + 1 if in_front else end - 1
        added = json.dumps(new[0] if in_front else new[-1])
        yield at, at, (added + ", " if in_front else ", " + added) if known else added
    elif isinstance(old, list) and isinstance(new, list):
        for place, first, last in _values(text, begin):
            if old[place] != new[place]:
                yield from _changes(text, first, last, old[place], new[place])
    else:
        yield begin, end, json.dumps(new)


@dataclass(slots=True)
class Reply:
    """What a model answered, as the parts of a dialogue."""

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Tool calls as Chat Completions writes them."""
    model: str = ""
    identity: str = ""
    """The service's name for the reply."""
    usage: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens: `input`, `cached` (read from a cache, part of the input) and `output`."""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    """Token ids and log-probabilities, where the service sent them."""
    whole: bool = True
    """Whether the reply reached its end."""

    @property
    def message(self) -> dict[str, Any]:
        """The reply as a message of a dialogue."""
        return _assistant(self.text, self.calls)


def dialogue(path: str, body: _Json) -> Chat:
    """The messages of a request, as Chat Completions writes them. Parts without text stand as `[TYPE]`."""
    if path.endswith("/messages"):
        return [*_instructions(body.get("system")), *_from_messages(_objects(body.get("messages")))]
    if path.endswith("/responses"):
        sent = body.get("input")
        items = [{"role": "user", "content": sent}] if isinstance(sent, str) else _objects(sent)
        return [*_instructions(body.get("instructions")), *_from_items(items)]
    return [_chat_message(one) for one in _objects(body.get("messages"))]


def messages_of(chat: Chat, reply: Reply | None) -> list[ModelMessage]:
    """The dialogue as pydantic-ai's messages, with the reply at its end. Raises ValueError for what is no dialogue."""
    told = chat if reply is None else [*chat, reply.message]
    messages = from_chat(_CHAT.validate_python(list(_with_calls(told))))
    last = messages[-1] if messages else None
    if reply is None or not isinstance(last, ModelResponse):
        return messages
    usage = RequestUsage(
        input_tokens=reply.usage.get("input", 0),
        cache_read_tokens=reply.usage.get("cached", 0),
        output_tokens=reply.usage.get("output", 0),
    )
    messages[-1] = replace(
        last,
        usage=usage,
        model_name=reply.model or None,
        provider_response_id=reply.identity or None,
        provider_details=reply.details or None,
    )
    return messages


def reply_of(path: str, content: bytes, *, streamed: bool) -> Reply | None:
    """What a model answered; None where the body cannot be read. A stream that was cut gives what came."""
    with suppress(ValueError, RecursionError, AttributeError, TypeError, KeyError):
        if path.endswith("/messages"):
            return _message_stream(_events(content)) if streamed else _message_reply(json.loads(content))
        if path.endswith("/responses"):
            return _response_stream(_events(content)) if streamed else _response_reply(json.loads(content))
        return _chat_stream(_events(content)) if streamed else _chat_reply(json.loads(content))
    return None


def _objects(value: object) -> list[dict[str, Any]]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]


def _text(content: object) -> str:
    """The texts of a content: a text, or parts; what is none stands as `[TYPE]`."""
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part["text"]) if isinstance(part.get("text"), str) else f"[{part.get('type', 'content')}]"
        for part in _objects(content)
    )


def _instructions(content: object) -> Chat:
    text = _text(content)
    return [{"role": "system", "content": text}] if text else []


def _call(identity: object, name: object, arguments: object) -> dict[str, Any]:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": str(identity), "type": "function", "function": {"name": str(name), "arguments": written}}


def _assistant(text: str, calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {})}


def _chat_message(message: _Json) -> dict[str, Any]:
    role = str(message.get("role", "user"))
    told = {"role": "tool" if role == "function" else role, "content": _text(message.get("content"))}
    calls = [
        _call(one.get("id", ""), one["function"].get("name", ""), one["function"].get("arguments", ""))
        for one in _objects(message.get("tool_calls"))
        if isinstance(one.get("function"), dict)
    ]
    if role == "tool":
        told["tool_call_id"] = str(message.get("tool_call_id", ""))
    return {**told, "tool_calls": calls} if calls else told


def _from_messages(messages: Sequence[_Json]) -> Iterator[dict[str, Any]]:
    """Anthropic's messages. The results of tools stand in messages of the user there."""
    for message in messages:
        content = message.get("content")
        blocks = _objects(content)
        if message.get("role") == "assistant":
            calls = [_call(one.get("id", ""), one.get("name", ""), one.get("input")) for one in blocks if _is_call(one)]
            said = [one for one in blocks if not _is_call(one) and "thinking" not in str(one.get("type"))]
            yield _assistant(_text(content if isinstance(content, str) else said), calls)
            continue
        for one in blocks:
            if one.get("type") == "tool_result":
                identity = str(one.get("tool_use_id", ""))
                yield {"role": "tool", "tool_call_id": identity, "content": _text(one.get("content"))}
        said = [one for one in blocks if one.get("type") != "tool_result"]
        if isinstance(content, str) or said:
            yield {"role": "user", "content": _text(content if isinstance(content, str) else said)}


def _is_call(block: _Json) -> bool:
    return block.get("type") == "tool_use"


def _from_items(items: Sequence[_Json]) -> Iterator[dict[str, Any]]:
    """The items of Responses: messages, calls of functions and their results."""
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            yield {"role": str(item.get("role", "user")), "content": _text(item.get("content"))}
        elif kind in {"function_call", "custom_tool_call"}:
            arguments = item.get("arguments", item.get("input", ""))
            yield _assistant("", [_call(item.get("call_id", ""), item.get("name", ""), arguments)])
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            told = item.get("output")
            content = _text(told) if isinstance(told, str | list) else json.dumps(told)
            yield {"role": "tool", "tool_call_id": str(item.get("call_id", "")), "content": content}


def _with_calls(chat: Chat) -> Iterator[dict[str, Any]]:
    """The messages with a call before each result whose call was left out, as in a conversation that was cut."""
    known = set[str]()
    for message in chat:
        known |= {one["id"] for one in message.get("tool_calls", ())}
        identity = message.get("tool_call_id")
        if message.get("role") == "tool" and identity not in known:
            yield _assistant("", [_call(identity, "unknown", "{}")])
            known.add(str(identity))
        yield message


def _tokens(usage: object, *, cached_apart: bool = False) -> dict[str, int]:
    """The tokens of a reply. cached_apart: the input does not count those that were read from or written to a cache."""
    given = cast("_Json", usage) if isinstance(usage, dict) else {}

    def number(*names: str) -> int:
        found = next((given[name] for name in names if isinstance(given.get(name), int)), 0)
        return max(int(found), 0)

    details: Any = given.get("prompt_tokens_details") or given.get("input_tokens_details") or {}
    cached = number("cache_read_input_tokens") or int(details.get("cached_tokens") or 0)
    entered = number("prompt_tokens", "input_tokens")
    if cached_apart:
        entered += cached + number("cache_creation_input_tokens")
    return {"input": entered, "cached": cached, "output": number("completion_tokens", "output_tokens")}


def _details(choice: _Json, body: _Json) -> dict[str, Any]:
    """Token ids and log-probabilities of a reply, which make it fit for training."""
    named = {
        "logprobs": choice.get("logprobs"),
        "token_ids": choice.get("token_ids"),
        "prompt_token_ids": body.get("prompt_token_ids", choice.get("prompt_token_ids")),
    }
    return {name: value for name, value in named.items() if value}


def _events(content: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events, each on one line as services write them."""
    found = _DATA.findall(content)
    with suppress(ValueError):  # all at once takes a third of the time
        return _objects(from_json(b"[%b]" % b",".join(found)))
    return [event for one in found if (event := json_object(one)) is not None]


def _chat_reply(body: _Json) -> Reply:
    choice = body["choices"][0]
    message = _chat_message(choice["message"])
    return Reply(
        text=message["content"],
        calls=message.get("tool_calls", []),
        model=str(body.get("model") or ""),
        identity=str(body.get("id") or ""),
        usage=_tokens(body.get("usage")),
        details=_details(choice, body),
    )


def _chat_stream(events: Sequence[_Json]) -> Reply:
    reply, calls = Reply(whole=False), dict[int, dict[str, Any]]()
    logprobs, ids = list[Any](), list[int]()
    for event in events:
        reply.model = reply.model or str(event.get("model") or "")
        reply.identity = reply.identity or str(event.get("id") or "")
        if event.get("usage"):
            reply.usage = _tokens(event["usage"])
        if event.get("prompt_token_ids"):
            reply.details["prompt_token_ids"] = event["prompt_token_ids"]
        choice = next((one for one in _objects(event.get("choices")) if not one.get("index")), {})
        delta: Any = choice.get("delta") or {}
        reply.text += delta.get("content") or ""
        for piece in _objects(delta.get("tool_calls")):
            call = calls.setdefault(int(piece.get("index") or 0), _call("", "", ""))
            call["id"] = call["id"] or str(piece.get("id") or "")
            said: Any = piece.get("function") or {}
            call["function"]["name"] += said.get("name") or ""
            call["function"]["arguments"] += said.get("arguments") or ""
        logprobs += (choice.get("logprobs") or {}).get("content") or []
        ids += choice.get("token_ids") or []
        reply.whole = reply.whole or bool(choice.get("finish_reason"))
    reply.calls = [calls[place] for place in sorted(calls)]
    reply.details |= _details({"logprobs": {"content": logprobs} if logprobs else None, "token_ids": ids}, {})
    return reply


def _response_reply(body: _Json) -> Reply:
    told = list(_from_items(_objects(body.get("output"))))
    return Reply(
        text="\n".join(one["content"] for one in told if one["role"] == "assistant" and one["content"]),
        calls=[call for one in told for call in one.get("tool_calls", ())],
        model=str(body.get("model") or ""),
        identity=str(body.get("id") or ""),
        usage=_tokens(body.get("usage")),
        whole=body.get("status") not in {"failed", "cancelled", "in_progress", "queued"},
    )


def _response_stream(events: Sequence[_Json]) -> Reply:
    """The last event holds the whole reply; of a stream that was cut, its texts."""
    for event in reversed(events):
        if event.get("type") in {"response.completed", "response.incomplete", "response.failed"}:
            return _response_reply(event["response"])
    text = "".join(str(one.get("delta", "")) for one in events if one.get("type") == "response.output_text.delta")
    begun: Any = next((one["response"] for one in events if isinstance(one.get("response"), dict)), {})
    return Reply(text, model=str(begun.get("model") or ""), identity=str(begun.get("id") or ""), whole=False)


def _message_reply(body: _Json) -> Reply:
    told = next(_from_messages([{"role": "assistant", "content": body["content"]}]))
    return Reply(
        text=told["content"],
        calls=told.get("tool_calls", []),
        model=str(body.get("model") or ""),
        identity=str(body.get("id") or ""),
        usage=_tokens(body.get("usage"), cached_apart=True),
    )


def _message_stream(events: Sequence[_Json]) -> Reply:
    message: dict[str, Any] = {"content": []}
    blocks, usage, whole = dict[int, dict[str, Any]](), dict[str, Any](), False
    for event in events:
        kind, place = event.get("type"), int(event.get("index") or 0)
        if kind == "message_start":
            message = {**event["message"]}
            usage |= message.get("usage") or {}
        elif kind == "content_block_start":
            blocks[place] = {**event["content_block"], "written": ""}
        elif kind == "content_block_delta" and place in blocks:
            delta = event["delta"]
            if delta.get("type") == "text_delta":
                blocks[place]["text"] = blocks[place].get("text", "") + delta.get("text", "")
            blocks[place]["written"] += delta.get("partial_json", "")
        elif kind == "message_delta":
            usage |= event.get("usage") or {}
        whole = whole or kind == "message_stop"
    for block in blocks.values():
        if written := block.pop("written"):
            block["input"] = written
    reply = _message_reply({**message, "content": [blocks[place] for place in sorted(blocks)], "usage": usage})
    reply.whole = whole
    return reply
