"""The simulated world over HTTP, as clients of real services meet it."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agentlearn.errors import ConfigError
from agentlearn.sim.faults import Faults, Fixed, Lognormal, draw_fault, faults_of
from agentlearn.sim.reflector_state import FLAWLESS, ReflectorParameters
from agentlearn.sim.server import World
from tests.unit.sim.loop import run
from tests.unit.sim.test_reflector import ENDS_APART, SUMMARISE, compare_prompt, consolidate_prompt
from tests.unit.sim.toy import ToySkills, problems

QUESTION = "How many multiples of 7 lie from 3 to 70?"
CHAT = "/v1/chat/completions"

Json = dict[str, Any]
Client = httpx2.AsyncClient


def tool(name: str = "run_python", **properties: Json) -> Json:
    parameters = {"type": "object", "properties": properties or {"code": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": parameters}}


def chat(*texts: str, model: str = "novice", **more: Any) -> Json:
    roles = ["user"] if len(texts) == 1 else ["system", "user"]
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    return {"model": model, "messages": messages, "seed": 4, **more}


@asynccontextmanager
async def serving(faults: Faults | None = None, parameters: ReflectorParameters = FLAWLESS) -> AsyncGenerator[Client]:
    world = World([ToySkills()], seed=1, faults=faults, parameters=parameters)
    async with world.serve() as url, Client(base_url=url.removesuffix("/v1"), timeout=60) as client:
        yield client


def ask(body: Json, *, headers: Mapping[str, str] | None = None, **kinds: Any) -> httpx2.Response:
    async def once() -> httpx2.Response:
        async with serving(**kinds) as client:
            return await client.post(CHAT, json=body, headers=headers)

    return asyncio.run(once())


def message(body: Json, **kinds: Any) -> Json:
    response = ask(body, **kinds)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]


def with_client(act: Callable[[Client], Awaitable[None]], **kinds: Any) -> None:
    async def all_of_it() -> None:
        async with serving(**kinds) as client:
            await act(client)

    asyncio.run(all_of_it())


# --- rollouts ---


def test_a_rollout_calls_the_tool_and_answers_from_its_result() -> None:
    async def act(client: Client) -> None:
        body = chat("Solve it.", QUESTION, tools=[tool()])
        first = (await client.post(CHAT, json=body)).json()
        assert first["choices"][0]["finish_reason"] == "tool_calls"
        (call,) = first["choices"][0]["message"]["tool_calls"]
        result = run(json.loads(call["function"]["arguments"])["code"])
        body["messages"] += [
            first["choices"][0]["message"],
            {"role": "tool", "tool_call_id": call["id"], "content": result},
        ]
        second = (await client.post(CHAT, json=body)).json()
        assert second["choices"][0]["finish_reason"] == "stop"
        assert second["choices"][0]["message"]["content"].endswith(f"\\boxed{{{result}}}")
        assert second["usage"]["prompt_tokens"] > first["usage"]["prompt_tokens"] > 10
        assert second["usage"]["total_tokens"] == sum(
            second["usage"][part] for part in ("prompt_tokens", "completion_tokens")
        )

    with_client(act)


def test_lessons_come_from_the_system_and_the_user_but_not_from_tools() -> None:
    lessons = "<experiences>\n[G7] When idle, include both endpoints of the range.\n</experiences>"

    def program(*texts: str) -> str:
        calls = message(chat(*texts, tools=[tool()]))["tool_calls"]
        return json.loads(calls[0]["function"]["arguments"])["code"]

    assert "# G7: " in program(lessons, QUESTION)
    assert "# G7: " in program("Solve it.", f"{lessons}\n{QUESTION}")
    assert "# G7: " not in program("Solve it. [G7] When idle, include both endpoints of the range.", QUESTION)


def test_equal_requests_get_equal_answers() -> None:
    body = chat("Solve it.", QUESTION, tools=[tool()])
    assert message(body) == message(body)
    unseeded = {key: value for key, value in body.items() if key != "seed"}
    assert message(unseeded) == message(unseeded)


def test_a_seed_may_come_by_header() -> None:
    body = chat("Solve it.", QUESTION, tools=[tool()])
    unseeded = {key: value for key, value in body.items() if key != "seed"}
    by_header = ask(unseeded, headers={"x-sim-seed": str(body["seed"])}).json()["choices"]
    assert by_header == ask(body).json()["choices"]
    bad = ask(unseeded, headers={"x-sim-seed": "mine"})
    assert bad.json()["error"]["message"] == "The header 'x-sim-seed' must be an integer, not 'mine'."


def test_without_its_tool_or_its_problem_the_novice_says_so() -> None:
    ignorant = "I do not know how to do this."
    assert message(chat(QUESTION))["content"] == ignorant
    assert message(chat(QUESTION, tools=[tool("click")]))["content"] == ignorant
    assert message(chat(QUESTION, tools=[tool()], tool_choice="none"))["content"] == ignorant
    assert message(chat("Who wrote this?", tools=[tool()]))["content"] == ignorant


def test_a_final_message_fills_an_output_tool_or_a_schema() -> None:
    answer = {"text": {"type": "string"}, "answer": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    filled = message(chat("Hello", tools=[tool(), tool("final_result", **answer)]))["tool_calls"][0]["function"]
    assert (filled["name"], list(json.loads(filled["arguments"]))) == ("final_result", ["text", "answer"])
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}, "of": {"$ref": "#/$defs/L"}},
    }
    schema["$defs"] = {"L": {"type": "array"}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(message(chat("Hello", response_format=form))["content"]) == {"n": 0, "ok": False, "of": []}
    plain = message(chat("Hello", response_format={"type": "json_object"}))
    assert list(json.loads(plain["content"])) == ["text"]


def test_a_tool_that_is_required_is_called() -> None:
    named = {"type": "function", "function": {"name": "probe"}}
    probe = tool("probe", word={"enum": ["yes", "no"]})
    for choice in ("required", named):
        call = message(chat("Hello", tools=[probe, tool()], tool_choice=choice))["tool_calls"][0]["function"]
        assert (call["name"], json.loads(call["arguments"])) == ("probe", {"word": "yes"})


def test_echo_repeats_the_last_words_of_the_user() -> None:
    assert message(chat("Be brief.", "Say this.", model="echo"))["content"] == "Say this."
    parts = [{"type": "text", "text": "in"}, {"type": "text", "text": "parts"}]
    body = {"model": "echo", "messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": parts}]}
    assert message(body)["content"] == "in\nparts"


def test_a_text_past_the_limit_of_tokens_is_cut() -> None:
    choice = ask(chat("one two three four", model="echo", max_tokens=2)).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one two", "length")


# --- stages ---


@pytest.mark.parametrize("model", ["novice", "reflector"])
@pytest.mark.parametrize(
    ("prompt", "key"),
    [(SUMMARISE, "steps"), (compare_prompt(*ENDS_APART), "proposals"), (consolidate_prompt("delete G1"), "proposals")],
)
def test_both_models_answer_the_stages_in_the_form_asked_for(model: str, prompt: str, key: str) -> None:
    plain = message(chat("Instructions.", prompt, model=model))
    assert list(json.loads(plain["content"])) == [key]
    submit = tool("submit", **{key: {"type": "array"}})
    call = message(chat("Instructions.", prompt, model=model, tools=[submit]))["tool_calls"][0]["function"]
    assert (call["name"], call["arguments"]) == ("submit", plain["content"])


def test_prose_is_no_tool_call() -> None:
    parameters = ReflectorParameters(malformed=1.0, malformations=("prose",))
    said = message(chat("Go.", compare_prompt(*ENDS_APART), tools=[tool("submit")]), parameters=parameters)
    assert said["content"].startswith("Here is what I make of it.")
    assert "tool_calls" not in said


def test_a_refusal_in_the_conversation_is_a_repair() -> None:
    long = "When counting, include both endpoints" + " and so on" * 20
    sent = json.dumps({"proposals": [{"op": "add", "lesson": long}]})
    call = {"id": "c", "type": "function", "function": {"name": "submit", "arguments": sent}}
    body = chat("Go.", compare_prompt(*ENDS_APART), model="reflector", tools=[tool("submit")])
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "Final result processed."},
        {"role": "user", "content": "Some items were refused:\n- item 1: too_long: 66 words, at most 32"},
    ]

    async def act(client: Client) -> None:
        again = (await client.post(CHAT, json=body)).json()["choices"][0]["message"]["tool_calls"][0]
        (item,) = json.loads(again["function"]["arguments"])["proposals"]
        assert len(item["lesson"].split()) <= 32
        assert (await client.get("/stats")).json()["by_model"] == {"reflector": {"compare_repair": 1}}

    with_client(act)


# --- errors ---


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        (b"{not json", 400, "invalid_json", "We could not parse the JSON body of your request"),
        (b"[1]", 400, "invalid_json", "The body of a request is a JSON object."),
        (b'{"model": "novice"}', 400, "missing_required_parameter", "Missing required parameter: 'messages'."),
        (b'{"messages": [{}]}', 400, "missing_required_parameter", "Missing required parameter: 'model'."),
        (
            b'{"model": "gpt", "messages": [{"role": "user", "content": "x"}]}',
            404,
            "model_not_found",
            "The model 'gpt' does not exist here (known: novice, reflector, echo).",
        ),
        (b'{"model": "echo", "messages": [{"role": "cat"}]}', 400, "invalid_value", "'messages[0].role': 'cat'"),
        (b'{"model": "echo", "messages": [7], "n": 3}', 400, "unsupported_value", "Only 'n': 1"),
        (b'{"model": "echo", "messages": [{"role": "user"}], "seed": "x"}', 400, "invalid_value", "'seed': 'x'"),
        (b'{"model": "echo", "messages": [{"role": "user"}], "temperature": []}', 400, "invalid_value", "temperature"),
        (b'{"model": "echo", "messages": [{"role": "user"}], "tool_choice": 3}', 400, "invalid_value", "tool_choice"),
        (b'{"model": "echo", "messages": [{"role": "user"}], "tools": [{}]}', 400, "invalid_value", "tools[0]"),
    ],
)
def test_a_bad_request_gets_the_error_that_services_send(body: bytes, status: int, code: str, words: str) -> None:
    async def act(client: Client) -> None:
        response = await client.post(CHAT, content=body)
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error")
        assert words in error["message"]

    with_client(act)


def test_other_paths_are_told_apart() -> None:
    async def act(client: Client) -> None:
        models = (await client.get("/v1/models")).json()
        assert [model["id"] for model in models["data"]] == ["novice", "reflector", "echo"]
        assert (await client.get("/health")).json() == {"status": "ok", "simulated": True}
        assert (await client.get(CHAT)).status_code == 404
        assert (await client.post("/v2")).json()["error"]["code"] == "unknown_url"

    with_client(act)


# --- faults and counts ---


def test_a_rate_limit_says_when_to_come_back_and_a_retry_can_succeed() -> None:
    async def act(client: Client) -> None:
        for number in range(20):
            answers = [await client.post(CHAT, json=chat(str(number), model="echo")) for _ in range(12)]
            refused = [one for one in answers if one.status_code == 429]
            assert all(one.headers["retry-after"] == "0.25" for one in refused)
            assert all(one.json()["error"]["code"] == "rate_limit_exceeded" for one in refused)
            assert len(answers) - len(refused) > 0
        stats = (await client.get("/stats")).json()
        assert stats["requests"] == 240 == stats["by_model"]["echo"]["echo"]
        assert stats["by_status"]["429"] == stats["injected"]["429"] == pytest.approx(120, abs=30)
        assert stats["by_status"]["200"] + stats["by_status"]["429"] == 240

    with_client(act, faults=Faults(rate_limited=0.5, retry_after_s=0.25))


def test_server_errors_come_in_their_kinds() -> None:
    async def act(client: Client) -> None:
        answers = [await client.post(CHAT, json=chat(str(number), model="echo")) for number in range(40)]
        assert {one.status_code for one in answers} == {500, 502, 503}
        assert {one.json()["error"]["type"] for one in answers} == {"server_error"}

    with_client(act, faults=Faults(server_error=1.0))


def test_a_reset_is_no_answer() -> None:
    async def act(client: Client) -> None:
        with pytest.raises(httpx2.ReadError):
            await client.post(CHAT, json=chat("x", model="echo"))
        assert (await client.get("/stats")).json()["injected"] == {"reset": 1}

    with_client(act, faults=Faults(reset=1.0))


def test_a_stalled_request_hears_nothing_and_is_reset_in_the_end() -> None:
    async def act(client: Client) -> None:
        with pytest.raises(httpx2.ReadTimeout):
            await client.post(CHAT, json=chat("x", model="echo"), timeout=httpx2.Timeout(60, read=0.05))
        with pytest.raises(httpx2.ReadError):
            await client.post(CHAT, json=chat("y", model="echo"), headers={"x-sim-stall-s": "0"})
        assert (await client.get("/stats")).json()["injected"] == {"stall": 2}

    with_client(act, faults=Faults(stall=1.0, stall_s=600.0))


def test_a_garbled_answer_is_no_chat_completion() -> None:
    async def act(client: Client) -> None:
        answers = [await client.post(CHAT, json=chat(str(number), model="echo")) for number in range(20)]
        assert {one.status_code for one in answers} == {200}
        assert not any("choices" in one.text for one in answers)
        assert len({one.text for one in answers}) > 1

    with_client(act, faults=Faults(garbled=1.0))


def test_shares_of_failures_stay_apart() -> None:
    faults = Faults(rate_limited=0.2, server_error=0.2, reset=0.2, stall=0.2, garbled=0.2)
    drawn = Counter(
        getattr(failure, "kind", "garbled") for n in range(1_000) if (failure := draw_fault(faults, n)) is not None
    )
    assert drawn.keys() == {"requests", "server_error", "reset", "stall", "garbled"}
    assert sum(drawn.values()) == 1_000
    assert min(drawn.values()) > 150


def test_latency_spreads_about_its_median() -> None:
    times = Lognormal(0.2, 0.5)
    assert times.seconds(0.5) == pytest.approx(0.2)
    assert times.seconds(0.98) == pytest.approx(0.56, rel=0.05)
    assert 0 < times.seconds(0.0) < times.seconds(0.999_999) < 60


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"reset": 1.5}, "--reset is 1.5; give a share from 0 to 1"),
        ({"stall_s": -1.0}, "--stall-s is -1.0; give a number of at least 0"),
        ({"rate_limited": 0.6, "stall": 0.6}, "the shares of failures add up to 1.2; reduce them to at most 1"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters: dict[str, float | None], sentence: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        faults_of(parameters)


def test_a_header_sets_a_parameter_for_its_request_only() -> None:
    async def act(client: Client) -> None:
        body = chat("x", model="echo")
        headers = {"x-sim-rate-limited": "1", "x-sim-retry-after-s": "3"}
        limited = await client.post(CHAT, json=body, headers=headers)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
        assert (await client.post(CHAT, json=body, headers={"x-sim-server-error": "1"})).status_code >= 500
        assert (await client.post(CHAT, json=body)).status_code == 200
        bad = await client.post(CHAT, json=body, headers={"x-sim-malformed": "often"})
        assert (bad.status_code, "'x-sim-malformed'" in bad.text) == (400, True)

    with_client(act)


def test_failures_are_drawn_alike_in_every_run() -> None:
    def statuses() -> list[int]:
        async def all_of_it() -> list[int]:
            async with serving(faults=Faults(rate_limited=0.3, server_error=0.3)) as client:
                return [
                    (await client.post(CHAT, json=chat(str(one % 9), model="echo"))).status_code for one in range(40)
                ]

        return asyncio.run(all_of_it())

    assert statuses() == statuses()


def test_a_malformed_call_is_cut_and_counts_as_no_turn() -> None:
    async def act(client: Client) -> None:
        body = chat("Solve it.", QUESTION, tools=[tool()])
        malformed = (await client.post(CHAT, json=body, headers={"x-sim-malformed": "1"})).json()
        said = malformed["choices"][0]["message"]
        with pytest.raises(ValueError, match=r".+"):
            json.loads(said["tool_calls"][0]["function"]["arguments"])
        assert (await client.get("/stats")).json()["injected"] == {"malformed_call": 1}
        told = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "Invalid JSON. Try again."}
        body["messages"] += [said, told]
        again = (await client.post(CHAT, json=body)).json()["choices"][0]["message"]["tool_calls"][0]
        assert "print" in json.loads(again["function"]["arguments"])["code"]

    with_client(act)


def test_malformed_stage_replies_are_counted_by_kind() -> None:
    async def act(client: Client) -> None:
        for seed in range(30):
            body = {**chat("Go.", compare_prompt(*ENDS_APART)), "seed": seed}
            await client.post(CHAT, json=body, headers={"x-sim-malformed": "1"})
        injected = (await client.get("/stats")).json()["injected"]
        assert sum(injected.values()) == 30
        assert all(kind.startswith("malformed_") for kind in injected)

    with_client(act)


# --- streams, connections ---


def streamed(body: Json) -> list[Json]:
    response = ask({**body, "stream": True, "stream_options": {"include_usage": True}})
    assert response.headers["content-type"] == "text/event-stream"
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_stream_says_what_the_whole_answer_says() -> None:
    body = chat("word " * 40, model="echo")
    chunks = streamed(body)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "word " * 40
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"] == ask(body).json()["usage"]


def test_a_stream_carries_a_tool_call_in_pieces() -> None:
    body = chat("Solve it.", QUESTION, tools=[tool()])
    pieces = [
        call
        for chunk in streamed(body)
        for choice in chunk["choices"]
        for call in choice["delta"].get("tool_calls", [])
    ]
    assert pieces[0]["function"]["name"] == "run_python"
    joined = "".join(piece["function"]["arguments"] for piece in pieces)
    assert joined == message(body)["tool_calls"][0]["function"]["arguments"]


def test_many_connections_wait_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request waits until all 40 wait, so one that had to queue would never end. No clock is read."""
    latency_s, waiting, sleep = 1_234.0, 0, asyncio.sleep
    all_wait = asyncio.Event()

    async def wait_for_all(seconds: float, result: object = None) -> object:
        nonlocal waiting
        if seconds != latency_s:
            return await sleep(seconds, result)
        waiting += 1
        if waiting == 40:
            all_wait.set()
        await all_wait.wait()
        return result

    async def act(client: Client) -> None:
        monkeypatch.setattr(asyncio, "sleep", wait_for_all)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(client.post(CHAT, json=chat(str(one), model="echo"))) for one in range(40)]
        assert {task.result().status_code for task in asked} == {200}

    with_client(act, faults=Faults(latency=Fixed(latency_s)))


