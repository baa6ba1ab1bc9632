"""`lessons`: a block of advice for any program, and for the calls of plain OpenAI clients inside a `with` block."""

import asyncio
import json
import sys
import threading
import types
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import openai
import pytest
from openai._base_client import AsyncAPIClient, SyncAPIClient
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from agentlearn.errors import LibraryError, MissingExtra
from agentlearn.library.capability import Experiences
from agentlearn.library.lessons import client_bases, lessons
from agentlearn.types.experience import Library
from tests.support.openai_echo import OpenAIEcho

CARRY = Library.of(["When adding, carry."])
ZERO = Library.of(["When dividing, look for zero."])
BLOCK = str(CARRY.render())
USER: Any = {"role": "user", "content": "What is 2 + 2?"}
SYSTEM: Any = {"role": "system", "content": "Solve it."}


class Number(BaseModel):
    """A structured answer."""

    answer: int


@pytest.fixture
def echo() -> Iterator[OpenAIEcho]:
    with OpenAIEcho() as server:
        yield server


@pytest.fixture
def client(echo: OpenAIEcho) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="none", base_url=echo.base_url, max_retries=2) as made:
        yield made


def system_texts(body: dict[str, Any]) -> list[str]:
    return [one["content"] for one in body["messages"] if one["role"] == "system"]


Call = Callable[[Any], Any]
CHAT: dict[str, Call] = {
    "create": lambda one: one.chat.completions.create(model="m", messages=[SYSTEM, USER]),
    "parse": lambda one: one.chat.completions.parse(model="m", messages=[SYSTEM, USER], response_format=Number),
    "raw": lambda one: one.chat.completions.with_raw_response.create(model="m", messages=[SYSTEM, USER]),
    "options": lambda one: one.with_options(timeout=9).chat.completions.create(model="m", messages=[SYSTEM, USER]),
    "a tuple": lambda one: one.chat.completions.create(model="m", messages=(SYSTEM, USER)),
    "extra body": lambda one: one.chat.completions.create(
        model="m", messages=[USER], extra_body={"messages": [SYSTEM, USER]}
    ),
}
RESPONSES: dict[str, Call] = {
    "create": lambda one: one.responses.create(model="m", input="2 + 2?", instructions="Solve it."),
    "parse": lambda one: one.responses.parse(model="m", input="?", instructions="Solve it.", text_format=Number),
}


@pytest.mark.parametrize("call", [*CHAT.values(), *RESPONSES.values()], ids=[*CHAT, *(f"r {one}" for one in RESPONSES)])
def test_a_call_in_a_block_gets_the_lessons_once(call: Call, echo: OpenAIEcho, client: openai.OpenAI) -> None:
    def said() -> list[str]:
        return [echo.last["instructions"]] if "instructions" in echo.last else system_texts(echo.last)

    async def run() -> None:
        async with openai.AsyncOpenAI(api_key="none", base_url=echo.base_url) as one:
            with lessons(CARRY):
                await call(one)
            assert said() == [f"Solve it.\n\n{BLOCK}"]
            await call(one)

    with lessons(CARRY):
        call(client)
        assert said() == [f"Solve it.\n\n{BLOCK}"]
        client.completions.create(model="m", prompt="2 + 2")
        assert echo.last == {"model": "m", "prompt": "2 + 2"}, "other calls are left alone"
    call(client)
    assert said() == ["Solve it."]
    asyncio.run(run())
    assert said() == ["Solve it."]


def test_a_call_without_a_system_message_gets_one(echo: OpenAIEcho, client: openai.OpenAI) -> None:
    given = [USER]
    with lessons(CARRY):
        client.chat.completions.create(model="m", messages=given)
        assert echo.last["messages"] == [{"role": "system", "content": BLOCK}, USER]
        client.responses.create(model="m", input="2 + 2?")
        assert echo.last["instructions"] == BLOCK
    assert given == [USER], "what the caller gave is never changed"


def test_a_developer_message_and_a_list_of_parts_are_extended(echo: OpenAIEcho, client: openai.OpenAI) -> None:
    parts: Any = {"role": "developer", "content": [{"type": "text", "text": "Solve it."}]}
    with lessons(CARRY):
        client.chat.completions.create(model="m", messages=[parts, USER])
    assert echo.last["messages"][0]["content"] == [*parts["content"], {"type": "text", "text": BLOCK}]
    assert len(echo.last["messages"]) == 2


