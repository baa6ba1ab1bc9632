"""Replies as services really send them, in the form of a chat completion."""

import json
from typing import Any

import pytest
from pydantic_ai.exceptions import UnexpectedModelBehavior

from agentlearn.models.chat_reply import completion_of, facts_of, usage_of_reply

CALL = {"function": {"name": "run", "arguments": '{"n": 1}'}, "id": "a", "type": "function"}
MESSAGES: list[tuple[str, dict[str, Any], str | None, list[tuple[str, str, Any]], str]] = [
    # what is odd, message, text, calls (id, name, arguments), thoughts
    ("plain", {"content": "4"}, "4", [], ""),
    ("empty text", {"content": ""}, "", [], ""),
    ("text as parts", {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", [], ""),
    ("an unfinished thought", {"content": "<think>maybe 4"}, "<think>maybe 4</think>", [], ""),
    ("a bare part", {"content": {"type": "output_text", "text": "a"}}, "a", [], ""),
    ("texts without parts", {"content": ["a", "b"]}, "ab", [], ""),
    (
        "thoughts as a part",
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "4"},
            ]
        },
        *("4", [], "hm"),
    ),
    ("a part that is no text", {"content": [{"type": "reference", "reference_ids": [1]}, {"text": "4"}]}, "4", [], ""),
    ("reasoning", {"content": "4", "reasoning": "hm"}, "4", [], "hm"),
    ("reasoning only", {"content": None, "reasoning_content": "hm"}, None, [], "hm"),
    ("reasoning as an object", {"content": "4", "reasoning": {"content": "hm"}}, "4", [], "hm"),
    ("reasoning as parts", {"content": "4", "reasoning_details": [{"text": "h"}, {"summary": "m"}]}, "4", [], "hm"),
    ("call", {"content": None, "tool_calls": [CALL]}, None, [("a", "run", {"n": 1})], ""),
    ("no type", {"tool_calls": [{"id": "a", "function": CALL["function"]}]}, None, [("a", "run", {"n": 1})], ""),
    ("no id", {"tool_calls": [{"function": CALL["function"]}]}, None, [("call_0", "run", {"n": 1})], ""),
    ("null id", {"tool_calls": [{**CALL, "id": None}]}, None, [("call_0", "run", {"n": 1})], ""),
    (
        "arguments as an object",
        {"tool_calls": [{**CALL, "function": {"name": "run", "arguments": {"n": 1}}}]},
        *(None, [("a", "run", {"n": 1})], ""),
    ),
    ("no arguments", {"tool_calls": [{**CALL, "function": {"name": "run"}}]}, None, [("a", "run", {})], ""),
    ("a flat call", {"tool_calls": [{"name": "run", "parameters": {}}]}, None, [("call_0", "run", {})], ""),
    ("the old form", {"function_call": CALL["function"]}, None, [("call_0", "run", {"n": 1})], ""),
    ("no calls", {"content": "4", "tool_calls": [], "function_call": None}, "4", [], ""),
]


def test_what_a_message_says_is_kept(subtests: pytest.Subtests) -> None:
    for message, text, calls, thoughts in [row[1:] for row in MESSAGES]:
        with subtests.test(repr((message, text, calls, thoughts))):
            choice = completion_of({"choices": [{"message": message, "finish_reason": "stop"}]}, "asked")["choices"][0]
            said = choice["message"]
            found = [
                (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
                for one in said.get("tool_calls", ())
            ]
            assert (said["content"], found, said.get("reasoning_content") or said.get("reasoning", "")) == (
                text,
                calls,
                thoughts,
            )


def test_the_choice_with_index_0_is_taken_and_what_is_missing_is_filled_in() -> None:
    second, first = ({"index": index, "message": {"content": text}} for index, text in ((1, "no"), (0, "yes")))
    completion = completion_of({"choices": [second, first], "created": "2026-01-01", "model": None}, "asked")
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
    with pytest.raises(UnexpectedModelBehavior, match=words):
        completion_of(body, "asked")


def test_usage_is_believed_field_by_field(subtests: pytest.Subtests) -> None:
    for usage, tokens in [
        ({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}, (10, 2)),
        ({"input_tokens": 10, "output_tokens": 2}, (10, 2)),
        ({"prompt_tokens": 10.0, "completion_tokens": 2, "is_byok": False, "cost": 0.1}, (10, 2)),
        ({"prompt_tokens": 10, "completion_tokens": -1}, (10, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "total_tokens": 19,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            (10, 9),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 9,
                "total_tokens": 19,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
            (10, 9),
        ),
        ({"prompt_tokens": "many"}, None),
        (None, None),
    ]:
        with subtests.test(repr((usage, tokens))):
            found = usage_of_reply(usage)
            assert (None if found is None else (found["prompt_tokens"], found["completion_tokens"])) == tokens


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
    assert facts_of({"usage": usage}, headers).get("cost_usd") == dollars