async def raw(sent: bytes) -> bytes:
    async with World([ToySkills()]).serve() as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1].partition("/")[0])


def test_what_is_no_http_is_refused() -> None:
    assert asyncio.run(raw(b"hello\r\n\r\n")).startswith(b"HTTP/1.1 400")


def test_a_body_that_is_too_large_is_refused() -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 50000000\r\n\r\n"
    assert asyncio.run(raw(head)).startswith(b"HTTP/1.1 413")


def test_a_client_may_ask_before_it_sends() -> None:
    body = json.dumps(chat("now", model="echo")).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )

    async def all_of_it() -> None:
        async with World([ToySkills()]).serve() as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(url))
            writer.write(head)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            writer.write(body)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()
            await writer.wait_closed()

    asyncio.run(all_of_it())


def test_two_requests_in_one_packet_get_two_answers() -> None:
    one = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    closing = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    assert asyncio.run(raw(one + closing)).count(b"HTTP/1.1 200") == 2


def test_leaving_closes_requests_in_flight() -> None:
    async def all_of_it() -> None:
        async with asyncio.timeout(50):
            client = Client(timeout=240)
            async with World([ToySkills()], faults=Faults(latency=Fixed(60))).serve() as url:
                asked = asyncio.ensure_future(client.post(f"{url}/chat/completions", json=chat("x", model="echo")))
                await asyncio.sleep(0.2)
            with pytest.raises(httpx2.HTTPError):
                await asked
            await client.aclose()

    asyncio.run(all_of_it())