def test_streamed_calls_get_the_lessons(echo: OpenAIEcho, client: openai.OpenAI) -> None:
    with lessons(CARRY):
        list(client.chat.completions.create(model="m", messages=[SYSTEM, USER], stream=True))
        assert system_texts(echo.last) == [f"Solve it.\n\n{BLOCK}"]
        with client.chat.completions.stream(model="m", messages=[SYSTEM, USER]) as chat:
            chat.until_done()
        assert system_texts(echo.last) == [f"Solve it.\n\n{BLOCK}"]
        list(client.responses.create(model="m", input="?", stream=True))
    assert echo.last["instructions"] == BLOCK


def test_a_repeated_request_has_the_lessons_once() -> None:
    with OpenAIEcho(failures=2) as echo, openai.OpenAI(api_key="none", base_url=echo.base_url, max_retries=2) as one:
        one._calculate_retry_timeout = lambda *_a, **_k: 0.0  # type: ignore[method-assign]  # do not wait
        with lessons(CARRY):
            one.chat.completions.create(model="m", messages=[SYSTEM, USER])
        assert [system_texts(body) for _, body in echo.sent] == [[f"Solve it.\n\n{BLOCK}"]] * 3


def test_blocks_inside_each_other_show_the_inner_lessons_once(echo: OpenAIEcho, client: openai.OpenAI) -> None:
    def sent() -> list[str]:
        client.chat.completions.create(model="m", messages=[USER])
        return system_texts(echo.last)

    with lessons(CARRY) as outer:
        with lessons(CARRY):
            assert sent() == [BLOCK]
        with lessons(ZERO) as inner:
            assert sent() == [inner.text]
        assert sent() == [outer.text]
        client.chat.completions.create(model="m", messages=outer.messages([SYSTEM, USER]))
        assert system_texts(echo.last) == [f"Solve it.\n\n{BLOCK}"]
    assert sent() == []


def test_clients_of_azure_and_calls_by_path_get_the_lessons(echo: OpenAIEcho, client: openai.OpenAI) -> None:
    address = echo.base_url.removesuffix("/v1")
    with lessons(CARRY), openai.AzureOpenAI(api_key="none", azure_endpoint=address, api_version="1") as azure:
        azure.chat.completions.create(model="m", messages=[USER])
        assert system_texts(echo.last) == [BLOCK]
        azure.responses.create(model="m", input="2 + 2?")
        assert echo.last["instructions"] == BLOCK
        client.post("/chat/completions", body={"model": "m", "messages": [USER]}, cast_to=object)
        assert system_texts(echo.last) == [BLOCK]


def test_other_tasks_and_threads_are_outside_and_tasks_of_the_block_are_inside(echo: OpenAIEcho) -> None:
    async def said(one: openai.AsyncOpenAI, gate: asyncio.Event | None = None) -> list[str]:
        if gate is not None:
            await gate.wait()
        answer = await one.chat.completions.with_raw_response.create(model="m", messages=[USER])
        return system_texts(json.loads(answer.http_request.content))

    async def run() -> None:
        async with openai.AsyncOpenAI(api_key="none", base_url=echo.base_url) as one, asyncio.TaskGroup() as group:
            gate, late = asyncio.Event(), asyncio.Event()
            before = group.create_task(said(one, gate))
            with lessons(CARRY):
                gate.set()
                inside = group.create_task(said(one))
                outlives = group.create_task(said(one, late))
                assert await inside == [BLOCK]
                assert await before == []
                found: list[Any] = []
                thread = threading.Thread(target=lambda: found.append(asyncio.run(alone())))
                await asyncio.to_thread(lambda: (thread.start(), thread.join()))
                assert found == [[]]
            with lessons(ZERO):
                late.set()
                assert await outlives == [], "its block has ended"

    async def alone() -> list[str]:
        async with openai.AsyncOpenAI(api_key="none", base_url=echo.base_url) as one:
            return await said(one)

    asyncio.run(run())


def test_nothing_of_openai_stays_changed(client: openai.OpenAI) -> None:
    before = (vars(SyncAPIClient)["request"], vars(AsyncAPIClient)["request"])
    with pytest.raises(openai.NotFoundError), lessons(CARRY), lessons(ZERO):
        client.with_options(base_url=f"{client.base_url}none").models.list()
    assert (vars(SyncAPIClient)["request"], vars(AsyncAPIClient)["request"]) == before


