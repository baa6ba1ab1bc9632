"""The simulated world over HTTP, as clients of real services meet it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from agentlearn_demo.sim.faults import Faults
from agentlearn_demo.sim.reflector import FLAWLESS, ReflectorParameters
from agentlearn_demo.sim.server import World
from tests.unit.demo.sim.loop import run
from tests.unit.demo.sim.test_reflector import ENDS_APART, SUMMARISE, compare_prompt, consolidate_prompt
from tests.unit.demo.sim.toy import ToySkills

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


# --- faults and counts ---


# --- streams, connections ---
