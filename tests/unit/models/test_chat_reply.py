"""Replies as services really send them, in the form of a chat completion."""

import json
from typing import Any

import pytest

from agentlearn.models.chat_reply import completion_of, facts_of
from agentlearn.models.reply import UnreadReply, read_reply, read_usage
from tests.support.cases import cases

CALL = {"function": {"name": "run", "arguments": '{"n": 1}'}, "id": "a", "type": "function"}


def test_what_a_message_says_is_kept(subtests: pytest.Subtests) -> None:
    for message, text, calls, thoughts in [row[1:] for row in cases(__file__, "messages")]:
        with subtests.test(repr((message, text, calls, thoughts))):
            choice = {"message": message, "finish_reason": "stop"}
            said = completion_of(read_reply({"choices": [choice]}), "asked")["choices"][0]["message"]
            found = [
                [one["id"], one["function"]["name"], json.loads(one["function"]["arguments"])]
                for one in said.get("tool_calls", ())
            ]
            assert (said["content"], found, said.get("reasoning_content") or said.get("reasoning", "")) == (
                text,
                calls,
                thoughts,
            )


def test_the_choice_with_index_0_is_taken_and_what_is_missing_is_filled_in() -> None:
    second, first = ({"index": index, "message": {"content": text}} for index, text in ((1, "no"), (0, "yes")))
    completion = completion_of(
        read_reply({"choices": [second, first], "created": "2026-01-01", "model": None}), "asked"
    )
    assert (completion["model"], completion["created"], completion["id"]) == ("asked", 0, "")
    assert completion["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": None}
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("text", "is not a JSON object"),
        ({}, "has no choices"),
        ({"error": {"message": "no room"}, "choices": []}, "has no choices: no room"),
        ({"choices": [{"error": {"message": "upstream is down"}, "finish_reason": "error"}]}, "upstream is down"),
        ({"choices": [{"message": {"content": None}}]}, "neither content nor a tool call"),
        ({"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]}, "a tool call without a name"),
    ],
)
def test_a_reply_that_says_nothing_is_refused_with_the_words_of_the_service(body: object, words: str) -> None:
    with pytest.raises(UnreadReply, match=words):
        read_reply(body)


def test_usage_is_believed_field_by_field(subtests: pytest.Subtests) -> None:
    for usage, tokens in cases(__file__, "usage"):
        with subtests.test(repr((usage, tokens))):
            found = read_usage(usage)
            assert (None if found is None else [found["prompt_tokens"], found["completion_tokens"]]) == tokens


@pytest.mark.parametrize(
    ("usage", "headers", "dollars"),
    [
        ({"cost": 0.25}, {}, 0.25),
        ({}, {"x-litellm-response-cost": "0.5"}, 0.5),
        ({"cost": True}, {}, None),
        ({"cost": "NaN"}, {}, None),
        ({"cost": -1}, {}, None),
    ],
)
def test_a_cost_that_the_service_reports_is_kept(
    usage: dict[str, Any], headers: dict[str, str], dollars: float | None
) -> None:
    assert facts_of(read_reply({"choices": [{"text": "4"}], "usage": usage}), headers).get("cost_usd") == dollars
