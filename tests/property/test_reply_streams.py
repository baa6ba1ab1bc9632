"""A reply says the same, whether its service sends it whole or streams it, in whichever way services cut replies."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentlearn.models.endings import fault_in
from agentlearn.models.reply import Reply, Thought, read_reply, said_in
from agentlearn.models.reply_stream import read_body

Json = dict[str, Any]
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
ARGUMENTS = st.dictionaries(TEXT, st.integers() | TEXT | st.lists(TEXT, max_size=2), max_size=2).map(json.dumps)
COUNT = st.integers(1, 10**6)


@dataclass
class Parts:
    """What a reply says."""

    text: str
    thoughts: str
    calls: list[tuple[str, str, str]]
    """Id, name and arguments."""
    tokens: tuple[int, int]


@st.composite
def replies(draw: st.DrawFn) -> Parts:
    names = draw(st.lists(st.sampled_from(("look", "look_up", "weigh", "now")), max_size=4))
    calls = [(f"id{place}", name, draw(ARGUMENTS)) for place, name in enumerate(names)]
    return Parts(draw(TEXT), draw(TEXT), calls, (draw(COUNT), draw(COUNT)))


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if text[a:b]]


def chat_body(said: Parts) -> Json:
    calls = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in said.calls]
    message = {"role": "assistant", "content": said.text, "reasoning_content": said.thoughts, "tool_calls": calls}
    usage = {"prompt_tokens": said.tokens[0], "completion_tokens": said.tokens[1]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "c", "model": "m", "choices": [choice], "usage": usage}


def chat_stream(draw: st.DrawFn, body: Json) -> list[Json]:
    choice, usage = body["choices"][0], body["usage"]
    message = choice["message"]
    deltas: list[Json] = [{"role": "assistant", "content": draw(st.sampled_from(("", None)))}]
    field = draw(st.sampled_from(("reasoning", "reasoning_content")))
    as_parts = draw(st.booleans())
    for one in pieces(draw, message["reasoning_content"]):
        part = {"type": "thinking", "thinking": [{"type": "text", "text": one}]}
        deltas.append({"content": [part]} if as_parts else {field: one})
    texts = pieces(draw, message["content"])
    deltas += [
        {"content": [{"type": "text", "text": one}] if draw(st.booleans()) and as_parts else one} for one in texts
    ]
    index = draw(st.sampled_from(("each", "zero", "none")))
    repeated, renamed = draw(st.booleans()), draw(st.booleans())
    with_ids = index == "each" or draw(st.booleans())
    for place, call in enumerate(message["tool_calls"]):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        whole = not with_ids or draw(st.booleans())
        parts = [arguments] if whole else ["", *pieces(draw, arguments)]
        for number, part in enumerate(parts):
            told: Json = {"function": {"arguments": json.loads(part) if whole and draw(st.booleans()) else part}}
            if number == 0 or repeated:
                told["function"]["name"] = name
            if with_ids and (number == 0 or repeated):
                told["id"] = call["id"]
            elif with_ids and renamed and index != "none":
                told["id"] = f"{call['id']}-{number}"  # some services give each piece a new id
            if index != "none":
                told["index"] = place if index == "each" else 0
            deltas.append({"tool_calls": [told]})
    events = [
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas
    ]
    last: Json = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    where = draw(st.sampled_from(("last", "apart", "x_groq", "choice", "halves")))
    if where == "last":
        last["usage"] = usage
    elif where == "x_groq":
        last["x_groq"] = {"usage": usage}
    elif where == "choice":
        last["choices"][0]["usage"] = usage
    elif where == "halves":
        events[0]["usage"], last["usage"] = {**usage, "completion_tokens": 0}, {**usage, "prompt_tokens": None}
    events.append(last)
    if where == "apart":
        events.append({"id": "c", "choices": [], "usage": usage})
    if draw(st.booleans()):
        events.insert(draw(st.integers(0, len(events))), {"id": "c", "choices": [], "usage": None})
    return events


def message_body(said: Parts) -> Json:
    blocks: list[Json] = [{"type": "thinking", "thinking": said.thoughts}] if said.thoughts else []
    blocks += [{"type": "text", "text": said.text}] if said.text else []
    blocks += [{"type": "tool_use", "id": i, "name": n, "input": json.loads(a)} for i, n, a in said.calls]
    usage = {"input_tokens": said.tokens[0], "output_tokens": said.tokens[1]}
    stop = "tool_use" if said.calls else "end_turn"
    return {"id": "c", "type": "message", "model": "m", "content": blocks, "stop_reason": stop, "usage": usage}


def message_stream(draw: st.DrawFn, body: Json) -> list[Json]:
    usage = body["usage"]
    begun = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Json] = [{"type": "message_start", "message": begun}]
    one_index = draw(st.booleans())
    blocks: list[Json] = []
    for block in body["content"]:  # cited text comes in several blocks
        texts = pieces(draw, block["text"]) if block["type"] == "text" else []
        blocks += [{"type": "text", "text": one} for one in texts] or [block]
    for place, block in enumerate(blocks):
        index = 0 if one_index else place
        kind, field = {
            "text": ("text_delta", "text"),
            "thinking": ("thinking_delta", "thinking"),
            "tool_use": ("input_json_delta", "partial_json"),
        }[block["type"]]
        empty: Json = {"input": {}} if block["type"] == "tool_use" else {field: ""}
        whole = draw(st.booleans())
        events.append(
            {"type": "content_block_start", "index": index, "content_block": block if whole else {**block, **empty}}
        )
        held = json.dumps(block["input"]) if block["type"] == "tool_use" else block[field]
        cut = [] if whole else pieces(draw, held)
        events += [{"type": "content_block_delta", "index": index, "delta": {"type": kind, field: one}} for one in cut]
        events.append({"type": "content_block_stop", "index": index})
    told = draw(st.sampled_from(({}, {"input_tokens": 0}, {"input_tokens": None}, usage)))
    delta = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {**told, "output_tokens": usage["output_tokens"]}})
    return [*events, {"type": "ping"}, {"type": "message_stop"}]


def response_body(said: Parts) -> Json:
    items: list[Json] = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": said.thoughts}]}]
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "content": content})
    items += [{"type": "function_call", "call_id": i, "name": n, "arguments": a} for i, n, a in said.calls]
    usage = {"input_tokens": said.tokens[0], "output_tokens": said.tokens[1]}
    return {"id": "c", "object": "response", "model": "m", "status": "completed", "output": items, "usage": usage}


def response_stream(draw: st.DrawFn, body: Json) -> list[Json]:
    events: list[Json] = [
        {"type": "response.created", "response": {**body, "status": "in_progress", "output": [], "usage": None}}
    ]
    deltas, finished = draw(st.booleans()), draw(st.booleans())
    for place, item in enumerate(body["output"]):
        where = {"output_index": place, "item_id": f"item{place}"}
        kind = item["type"]
        if deltas or not finished:
            name, done, text = {
                "reasoning": (
                    "reasoning_summary_text",
                    "text",
                    "".join(one["text"] for one in item.get("summary", ())),
                ),
                "message": ("output_text", "text", "".join(one["text"] for one in item.get("content", ()))),
                "function_call": ("function_call_arguments", "arguments", item.get("arguments", "")),
            }[kind]
            empty: Json = (
                {"arguments": ""}
                if kind == "function_call"
                else {"content": []}
                if kind == "message"
                else {"summary": []}
            )
            if kind != "message" or draw(st.booleans()):
                events.append({"type": "response.output_item.added", "output_index": place, "item": {**item, **empty}})
            events += [{"type": f"response.{name}.delta", **where, "delta": one} for one in pieces(draw, text)]
            if draw(st.booleans()):
                events.append({"type": f"response.{name}.done", **where, done: draw(st.sampled_from((text, "")))})
        if finished:
            events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    whole = draw(st.booleans())
    return [*events, {"type": "response.completed", "response": body if whole else {**body, "output": []}}]


DIALECTS: dict[str, tuple[Callable[[Parts], Json], Callable[[st.DrawFn, Json], list[Json]]]] = {
    "chat": (chat_body, chat_stream),
    "messages": (message_body, message_stream),
    "responses": (response_body, response_stream),
}


def written(draw: st.DrawFn, events: Sequence[Json]) -> bytes:
    """The events as bytes, as services write them."""
    end = draw(st.sampled_from(("\n", "\r\n", "\r")))
    if draw(st.integers(0, 5)) == 0:
        return "".join(json.dumps(one) + end for one in events).encode()  # lines of JSON
    said = draw(st.sampled_from(("data: ", "data:")))
    indent = draw(st.sampled_from((None, None, 1)))
    lines: list[str] = []
    for one in events:
        lines += draw(st.sampled_from(([], [": keep-alive"], [": keep-alive", ""], [f"event: {one.get('type', 'x')}"])))
        text = json.dumps(one, indent=indent, ensure_ascii=draw(st.booleans()))
        lines += [*(said + line for line in text.split("\n")), ""]
    return (draw(st.sampled_from(("", "\ufeff"))) + end.join([*lines, f"{said}[DONE]", ""])).encode()


def told(reply: Reply) -> tuple[object, ...]:
    thoughts = "".join(one.text for one in reply.parts if isinstance(one, Thought))
    calls = [(one.name, json.loads(one.arguments)) for one in reply.message.calls]
    return said_in(reply.parts), thoughts, calls, reply.tokens, reply.ending, reply.model, reply.identity, reply.error


@st.composite
def streamed(draw: st.DrawFn) -> tuple[Json, bytes]:
    body_of, stream_of = DIALECTS[draw(st.sampled_from(sorted(DIALECTS)))]
    body = body_of(draw(replies()))
    return body, written(draw, stream_of(draw, body))


@given(streamed())
def test_a_streamed_reply_says_what_the_whole_one_says(case: tuple[Json, bytes]) -> None:
    body, content = case
    read, is_stream = read_body(content)
    assert is_stream
    assert told(read_reply(read)) == told(read_reply(body))


@given(streamed(), st.floats(0, 1))
def test_a_stream_that_was_cut_is_never_an_answer(case: tuple[Json, bytes], at: float) -> None:
    _, content = case
    marks = (b'"finish_reason": "', b'"message_stop"', b'"response.completed"')
    ends = min(place for mark in marks if (place := content.rfind(mark)) >= 0)
    with suppress(ValueError):
        assert fault_in(read_reply(read_body(content[: int(at * ends)])[0]), limit=None) is not None
