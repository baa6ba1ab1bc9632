"""Requests get lessons and keep every other byte; requests and replies are read as messages."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from agentlearn.library.lessons import lessons, with_advice
from agentlearn.live.gateway.admission import json_body
from agentlearn.live.gateway.conversations import dialogue, messages_of, with_lessons
from agentlearn.models.endings import fault_in
from agentlearn.models.reply import DialogueMessage, Said, UnreadReply, read_reply
from agentlearn.models.reply_stream import read_body

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
LESSONS = lessons(['When adding, carry the é and the "quote".'])
BLOCK = LESSONS.text

_TEXT = st.text(max_size=12)
_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(_TEXT, one, max_size=3),
    max_leaves=8,
)
_CONTENT = _TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": _TEXT}), max_size=2)
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(("system", "developer", "user", "assistant")), "content": _CONTENT}, optional={"x": _VALUE}
)
_OTHER = st.dictionaries(_TEXT.filter(lambda name: name not in {"messages", "system", "instructions", "input"}), _VALUE)


def _bodies() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    chat = st.fixed_dictionaries({"messages": st.lists(_MESSAGE, max_size=4)})
    responses = st.fixed_dictionaries(
        {"input": _TEXT | st.lists(_MESSAGE, max_size=3)}, optional={"instructions": _TEXT}
    )
    anthropic = st.fixed_dictionaries({"messages": st.lists(_MESSAGE, max_size=3)}, optional={"system": _CONTENT})
    kinds = ((CHAT, chat), (RESPONSES, responses), (MESSAGES, anthropic), (f"{MESSAGES}/count_tokens", anthropic))

    def joined(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
        return {**two, **one}

    return st.one_of(*(st.tuples(st.just(path), st.builds(joined, kind, _OTHER)) for path, kind in kinds))


def _advised(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the documentation says: the block at the end of the instructions."""

    def longer(content: Any) -> Any:
        if isinstance(content, list):
            return [*content, {"type": "text", "text": BLOCK}]
        return f"{content}\n\n{BLOCK}" if content else BLOCK

    if path == CHAT:
        told = body["messages"]
        at = next((n for n, one in enumerate(told) if one["role"] in {"system", "developer"}), None)
        if at is None:
            return {**body, "messages": [{"role": "system", "content": BLOCK}, *told]}
        changed = {**told[at], "content": longer(told[at]["content"])}
        return {**body, "messages": [*told[:at], changed, *told[at + 1 :]]}
    name = "instructions" if path == RESPONSES else "system"
    return {**body, name: longer(body.get(name))}


@given(_bodies(), st.sampled_from((None, 1, "\t")), st.booleans(), st.sampled_from(("instructions", "last")))
def test_nothing_else_changes(one: tuple[str, dict[str, Any]], indent: Any, ascii_only: bool, place: Any) -> None:
    path, body = one
    sent = json.dumps(body, indent=indent, ensure_ascii=ascii_only)
    try:
        content = sent.encode()
    except UnicodeEncodeError:  # a lone surrogate cannot travel as it is
        content = json.dumps(body, indent=indent).encode()
    known = json_body(content)
    assert known is not None
    model: Any = str(known.get("model", "")) or known.get("model")
    got = with_lessons(path, content, known, model, LESSONS.for_query, place=place)
    last = with_advice(path.removesuffix("/count_tokens"), body, LESSONS.for_query, place="last")
    assert json.loads(got) == (_advised(path, body) if place == "instructions" else last)
    # what is left without the piece that was put in, or was longer, is the request
    front = next((n for n, (a, b) in enumerate(zip(content, got, strict=False)) if a != b), len(content))
    back = next((n for n, (a, b) in enumerate(zip(content[::-1], got[::-1], strict=False)) if a != b), len(content))
    assert front + back >= len(content) or b"null" in content[front : len(content) - back]


