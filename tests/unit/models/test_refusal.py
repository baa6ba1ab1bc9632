"""Texts of services that refuse a request, as they are known from their own documentation and issue trackers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelHTTPError

from agentlearn.models.outage import is_silence, is_transient
from agentlearn.models.refusal import SYSTEM, TOOLS, RefusedRequest, service_words
from tests.support.cases import cases

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


REFUSALS = [*cases(__file__, "refusals"), (400, b'{"error": {"message": "seed is not supported"}}', ("seed",))]


def test_the_refused_setting_is_named(subtests: pytest.Subtests) -> None:
    for status, body, named in REFUSALS:
        with subtests.test(repr((status, body, named))):
            assert RefusedRequest(status, body).settings(SENT) == tuple(named)
            said = RefusedRequest(status, body).remedy(named)
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
            assert RefusedRequest(status, body).settings(SENT - set(named)) == ()


def test_other_refusals_name_no_setting(subtests: pytest.Subtests) -> None:
    for status, body in cases(__file__, "others"):
        with subtests.test(repr((status, body))):
            assert RefusedRequest(status, body).settings(SENT - {"max_tokens"}) == ()


def test_a_limit_that_the_service_needs_is_asked_for() -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: Field required"}}
    assert RefusedRequest(400, body).remedy(RefusedRequest(400, body).settings({"temperature"})) == (
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
    named = RefusedRequest(status, body).settings(sent)
    assert set(named) <= sent
    assert len(set(named)) == len(named)
    assert 0 < len(service_words(body)) <= 400
    RefusedRequest(status, body).remedy(named)


def test_quota_accidents_and_filters_are_told_apart_by_their_codes(subtests: pytest.Subtests) -> None:
    for status, body, again, silence, filtered, code in cases(__file__, "classed"):
        with subtests.test(status=status, body=body):
            error = ModelHTTPError(status, "m", body)
            assert (is_transient(error), is_silence(error)) == (again, silence)
            refused = RefusedRequest.of(error)
            assert (refused.is_filtered, refused.code) == (
                filtered,
                f"endpoint_{code}",
            )
    quota = {"error": openai("You exceeded your current quota.", code="insufficient_quota")}
    assert RefusedRequest(429, quota).remedy(()) == "add credit to the account of this key"
    failed = {"error": openai("Failed to call a function.", code="tool_use_failed")}
    assert RefusedRequest(400, failed).settings(SENT) == ()