def test_agents_of_pydantic_ai_work_with_it() -> None:
    from openai import AsyncOpenAI
    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.settings import ModelSettings

    class Proposals(BaseModel):
        proposals: list[dict[str, Any]]

    settings = ModelSettings(seed=3, temperature=0.7)

    async def all_of_it() -> None:
        async with World([ToySkills()], parameters=FLAWLESS).serve() as url, Client() as http:
            provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=url, api_key="none", http_client=http))
            model = OpenAIChatModel("novice", provider=provider)
            solver = Agent(model, instructions="Solve it.")
            solver.tool_plain(run_python)
            for question in problems(3):
                assert "\\boxed{" in (await solver.run(question, model_settings=settings)).output
            streamed = await solver.run(QUESTION, model_settings=settings, event_stream_handler=_listen)
            assert streamed.output == (await solver.run(QUESTION, model_settings=settings)).output
            for output in (ToolOutput(Proposals, name="submit"), NativeOutput(Proposals)):
                reflector: Agent[None, Any] = Agent(model, output_type=output, instructions="Compare.")
                said = await reflector.run(compare_prompt(*ENDS_APART), model_settings=settings)
                assert said.output.proposals[0]["op"] == "add"
                assert said.usage.input_tokens > 0

    asyncio.run(all_of_it())


async def _listen(context: object, stream: AsyncIterable[object]) -> None:
    """With a listener, pydantic-ai asks for streams."""
    async for _ in stream:
        pass


def run_python(code: str) -> str:
    """Run code."""
    return run(code)
