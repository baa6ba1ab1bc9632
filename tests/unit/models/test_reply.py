"""Replies and conversations as services and other programs really write them, in every dialect."""

import json
import re
from typing import Any

import pytest
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agentlearn.formats.openai_chat import from_chat
from agentlearn.models.endings import fault_in
from agentlearn.models.reply import read_reply, said_in
from agentlearn.models.reply_stream import read_body
from tests.support.cases import cases


def told(content: bytes) -> list[Any]:
    """What a reply says: text, calls and tokens; else why it is not the model's answer."""
    try:
        reply = read_reply(read_body(content)[0])
    except ValueError:
        return ["unread"]
    if (fault := fault_in(reply, limit=None)) is not None:
        return [fault.code]
    calls = [[one.name, json.loads(one.arguments)] for one in reply.message.calls]
    return [said_in(reply.parts), calls, [reply.tokens[0], reply.tokens[2]]]


def test_every_shape_of_a_whole_reply_is_read(subtests: pytest.Subtests) -> None:
    for name, body, *wanted in cases(__file__, "bodies"):
        with subtests.test(name):
            assert told(json.dumps(body).encode()) == wanted


def test_every_way_to_cut_a_reply_into_events_is_read(subtests: pytest.Subtests) -> None:
    for name, events, *wanted in cases(__file__, "streams"):
        with subtests.test(name):
            lines = [one if isinstance(one, str) else f"data: {json.dumps(one)}" for one in events]
            assert told("".join(f"{one}\n\n" for one in lines).encode()) == wanted


@pytest.mark.parametrize(
    ("limit", "made", "fault"), [(None, 9, "cut_off"), (9, 9, None), (9, None, None), (900, 9, "cut_off")]
)
def test_a_reply_that_ended_at_the_limit_of_its_request_is_an_answer(
    limit: int | None, made: int | None, fault: str | None
) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": made}
    reply = read_reply({"choices": [{"message": {"content": "Seven"}, "finish_reason": "length"}], "usage": usage})
    found = fault_in(reply, limit=limit)
    assert (found and found.code) == fault


def _lines(messages: list[ModelMessage]) -> list[str]:
    found: list[str] = []
    for part in (part for message in messages for part in message.parts):
        match part:
            case TextPart():
                found.append(f"model {part.content}")
            case ThinkingPart():
                found.append(f"thought {part.content}")
            case ToolCallPart():
                found.append(f"call {part.tool_name}")
            case ToolReturnPart():
                found.append(f"result {part.tool_name} {part.content}")
            case UserPromptPart():
                content = [part.content] if isinstance(part.content, str) else part.content
                shown = [one.url if isinstance(one, ImageUrl) else str(one) for one in content]
                found.append(" ".join(["user", *shown]))
            case _:
                found.append(part.part_kind)
    return found


def test_conversations_of_every_dialect_are_read_and_each_call_has_an_id_of_its_own(subtests: pytest.Subtests) -> None:
    for name, messages, wanted in cases(__file__, "messages"):
        with subtests.test(name):
            found = from_chat(messages)
            assert _lines(found) == wanted
            calls = [part.tool_call_id for one in found if isinstance(one, ModelResponse) for part in one.tool_calls]
            assert all(calls)
            assert len(set(calls)) == len(calls)


def test_what_cannot_be_read_is_named_with_its_place(subtests: pytest.Subtests) -> None:
    for messages, words in cases(__file__, "refused"):
        with subtests.test(words), pytest.raises(ValueError, match=re.escape(words)):
            from_chat(messages)
