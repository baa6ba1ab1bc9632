"""The stub that the whole-program tests stand on does what it says."""

import asyncio
import contextlib
import http.client
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from openai import AsyncOpenAI, RateLimitError
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.support.openai_script import Malformation, Malformed, Reply, Request, Solver, error, text, tool_call
from tests.support.openai_stub import OpenAIStub

ROOT = Path(__file__).parents[2]
PROBLEM = "How many ways are there to seat 4 people in a row?"
RUN_PYTHON = {"type": "function", "function": {"name": "run_python", "parameters": {"type": "object"}}}
SUBMIT = {"type": "function", "function": {"name": "submit", "parameters": {"type": "object"}}}


def asked(words: str, *, seed: int | None = 0, tools: tuple[Any, ...] = ()) -> Request:
    return {"model": "stub", "messages": [{"role": "user", "content": words}], "tools": list(tools), "seed": seed}


def submitted(reply: Reply) -> Any:
    assert reply.message is not None
    return json.loads(reply.message["tool_calls"][0]["function"]["arguments"])


def program(reply: Reply) -> str:
    """What the program that the solver wrote prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(submitted(reply)["code"], {})
    return printed.getvalue()


def as_json(printed: str) -> str:
    """A tool result as some services wrap it."""
    return json.dumps({"status": "ok", "stdout": printed})


def post(stub: OpenAIStub, request: Request) -> tuple[int, dict[str, str], Any]:
    address = urlsplit(stub.base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 0, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/chat/completions", json.dumps(request), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), json.loads(response.read())


class TestSolver:
    def test_success_rate_decides_how_many_attempts_are_right(self) -> None:
        solver = Solver(answers={PROBLEM: "24"}, success_rate=0.5)
        printed = [program(solver(asked(PROBLEM, seed=seed, tools=(RUN_PYTHON,)))) for seed in range(200)]
        assert 70 < printed.count("answer=24;\n") < 130
        assert len(set(printed)) > 50

    @pytest.mark.parametrize(("rate", "right"), [(0.0, 0), (1.0, 30)])
    def test_the_ends_of_the_rate_are_exact(self, rate: float, right: int) -> None:
        solver = Solver(answers={PROBLEM: "24"}, success_rate=rate)
        printed = [program(solver(asked(PROBLEM, seed=seed, tools=(RUN_PYTHON,)))) for seed in range(30)]
        assert printed.count("answer=24;\n") == right

    def test_equal_requests_are_answered_alike(self) -> None:
        request = asked(PROBLEM, seed=7, tools=(RUN_PYTHON,))
        assert Solver()(request) == Solver()(request)

    def test_without_a_seed_attempts_still_differ(self) -> None:
        solver = Solver()
        replies = [program(solver(asked(PROBLEM, seed=None, tools=(RUN_PYTHON,)))) for _ in range(5)]
        assert len(set(replies)) > 1

    @pytest.mark.parametrize("answer", ["24", r"\frac{3}{4}", "it's 'quoted'"])
    @pytest.mark.parametrize("wrap", [str, as_json])
    def test_the_tools_result_becomes_the_answer(self, answer: str, wrap: Callable[[str], str]) -> None:
        solver = Solver(answers={PROBLEM: answer}, success_rate=1.0)
        request = asked(PROBLEM, tools=(RUN_PYTHON,))
        call = solver(request)
        assert call.message is not None
        result = {"role": "tool", "tool_call_id": "x", "content": wrap(program(call))}
        reply = solver({**request, "messages": [*request["messages"], call.message, result]})
        assert reply == text(f"The answer is \\boxed{{{answer}}}.")

    def test_without_a_code_tool_it_answers_at_once_in_the_form_asked_for(self) -> None:
        solver = Solver(answers={PROBLEM: "24"}, success_rate=1.0, final="Answer: {0}".format)
        assert solver(asked(PROBLEM)) == text("Answer: 24")

    def test_a_stage_is_answered_through_the_tool_or_as_content(self) -> None:
        through_tool = submitted(Solver()(asked("<trajectory>ran it</trajectory>", tools=(SUBMIT,))))
        as_content = Solver()(asked("<trajectory>ran it</trajectory>"))
        assert as_content == text(json.dumps(through_tool))
        assert [sorted(step) for step in through_tool["steps"]] == [["text", "used"], ["text"]]

    def test_compare_proposes_a_lesson(self) -> None:
        [proposal] = submitted(Solver()(asked("<attempts>two</attempts>", tools=(SUBMIT,))))["proposals"]
        assert proposal["op"] == "add"
        assert proposal["lesson"].startswith("When ")
        assert 1 <= len(proposal["lesson"].split()) <= 32

    def test_consolidate_carries_proposals_on_and_says_equal_ones_once(self) -> None:
        listed = "<proposals>\nP1 add: When a, do b.\nP2 add: When c, do d.\nP3 add: When a, do b.\n</proposals>"
        assert submitted(Solver()(asked(listed, tools=(SUBMIT,))))["proposals"] == [
            {"op": "add", "lesson": "When a, do b.", "rests_on": ["P1", "P3"]},
            {"op": "add", "lesson": "When c, do d.", "rests_on": ["P2"]},
        ]


class TestMalformed:
    def reply(self, kind: Malformation) -> Reply:
        solver = Solver(malformed={"compare": Malformed(kinds=(kind,))})
        return solver(asked("<attempts>two</attempts>", tools=(SUBMIT,)))

    def test_prose_calls_no_tool(self) -> None:
        message = self.reply("prose").message
        assert message is not None
        assert "tool_calls" not in message

    def test_an_object_stands_where_a_list_should(self) -> None:
        assert isinstance(submitted(self.reply("object"))["proposals"], dict)

    def test_strings_stand_where_proposals_should(self) -> None:
        assert all(isinstance(item, str) for item in submitted(self.reply("strings"))["proposals"])

    def test_unknown_ids(self) -> None:
        assert submitted(self.reply("unknown_ids"))["proposals"][0]["target"] == "G9999"

    def test_cut_json_does_not_parse(self) -> None:
        with pytest.raises(json.JSONDecodeError):
            submitted(self.reply("cut"))

    def test_one_bad_item_stands_between_two_good_ones(self) -> None:
        assert [item["op"] for item in submitted(self.reply("one_bad"))["proposals"]] == ["add", "levitate", "add"]

    def test_the_rate_holds_and_other_stages_are_spared(self) -> None:
        solver = Solver(malformed={"compare": Malformed(rate=0.5, kinds=("prose",))})
        spoiled = [
            "tool_calls" not in (solver(asked("<attempts>", seed=seed, tools=(SUBMIT,))).message or {})
            for seed in range(200)
        ]
        assert 70 < sum(spoiled) < 130
        assert all(submitted(solver(asked("<trajectory>", seed=seed, tools=(SUBMIT,))))["steps"] for seed in range(20))


class TestServer:
    def test_it_records_what_it_was_asked_and_counts_by_stage(self) -> None:
        with OpenAIStub() as stub:
            post(stub, asked(PROBLEM))
            post(stub, asked("<attempts>two</attempts>"))
            status, _, body = post(stub, asked("<attempts>three</attempts>"))
        assert status == 200
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["usage"]["total_tokens"] > 0
        assert stub.counts == {"solve": 1, "compare": 2}
        assert stub.requests[0]["messages"][0]["content"] == PROBLEM

    def test_errors_carry_status_body_and_headers(self) -> None:
        with OpenAIStub(lambda _: error(429, {"error": {"message": "slow down"}}, {"Retry-After": "2"})) as stub:
            status, headers, body = post(stub, asked(PROBLEM))
        assert (status, headers["Retry-After"], body) == (429, "2", {"error": {"message": "slow down"}})

    def test_requests_are_served_at_the_same_time(self) -> None:
        with OpenAIStub(latency_s=0.3) as stub:
            threads = [threading.Thread(target=post, args=(stub, asked(PROBLEM))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert stub.peak_in_flight == 4

    def test_an_openai_client_takes_its_errors_for_real(self) -> None:
        async def ask(base_url: str) -> None:
            async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
                await client.chat.completions.create(model="stub", messages=[{"role": "user", "content": "hello"}])

        with OpenAIStub(lambda _: error(429)) as stub, pytest.raises(RateLimitError, match="refuses with 429"):
            asyncio.run(ask(stub.base_url))

    def test_a_pydantic_ai_agent_works_through_tool_and_typed_output(self) -> None:
        class Count(BaseModel):
            number: int

        async def ask(base_url: str) -> Count:
            async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
                model = OpenAIChatModel("stub", provider=OpenAIProvider(openai_client=client))
                agent = Agent(model, output_type=Count, name="counter")

                @agent.tool_plain
                def add(a: int, b: int) -> int:
                    return a + b

                return (await agent.run("What is 2 + 3?")).output

        def script(request: Request) -> Reply:
            results = [one["content"] for one in request["messages"] if one["role"] == "tool"]
            return (
                tool_call("final_result", {"number": int(results[0])})
                if results
                else tool_call("add", {"a": 2, "b": 3})
            )

        with OpenAIStub(script) as stub:
            assert asyncio.run(ask(stub.base_url)) == Count(number=5)

    def test_it_runs_as_a_program(self) -> None:
        command = [sys.executable, "-m", "tests.support.openai_stub", "--port", "0"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = urlsplit(server.stdout.readline().strip())
                connection = http.client.HTTPConnection(address.hostname or "", address.port or 0, timeout=60)
                with contextlib.closing(connection):
                    connection.request("GET", "/v1/models")
                    assert json.loads(connection.getresponse().read())["data"][0]["id"] == "stub"
            finally:
                server.terminate()