def test_a_wrapper_of_another_tool_stays_and_works(
    echo: OpenAIEcho, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    first = lessons(CARRY)
    first.__enter__()
    ours = vars(SyncAPIClient)["request"]

    def traced(*arguments: Any, **keywords: Any) -> Any:
        calls.append("traced")
        return ours(*arguments, **keywords)

    monkeypatch.setattr(SyncAPIClient, "request", traced)
    first.__exit__(None, None, None)
    client.chat.completions.create(model="m", messages=[USER])
    assert (system_texts(echo.last), calls) == ([], ["traced"])
    with lessons(CARRY):
        client.chat.completions.create(model="m", messages=[USER])
    assert (system_texts(echo.last), calls) == ([BLOCK], ["traced"] * 2)
    monkeypatch.undo()  # puts back what was there when the tool came
    with lessons(CARRY):
        pass
    client.chat.completions.create(model="m", messages=[USER])
    assert system_texts(echo.last) == []


def test_an_agent_with_experiences_in_a_block_reads_its_lessons_once(echo: OpenAIEcho) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(api_key="none", base_url=echo.base_url) as one:
            model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=one))
            with lessons(ZERO):
                await Agent(model, capabilities=[Experiences(CARRY)]).run("2 + 2?")
                assert system_texts(echo.last) == [BLOCK]
                await Agent(model).run("2 + 2?")
                assert system_texts(echo.last) == [str(ZERO.render())]

    asyncio.run(run())


@pytest.mark.parametrize("method", ["post", "request"])
def test_a_change_inside_openai_is_an_error(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client_bases.cache_clear()
    if method == "post":
        monkeypatch.setattr(SyncAPIClient, "post", object)
    else:
        monkeypatch.delattr(SyncAPIClient, "request")
    with pytest.raises(LibraryError) as caught, lessons(CARRY):
        pass
    client_bases.cache_clear()
    assert caught.value.code == "openai_changed"
    assert f"openai {openai.__version__}" in str(caught.value)
    assert str(caught.value).endswith("put `lessons(...).text` into your messages")


def _stand_in(name: str, posts: Callable[[Any, dict[str, Any]], Any]) -> types.ModuleType:
    """A package whose clients send their calls as those of `openai` do."""

    class Messages:
        def __init__(self, client: Any) -> None:
            self.client = client

        def create(self, **body: Any) -> Any:
            return posts(self.client, body)

    def client(base: type) -> type:
        return type(f"{name}.{base.__name__}", (base,), {"messages": property(Messages)})

    module = types.ModuleType(name)
    vars(module).update(Anthropic=client(openai.OpenAI), AsyncAnthropic=client(openai.AsyncOpenAI), __version__="9")
    return module


def anthropic_package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`anthropic`, or a stand-in where it is not installed."""
    client_bases.cache_clear()
    if find_spec("anthropic") is None:
        send = _stand_in("anthropic", lambda one, body: one.post("/v1/messages", cast_to=object, body=body))
        monkeypatch.setitem(sys.modules, "anthropic", send)
    return import_module("anthropic")


SYSTEMS = (
    # what a program sends, what is sent in a block
    (None, BLOCK),
    ("Solve it.", f"Solve it.\n\n{BLOCK}"),
    ([{"type": "text", "text": "Solve it."}], [{"type": "text", "text": "Solve it."}, {"type": "text", "text": BLOCK}]),
    (BLOCK, BLOCK),
    ([{"type": "text", "text": BLOCK}], [{"type": "text", "text": BLOCK}]),
)


def test_calls_of_anthropic_get_the_lessons(
    echo: OpenAIEcho, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    package = anthropic_package(monkeypatch)
    with package.Anthropic(api_key="none", base_url=echo.base_url.removesuffix("/v1")) as client:
        for given, sent in SYSTEMS:
            with subtests.test(system=given), lessons(CARRY):
                fields = {} if given is None else {"system": given}
                client.messages.create(model="m", max_tokens=9, messages=[USER], **fields)
                assert echo.last["system"] == sent
        with lessons([]):
            client.messages.create(model="m", max_tokens=9, messages=[USER])
        assert "system" not in echo.last
        client.messages.create(model="m", max_tokens=9, messages=[USER])
        assert "system" not in echo.last
    client_bases.cache_clear()


def test_without_openai_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    client_bases.cache_clear()
    for name in ("openai", "anthropic", "groq"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="pip install openai"), lessons(CARRY):
        pass
    assert lessons(CARRY).text == BLOCK
