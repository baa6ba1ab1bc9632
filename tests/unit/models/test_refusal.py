"""Texts of services that refuse a request, as they are known from their own documentation and issue trackers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelHTTPError

from agentlearn.models.outage import is_silence, is_transient
from agentlearn.models.refusal import (
    SYSTEM,
    TOOLS,
    error_code,
    is_filtered,
    refused_settings,
    remedy,
    service_words,
)

SENT = frozenset({"temperature", "seed", "top_p", "max_tokens", "thinking", SYSTEM, TOOLS})


def openai(message: str, param: str | None = None, code: str | None = "unsupported_parameter") -> dict[str, object]:
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


def fastapi(*fields: str) -> dict[str, object]:
    return {
        "detail": [
            {
                "type": "extra_forbidden",
                "loc": ["body", field],
                "msg": "Extra inputs are not permitted",
                "input": {"messages": [{"role": "system", "content": "top_p temperature"}], "seed": 1},
            }
            for field in fields
        ]
    }


REFUSALS = [
    (
        400,
        openai(
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is"
            " supported.",
            "temperature",
            "unsupported_value",
        ),
        ("temperature",),
    ),
    (
        400,
        openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model."
            " Use 'max_completion_tokens' instead.",
            "max_tokens",
        ),
        ("max_tokens",),
    ),
    (400, openai("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"), ("top_p",)),
    (400, openai("Unrecognized request argument supplied: seed", None, None), ("seed",)),
    (400, openai("Unrecognized request argument supplied: reasoning_effort", None, None), ("thinking",)),
    (
        400,
        openai("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model.", "reasoning_effort"),
        ("thinking",),
    ),
    (
        400,
        openai("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role"),
        (SYSTEM,),
    ),
    (422, fastapi("seed"), ("seed",)),
    (422, fastapi("seed", "temperature"), ("seed", "temperature")),
    (422, {"object": "error", "message": fastapi("random_seed"), "type": "invalid_request_error"}, ("seed",)),
    (
        400,
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted',"
            " 'input': 123}]",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        ("seed",),
    ),
    (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "temperature: Extra inputs are not permitted"},
        },
        ("temperature",),
    ),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            },
        },
        ("temperature", "top_p"),
    ),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
                    "status": "INVALID_ARGUMENT",
                    "details": [{"@type": "type.googleapis.com/google.rpc.BadRequest"}],
                }
            }
        ],
        ("seed",),
    ),
    (400, {"error": {"message": "property 'seed' is unsupported", "type": "invalid_request_error"}}, ("seed",)),
    (400, {"code": "400", "error": "Model grok-4 does not support parameter reasoningEffort."}, ("thinking",)),
    (
        400,
        {"error": {"message": "litellm.UnsupportedParamsError: azure does not support parameters: {'seed': 5}"}},
        ("seed",),
    ),
    (
        422,
        {"error": "Failed to deserialize: unknown field `seed`, expected one of `messages`, `temperature`"},
        ("seed",),
    ),
    (422, {"error": "Input validation error: `temperature` must be strictly positive"}, ("temperature",)),
    (400, {"object": "error", "message": "System role not supported", "type": "BadRequestError"}, (SYSTEM,)),
    (
        400,
        {"message": "Conversation roles must alternate user/assistant/user/assistant/...", "code": 400},
        (SYSTEM,),
    ),
    (400, [{"error": {"message": "Developer instruction is not enabled for models/gemma-3-27b-it"}}], (SYSTEM,)),
    (
        400,
        {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'},
        (TOOLS,),
    ),
    (400, {"error": {"message": "registry.ollama.ai/library/gemma:2b does not support tools"}}, (TOOLS,)),
    (
        400,
        {
            "error": "400 Bad Request",
            "status": 400,
            "details": {"error": openai("a proxy: Unsupported parameter: 'top_p'", "top_p"), "provider": "a proxy"},
        },
        ("top_p",),
    ),
    (
        400,
        {
            "error": {
                "cause": json.dumps({"error": openai("It does not support 0.1", "temperature")}),
                "message": "失败",
            }
        },
        ("temperature",),
    ),
    (
        400,
        {"error": {"message": 'Bedrock - {"message":"The model returned: reasoning: Extra inputs are not permitted"}'}},
        ("thinking",),
    ),
    (400, "temperature is deprecated for this model", ("temperature",)),
    (400, b'{"error": {"message": "seed is not supported"}}', ("seed",)),
    (
        400,
        {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps(fastapi("top_p"))}}},
        ("top_p",),
    ),
]


def test_the_refused_setting_is_named(subtests: pytest.Subtests) -> None:
    for status, body, named in REFUSALS:
        with subtests.test(repr((status, body, named))):
            assert refused_settings(status, body, SENT) == named
            said = remedy(status, body, named)
            options = {
                "temperature": "--temperature none",
                "seed": "--no-seed",
                "top_p": "--top-p none",
                "max_tokens": "--max-output-tokens",
                "thinking": "--reasoning-effort",
                SYSTEM: "--fold-system",
                TOOLS: "calls tools",
            }
            assert all(options[name] in said for name in named)


def test_what_was_not_sent_is_not_named(subtests: pytest.Subtests) -> None:
    for status, body, named in REFUSALS:
        with subtests.test(repr((status, body, named))):
            assert refused_settings(status, body, SENT - set(named)) == ()


def test_other_refusals_name_no_setting(subtests: pytest.Subtests) -> None:
    for status, body in [
        (
            400,
            openai(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
                "messages",
                "context_length_exceeded",
            ),
        ),
        (401, openai("Incorrect API key provided: temperature", "temperature")),
        (429, openai("Rate limit reached for tokens per min", None)),
        (404, openai("The model `seedling-7b` does not exist", None, "model_not_found")),
        (400, openai("The response was filtered by the content management policy.", "prompt", "content_filter")),
        (400, ""),
        (400, None),
        (500, "<html><h1>Internal Server Error</h1></html>"),
    ]:
        with subtests.test(repr((status, body))):
            assert refused_settings(status, body, SENT - {"max_tokens"}) == ()


def test_a_limit_that_the_service_needs_is_asked_for() -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: Field required"}}
    assert remedy(400, body, refused_settings(400, body, {"temperature"})) == (
        "give the limit that the service needs with --max-output-tokens N"
    )


def test_the_words_are_those_of_the_service_without_the_echo_of_the_request() -> None:
    assert service_words(openai("No.", "x")) == "No."
    assert service_words(fastapi("seed")) == "body.seed: Extra inputs are not permitted"
    assert service_words("<html>busy\n</html>") == "<html>busy </html>"
    assert service_words(None) == "None"
    assert len(service_words("x" * 10_000)) == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "detail", "loc", "param", "msg", "raw", "x"]), inner)
    ),
    max_leaves=12,
)


@given(st.integers(400, 599), JSON, st.sets(st.sampled_from(sorted(SENT))))
def test_any_body_gives_words_and_names_only_what_was_sent(status: int, body: object, sent: set[str]) -> None:
    named = refused_settings(status, body, sent)
    assert set(named) <= sent
    assert len(set(named)) == len(named)
    assert 0 < len(service_words(body)) <= 400
    remedy(status, body, named)


CLASSED = (
    # status, body, whether it is sent again, whether the service counts as silent, filtered, our code
    (
        429,
        {"error": openai("You exceeded your current quota.", code="insufficient_quota")},
        False,
        False,
        False,
        "quota",
    ),
    (429, {"error": {"message": "x", "type": "exceeded_current_quota_error"}}, False, False, False, "quota"),
    (
        400,
        {"error": openai("Billing hard limit has been reached", code="billing_hard_limit_reached")},
        *[False] * 3,
        "quota",
    ),
    (429, {"error": openai("Rate limit reached for requests", code="rate_limit_exceeded")}, True, True, False, "429"),
    (429, "slow down", True, True, False, "429"),
    (400, {"error": openai("Failed to call a function.", code="tool_use_failed")}, True, False, False, "400"),
    (400, {"error": openai("Generated JSON does not match.", code="json_validate_failed")}, True, False, False, "400"),
    (400, {"error": openai("unknown field")}, False, False, False, "400"),
    (
        400,
        {
            "error": {
                "code": "content_filter",
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
                "param": "prompt",
            }
        },
        *(False, False, True, "400"),
    ),
    (
        400,
        json.dumps({"error": {"inner": 1, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        False,
        False,
        True,
        "400",
    ),
    (
        403,
        {"error": {"code": 403, "metadata": {"flagged_input": "…", "reasons": ["violence"]}}},
        False,
        False,
        True,
        "403",
    ),
    (403, {"error": {"code": 403, "message": "Key has no access"}}, False, False, False, "403"),
    (500, {"error": {"code": "content_filter"}}, True, True, False, "500"),
)


def test_quota_accidents_and_filters_are_told_apart_by_their_codes(subtests: pytest.Subtests) -> None:
    for status, body, again, silence, filtered, code in CLASSED:
        with subtests.test(status=status, body=body):
            error = ModelHTTPError(status, "m", body)
            assert (is_transient(error), is_silence(error)) == (again, silence)
            assert (is_filtered(error), error_code(error)) == (filtered, f"endpoint_{code}")
    quota = {"error": openai("You exceeded your current quota.", code="insufficient_quota")}
    assert remedy(429, quota, ()) == "add credit to the account of this key"
    failed = {"error": openai("Failed to call a function.", code="tool_use_failed")}
    assert refused_settings(400, failed, SENT) == ()
