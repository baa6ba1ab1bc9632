"""A probe tells what a model lacks, whatever it is, and with which line it can be mended."""

import asyncio
import threading
from typing import Any

import pytest

from agentlearn.cli.app import run
from agentlearn.cli.model_probe import CALLS, probe, probe_words
from agentlearn.config import CallOptions
from agentlearn.domain.base import CheckResult
from agentlearn.models.outage import RetryPolicy
from tests.support.openai_script import (
    CODE_TOOL,
    Malformed,
    Reply,
    Request,
    Script,
    Solver,
    error,
    offered_tools,
    stage_of,
    text,
    tool_call,
)
from tests.support.openai_stub import OpenAIStub

OPTIONS = CallOptions(concurrency=1), RetryPolicy(attempts=1, base_s=0)
SOLVER = Solver()


def probed(script: Script) -> tuple[dict[str, CheckResult], OpenAIStub]:
    """The findings by what they are about, and the stub that was asked."""
    with OpenAIStub(script) as stub:
        found = asyncio.run(probe(f"{stub.base_url}#stub", *OPTIONS))
    return {one.what: one for one in found}, stub


def words_only(request: Request) -> Reply:
    """A model that never calls a tool; asked for a structure it hands in JSON as text."""
    if stage_of(request) == "summarise":
        return text('{"steps": [{"text": "Counted one half only.", "used": []}]}')
    return text("57")


def refusing_tools(request: Request) -> Reply:
    """A server that was started without tool calling."""
    return error(400, {"error": {"message": "no tool parser"}}) if request.get("tools") else text("Yes.")


def without_usage(request: Request) -> Reply:
    """A server that says nothing of tokens."""
    reply = SOLVER(request)
    choice = {"index": 0, "message": reply.message, "finish_reason": "stop"}
    body: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]}
    return Reply(body=body)


def wrong_arguments(request: Request) -> Reply:
    return tool_call(CODE_TOOL, '{"program": 1}') if CODE_TOOL in offered_tools(request) else SOLVER(request)


def silent(request: Request) -> Reply:
    return text("") if not request.get("tools") else SOLVER(request)


def test_a_model_that_can_do_everything_is_found_so() -> None:
    found, stub = probed(Solver())
    assert {name: one.state for name, one in found.items()} == {
        "plain answer": "ok",
        "parameters": "ok",
        "tool call": "ok",
        "structured output": "ok",
        "usage": "ok",
        "price": "note",
        "latency": "ok",
    }
    assert len(stub.requests) == CALLS
    assert found["price"].mend == "limit runs with --max-tokens or --max-minutes"
    assert "s per call (median of 3" in found["latency"].words


def test_what_a_model_lacks_is_named(subtests: pytest.Subtests) -> None:
    for script, what, state, words in [
        (words_only, "tool call", "missing", "answered in words instead"),
        (words_only, "structured output", "note", "writes JSON as text"),
        (refusing_tools, "tool call", "missing", "no tool parser"),
        (refusing_tools, "structured output", "missing", "no tool parser"),
        (wrong_arguments, "tool call", "missing", "called 'run_python' with unusable arguments"),
        (without_usage, "usage", "missing", "tokens are not reported for every call"),
        (silent, "plain answer", "broken", "sent no words (asked once)"),
        (
            Solver(malformed={"summarise": Malformed(kinds=("prose",))}),
            "structured output",
            "missing",
            "no usable form (prose)",
        ),
        (
            Solver(malformed={"summarise": Malformed(kinds=("object",))}),
            "structured output",
            "note",
            "not quite in the expected form, but usable (object_not_array)",
        ),
    ]:
        with subtests.test(repr((script, what, state, words))):
            found, _ = probed(script)
            assert found[what].state == state
            assert words in found[what].words
            if state in {"missing", "broken"}:
                assert found[what].mend
            others = {name for name, one in found.items() if one.state == "broken" and name != what}
            assert not others


def test_a_slow_service_ends_the_probe_and_what_it_waited_for_is_said() -> None:
    slow = threading.Event()

    def stopping(request: Request) -> Reply:
        if request.get("tools"):
            slow.wait(20)
        return SOLVER(request)

    waited = list[str]()
    try:
        with OpenAIStub(stopping) as stub:
            results = asyncio.run(probe(f"{stub.base_url}#stub", *OPTIONS, limit_s=3.5, waiting=waited.append))
            slow.set()
    finally:
        slow.set()
    assert (results[-1].what, results[-1].state) == ("tool call", "broken")
    assert "no answer within the 3.5 s" in results[-1].words
    assert "1 of 3 calls were answered" in results[-1].words
    assert waited == ["tool call"]


def refusing_parts(*refused: str, named: bool) -> Script:
    """A service that refuses a temperature, a seed or a system message, and says so or not."""

    def script(request: Request) -> Reply:
        roles = [one["role"] for one in request["messages"]]
        for name in refused:
            if name in request or (name == "system message" and "system" in roles):
                words = f"{name} is not supported" if named else "bad request"
                return error(400, {"error": {"message": words}})
        return SOLVER(request)

    return script


def test_what_a_model_refuses_is_left_out_and_the_options_are_printed(subtests: pytest.Subtests) -> None:
    for refused, options in [
        (("temperature",), "--temperature none"),
        (("seed",), "--no-seed"),
        (("system message",), "--fold-system"),
        (("temperature", "seed", "system message"), "--temperature none --no-seed --fold-system"),
    ]:
        for named in [True, False]:
            with subtests.test(repr((refused, options, named))):
                found, stub = probed(refusing_parts(*refused, named=named))
                assert found["parameters"].state == "note"
                assert found["parameters"].mend == f"use --model '{stub.base_url}#stub' {options}"
                assert found["tool call"].state == "ok", "the other calls are made without what is refused"
                assert found["structured output"].state == "ok"
                assert len(stub.requests) == CALLS + (len(refused) if named else 4)


def test_a_model_that_cannot_be_asked_is_one_finding() -> None:
    found, stub = probed(lambda _: error(401, {"error": {"message": "bad key"}}))
    ((name, one),) = found.items()
    assert name == f"model {stub.base_url}#stub"
    assert (one.state, "status 401" in one.words, "set the key" in one.mend) == ("broken", True, True)
    (nowhere,) = asyncio.run(probe("http://127.0.0.1:9/v1#m", *OPTIONS))
    assert (nowhere.state, "cannot be reached" in nowhere.words) == ("broken", True)


def test_what_a_probe_may_cost_is_said() -> None:
    assert probe_words("openai:gpt-5-mini").startswith(f"openai:gpt-5-mini: {CALLS} calls, about ")
    assert "about $0.00" in probe_words("openai:gpt-5-mini")
    assert "an unknown price" in probe_words("http://example.org/v1#m")


def test_a_paid_model_is_not_asked_unasked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    assert run(["doctor", "--model", "openai:gpt-5-mini"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "openai:gpt-5-mini: 3 calls, " in said.err
    assert "add --yes to allow it" in said.err