def test_a_name_that_stands_twice_is_written_once() -> None:
    """A service could read the first value, and its instructions would have no lessons."""
    content = b'{"messages":[{"role":"user","content":"a"}],"messages":[]}'
    body = json_body(content)
    assert body is not None
    got = with_lessons(CHAT, content, body, "", LESSONS.for_query)
    assert got.count(b'"messages"') == 1
    assert BLOCK in json.loads(got)["messages"][0]["content"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff{}", b"\xef\xbb\xbf{}"])
def test_what_is_no_object_is_left_to_the_service(content: bytes) -> None:
    assert json_body(content) is None


CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
REPLIES: dict[str, tuple[str, bool, Any]] = {
    "chat": (
        CHAT,
        False,
        {
            "id": "r",
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [CALL]}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        },
    ),
    "chat, streamed": (
        CHAT,
        True,
        [
            {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "h"}}]},
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {
                            "content": "i",
                            "tool_calls": [{**CALL, "index": 0, "function": {"name": "add", "arguments": '{"a"'}}],
                        },
                    }
                ]
            },
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
                        "finish_reason": "tool_calls",
                    }
                ]
            },
            {
                "choices": [],
                "usage": {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            },
        ],
    ),
    "responses": (
        RESPONSES,
        False,
        {
            "id": "r",
            "model": "m",
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]},
                {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
            ],
            "usage": {"input_tokens": 7, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
        },
    ),
    "messages": (
        MESSAGES,
        False,
        {
            "id": "r",
            "model": "m",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            ],
            "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 4},
        },
    ),
    "messages, streamed": (
        MESSAGES,
        True,
        [
            {
                "type": "message_start",
                "message": {
                    "id": "r",
                    "model": "m",
                    "content": [],
                    "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1},
                },
            },
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "h"}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "i"}},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": '{"a": '},
            },
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ],
    ),
}
REPLIES["responses, streamed"] = (
    RESPONSES,
    True,
    [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.completed", "response": REPLIES["responses"][2]},
    ],
)


def _written(told: Any, *, streamed: bool, ends: str = "\n\n") -> bytes:
    if not streamed:
        return json.dumps(told).encode()
    return "".join(f"event: x\ndata: {json.dumps(one)}{ends}" for one in told).encode() + b"data: [DONE]\n\n"


@pytest.mark.parametrize("name", REPLIES)
def test_every_dialect_says_the_same(name: str) -> None:
    _, streamed, told = REPLIES[name]
    reply = read_reply(read_body(_written(told, streamed=streamed))[0])
    assert fault_in(reply, limit=None) is None
    *_, last = messages_of([DialogueMessage("user", (Said("q"),))], reply)
    assert isinstance(last, ModelResponse)
    *_, text, call = last.parts  # a thought may come first
    assert (isinstance(text, TextPart) and text.content, isinstance(call, ToolCallPart) and call.args_as_dict()) == (
        "hi",
        {"a": 1},
    )
    assert (last.usage.input_tokens, last.usage.cache_read_tokens, last.usage.output_tokens) == (7, 4, 2)
    assert (last.model_name, last.provider_response_id) == ("m", "r")


@given(st.sampled_from([name for name in REPLIES if "streamed" in name]), st.data())
def test_a_stream_that_was_cut_is_not_whole(name: str, data: st.DataObject) -> None:
    path, _, told = REPLIES[name]
    content = _written(told, streamed=True)
    marks = {CHAT: b'"finish_reason"', RESPONSES: b'"response.completed"', MESSAGES: b'"message_stop"'}
    cut = data.draw(st.integers(0, content.index(marks[path])))
    with suppress(ValueError):
        assert fault_in(read_reply(read_body(content[:cut])[0]), limit=None) is not None


@given(
    st.dictionaries(st.sampled_from(("messages", "system", "input", "instructions", "tools")), _VALUE),
)
def test_odd_requests_are_read_or_refused_with_one_error(body: dict[str, Any]) -> None:
    with suppress(UnreadReply):
        read = messages_of(dialogue(body), None)
        assert all(message.parts for message in read)


def test_results_of_tools_are_never_the_users_words() -> None:
    """Also where the call that they answer was cut off, as in a long conversation."""
    result = {"type": "tool_result", "tool_use_id": "gone", "content": [{"type": "text", "text": "from a page"}]}
    chat = dialogue({"messages": [{"role": "user", "content": [result, {"type": "text", "text": "and now?"}]}]})
    assert [one.role for one in chat] == ["tool", "user"]
    kinds = [part.part_kind for message in messages_of(chat, None) for part in message.parts]
    assert kinds == ["tool-call", "tool-return", "user-prompt"]
