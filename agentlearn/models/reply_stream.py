"""Puts the events of a streamed reply together: the body that the service would have sent without a stream.

The events stand in server-sent events, or are lines of JSON. Services differ in how they cut a reply: they repeat ids
and names, leave indexes out or give all calls one, send the usage anywhere, or a last event without what was streamed.
An error among the events, and a stream that never says that it is over, are in the body as its `error`.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from agentlearn.models.reply import UnreadReply, fields_of, part_says, read_items, text_of, words_in, written

_Event = dict[str, Any]
_DATA = re.compile(rb"^(?:data:[ \t]*)?(\{.*)", re.MULTILINE)
"""A line with an object. Lines without `data:` are JSON lines, or an error that a proxy has put behind the events."""
_FIELD = re.compile(rb"(?:event|id|retry)?:")
_NAMED_ERROR = re.compile(rb"^event:[ \t]*error", re.MULTILINE)
_DONE = re.compile(rb"^data:[ \t]*\[DONE\]", re.MULTILINE)
_SET = frozenset(("id", "type", "role", "name", "model", "object", "finish_reason", "stop_reason"))
"""Texts that are sent whole; all others are sent in pieces."""
_CUT = "the stream ended before the reply did"


def read_body(content: bytes) -> tuple[Any, bool]:
    """Return the JSON of a body, and whether it was put together from a stream. Raises ValueError for neither."""
    try:
        return json.loads(content), False
    except ValueError:
        events = _events(content)
        if not events:
            raise
    over = _DONE.search(content, max(0, content.rfind(b"[DONE]") - 16)) is not None
    kinds = {text_of(one.get("type")).partition(".")[0] for one in events[:8]}
    try:
        if any("choices" in one for one in events):
            body = _chat(events, over=over)
        elif "response" in kinds:
            body = _response(events)
        elif kinds & {"message_start", "content_block_start", "content_block_delta", "message_delta"}:
            body = _message(events, over=over)
        else:
            body = dict(events[-1])
    except (AttributeError, KeyError, TypeError) as error:
        raise UnreadReply(f"the events of the stream have another form ({error})") from error
    errors = (one.get("error") or (one if one.get("type") == "error" else None) for one in events)
    body["error"] = next(filter(None, errors), body.get("error"))
    return body, True


def _events(content: bytes) -> list[_Event]:
    """The objects of a stream. One that cannot be read is an error."""
    plain = content.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in plain:  # JSON has no bare line ends
        plain = plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"event:" not in plain or not _NAMED_ERROR.search(plain):  # the pattern alone takes ten times as long
        with suppress(ValueError):  # all at once takes a third of the time
            return from_json(b"[%b]" % b",".join(_DATA.findall(plain)))
    return [event for block in plain.split(b"\n\n") for event in _events_in(block)]


def _events_in(block: bytes) -> list[_Event]:
    """The objects between two blank lines: all lines are one, or each is one."""
    lines = block.split(b"\n")
    data = [one.removeprefix(b"data:") for one in lines if one.startswith(b"data:") or not _FIELD.match(one)]
    whole = b"\n".join(data)
    found: list[_Event] = [{"error": f"an event of the stream is not JSON: {whole[:80].decode(errors='replace')!r}"}]
    for texts in (data, [whole]):
        with suppress(ValueError, RecursionError):
            found = [json.loads(one) for one in texts if one.lstrip().startswith(b"{")]
    if not _NAMED_ERROR.search(block):
        return found
    return [one if one.get("error") else {"error": one} for one in found] or [{"error": whole.decode(errors="replace")}]


def _grow(held: _Event, more: _Event) -> None:
    """Add a piece of an object: pieces of texts and lists go on, and what is empty, zero or null says nothing."""
    for name, value in more.items():
        now = held.pop(name, None)  # a text that nothing else holds grows in place
        if not value or not now:
            now = value or (value if now is None else now)
        elif isinstance(now, dict) and isinstance(value, dict):
            _grow(now, value)
        elif isinstance(now, list):
            now.extend(value if isinstance(value, list) else [value])
        elif isinstance(now, str) and isinstance(value, list):
            now = [now, *value]
        elif isinstance(now, str) and name not in _SET:
            now += value
        else:
            now = value
        held[name] = now


# Chat Completions


_OF_CHOICE = ("finish_reason", "error", "usage", "logprobs", "token_ids", "prompt_token_ids")


def _chat(events: Sequence[_Event], *, over: bool) -> _Event:
    names = ("id", "model", "created", "prompt_token_ids")
    body: _Event = {name: next((one[name] for one in events if one.get(name)), None) for name in names}
    body["usage"] = {}
    choices: dict[int, _Event] = {}
    for event in events:
        if usage := event.get("usage") or (event.get("x_groq") or {}).get("usage"):
            _grow(body["usage"], usage)
        for choice in event.get("choices") or ():
            index = choice.get("index") or 0
            if index not in choices:
                choices[index] = {"index": index, "message": {}, "calls": [], "whole": {}}
            _add_piece(choices[index], choice)
    for choice in choices.values():
        calls, whole = choice.pop("calls"), choice.pop("whole")
        choice["message"] |= {"tool_calls": calls} if calls else {}
        if not any(value for name, value in choice["message"].items() if name != "role"):
            choice["message"] |= whole or {"content": ""}
    body["choices"] = [choices[index] for index in sorted(choices)]
    if choices and not over and not body["choices"][0].get("finish_reason"):
        body["error"] = _CUT
    return body


def _add_piece(held: _Event, choice: _Event) -> None:
    """Add to a choice what one event says."""
    delta, message = choice.get("delta"), choice.get("message")
    if delta is not None:
        if "tool_calls" in delta or "function_call" in delta:
            delta = {**delta}
            calls, old = delta.pop("tool_calls", None) or (), delta.pop("function_call", None)
            for piece in (*calls, *([{"index": 0, "function": old}] if old else ())):
                _add_call(held["calls"], piece)
        _grow(held["message"], delta)
    elif message is not None:  # whole, whole up to here, or a piece
        before, now = text_of(held["whole"].get("content")), text_of(message.get("content"))
        held["whole"] = message if now.startswith(before) else {**message, "content": before + now}
    elif choice.get("text"):
        _grow(held["message"], {"content": choice["text"]})
    for name in _OF_CHOICE:
        if (value := choice.get(name)) and value not in ("null", "none"):  # with each event, some services say so
            _grow(held, {name: value})


def _add_call(calls: list[_Event], piece: _Event) -> None:
    function = piece.get("function") or piece.get("custom") or piece
    identity, name = text_of(piece.get("id")), text_of(function.get("name"))
    given = function.get("arguments", function.get("input"))
    arguments = "" if given is None else written(given)
    call = _continued(calls, piece.get("index"), identity, name, arguments)
    if call is None:
        calls.append({"index": piece.get("index"), "id": identity, "name": "", "arguments": ""})
        call = calls[-1]
    elif arguments == call["arguments"] and call["id"] and (identity or name) and _is_whole(arguments):
        return  # the call was sent once more
    call["id"] = call["id"] or identity
    call["extra_content"] = call.get("extra_content") or piece.get("extra_content")
    call["name"] = name if name.startswith(call["name"]) else call["name"] + name
    if arguments:  # some services send {} before the first piece
        call["arguments"] = arguments if call["arguments"] == "{}" else call["arguments"] + arguments


def _is_whole(arguments: str) -> bool:
    """Whether arguments are a whole object, so that nothing can follow."""
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(arguments), dict)
    return False


def _continued(calls: list[_Event], index: object, identity: str, name: str, arguments: str) -> _Event | None:
    """The call that a piece goes on with; None when it begins another one.

    Another id begins another call, if it has a name: some services give each piece a new id. Another name does, unless
    it is a piece of one: the arguments are not finished, or there are none yet and the id is the same.
    """
    placed = calls if index is None else [one for one in calls if one["index"] == index]
    same = [one for one in calls if identity and one["id"] == identity and (one in placed or not name)]
    if not same and identity and name and calls and calls[-1]["id"]:
        return None
    found = same or placed or ([] if name else calls)  # some services count the index on within a call
    if not found or not name or not found[-1]["name"]:
        return found[-1] if found else None
    call = found[-1]
    if not call["arguments"]:
        goes_on = name == call["name"] or bool(same) or bool(call["id"] and not arguments)
    elif _is_whole(call["arguments"]):
        repeats = arguments == call["arguments"] and bool(call["id"])
        goes_on = name == call["name"] and (repeats or not arguments.lstrip().startswith("{"))
    else:
        goes_on = True
    return call if goes_on else None


# Responses

_ITEMS = {
    "output_text": ("message", "content", "text"),
    "refusal": ("message", "content", "refusal"),
    "function_call_arguments": ("function_call", "arguments", "arguments"),
    "custom_tool_call_input": ("custom_tool_call", "input", "input"),
    "reasoning_summary_text": ("reasoning", "summary", "text"),
    "reasoning_text": ("reasoning", "content", "text"),
}
"""What the pieces of each kind of event belong to: the type of an item, its field, and the field that ends them."""


def _response(events: Sequence[_Event]) -> _Event:
    """The last event may hold the whole reply, or leave out what was streamed."""
    body: _Event = {"error": _CUT}
    items: dict[object, _Event] = {}
    pieces: dict[tuple[object, str], dict[object, str]] = {}
    for event in events:
        kind, item = text_of(event.get("type")), event.get("item") or {}
        name, _, step = kind.removeprefix("response.").rpartition(".")
        at: object = event.get("output_index", event.get("item_id", item.get("id")))
        if response := fields_of(event.get("response")):
            body |= {name: value for name, value in response.items() if value}
        if not name and step in {"completed", "incomplete", "failed", "cancelled", "done"}:
            body["status"] = body.get("status") if step == "done" else step
            body["error"] = (response or {}).get("error")
        elif name == "output_item":
            if at in items and items[at].get("call_id", identity := item.get("call_id")) != identity:
                at = at, identity  # some services give all items one place
            items[at] = {**items.get(at, {}), **item}
        elif name in _ITEMS:
            items.setdefault(at, {})
            held = pieces.setdefault((at, name), {})
            place = event.get("content_index", event.get("summary_index"))
            if step == "delta":
                held[place] = held.get(place, "") + text_of(event.get("delta"))
            else:
                held[place] = text_of(event.get(_ITEMS[name][2])) or held.get(place, "")
    for (at, name), held in pieces.items():
        kind, field, _ = _ITEMS[name]
        items[at].setdefault("type", kind)
        if not "".join(words_in(items[at].get(field))):
            items[at][field] = "".join(held.values())
    if not any(map(part_says, read_items(body.get("output") or ()))):
        body["output"] = [*items.values()]
    return body


# Anthropic's Messages

_BLOCKS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}
"""Types of the blocks whose begin is missing, by the type of their first piece."""


def _message(events: Sequence[_Event], *, over: bool) -> _Event:
    body: _Event = {}
    blocks: list[_Event] = []
    begun: dict[object, _Event] = {}
    for event in events:
        kind, place = event.get("type"), event.get("index")
        if kind == "message_start":
            _grow(body, event["message"])
        elif kind == "content_block_start" or (kind == "content_block_delta" and place not in begun):
            begun[place] = {**(event.get("content_block") or {"type": _BLOCKS.get(event["delta"].get("type"), "")})}
            blocks.append(begun[place])
        if kind == "content_block_delta":
            _grow(begun[place], {name: event["delta"][name] for name in event["delta"].keys() - {"type"}})
        elif kind == "message_delta":
            _grow(body, {**(event.get("delta") or {}), "usage": event.get("usage") or {}})
        over = over or kind == "message_stop"
    for block in blocks:
        if written_input := text_of(block.get("partial_json")):
            block["input"] = written_input
    return {**body, "content": blocks or body.get("content") or [], "error": None if over else _CUT}
