"""The MCP server: what its tools return and store, what it refuses, and clients of both versions of the protocol."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp", reason="pip install 'agentlearn-lib[mcp]'")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient

from agentlearn import Library, LibraryStore, Recorder, library_of
from agentlearn.pages.web_app.mcp_server import MAX_REQUEST, MOST_WAITING, http_app, mcp_server
from agentlearn.pages.web_app.server import hosts_of
from tests.support.cases import cases
from tests.support.command import AGENTLEARN, agentlearn_here

ENDS, STUCK = "When a range is closed, count both of its ends.", "When stuck, solve a smaller case first."
HIDDEN = "Convert every length to metres before adding."
TOKEN, PORT = "a-token-of-thirty-two-characters", 8764
MODES = ("legacy", "2026-07-28")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two libraries, one of which is offered; it parks one lesson."""
    libraries = LibraryStore(tmp_path / "libraries")
    math = libraries.history("math")
    for lesson in (ENDS, STUCK, HIDDEN):
        math.add(lesson, tags=("counting",))
    math.park(math.load().experiences[2].id)
    libraries.history("secret").add("Say nothing about the range.")
    return tmp_path


class Call(NamedTuple):
    """A call of a tool, and the code in its refusal: `input:NAME` for a bad argument, empty for no refusal."""

    name: str
    code: str
    tool: str
    arguments: dict[str, Any]


MADE = {"library": "math", "lesson": "When adding fractions, find a common denominator."}
TOO_LONG = " ".join(["word"] * 90)
CALLS = (
    Call("a search", "", "search_lessons", {"query": "both ends of a range"}),
    Call("a search in a library that is not offered", "unknown_library", "search_lessons",
         {"query": "range", "library": "secret"}),
    Call("a library that is a path", "unknown_library", "search_lessons", {"query": "x", "library": "../secret"}),
    Call("a library with a version", "unknown_library", "search_lessons", {"query": "x", "library": "math@main"}),
    Call("no query", "input:query", "search_lessons", {}),
    Call("an empty query", "input:query", "search_lessons", {"query": ""}),
    Call("a query that is too long", "input:query", "search_lessons", {"query": "x" * 8_001}),
    Call("a query that is no text", "input:query", "search_lessons", {"query": {"a": 1}}),
    Call("too many results", "input:limit", "search_lessons", {"query": "x", "limit": 21}),
    Call("no results", "input:limit", "search_lessons", {"query": "x", "limit": 0}),
    Call("a limit that is no number", "input:limit", "search_lessons", {"query": "x", "limit": "many"}),
    Call("null for what may be left out", "", "search_lessons", {"query": "x", "limit": None, "library": None}),
    Call("null for what may not", "input:query", "search_lessons", {"query": None}),
    Call("an argument that there is not", "input:querry", "search_lessons", {"querry": "x"}),
    Call("an unknown lesson", "unknown_lesson", "get_lesson", {"lesson": "zzzz"}),
    Call("a lesson of another library", "unknown_lesson", "get_lesson", {"lesson": "SECRET"}),
    Call("a parked lesson", "unknown_lesson", "get_lesson", {"lesson": "PARKED"}),
    Call("every lesson", "input:lesson", "get_lesson", {"lesson": ""}),
    Call("a proposal", "", "propose_lesson", MADE),
    Call("the same proposal again", "duplicate", "propose_lesson", MADE),
    Call("nearly the same proposal", "near_duplicate", "propose_lesson",
         {**MADE, "lesson": "When adding fractions, always find a common denominator."}),
    Call("a lesson that is shown", "duplicate", "propose_lesson", {**MADE, "lesson": ENDS}),
    Call("a lesson that is too long", "too_long", "propose_lesson", {**MADE, "lesson": TOO_LONG}),
    Call("a text that is no lesson by far", "input:lesson", "propose_lesson", {**MADE, "lesson": "x" * 4_001}),
    Call("a lesson of several lines", "multi_line", "propose_lesson", {**MADE, "lesson": "One.\nTwo."}),
    Call("a lesson with hidden characters", "invisible_characters", "propose_lesson",
         {**MADE, "lesson": "Count\u202e both."}),
    Call("a proposal for another library", "unknown_library", "propose_lesson", {**MADE, "library": "secret"}),
    Call("a proposal for all libraries", "input:library", "propose_lesson", {**MADE, "library": ""}),
    Call("too many tags", "input:tags", "propose_lesson", {**MADE, "tags": ["a"] * 9}),
    Call("a reason that is too long", "input:why", "propose_lesson", {**MADE, "why": "x" * 401}),
    Call("feedback", "", "record_feedback", {"library": "math", "episode": "talk-1", "reward": 1, "comment": "Right."}),
    Call("feedback on nothing", "bad_feedback", "record_feedback", {"library": "math", "reward": 1}),
    Call("feedback that says nothing", "bad_feedback", "record_feedback", {"library": "math", "episode": "talk-1"}),
    Call("feedback on what is no id", "bad_config", "record_feedback",
         {"library": "math", "rollout": "x", "reward": 0}),
    Call("a reward above 1", "bad_reward", "record_feedback", {"library": "math", "episode": "e", "reward": 2}),
    Call("a reward that is no number", "bad_reward", "record_feedback",
         {"library": "math", "episode": "e", "reward": "NaN"}),
    Call("a comment that is too long", "input:comment", "record_feedback",
         {"library": "math", "episode": "e", "comment": "x" * 8_001}),
    Call("feedback for another library", "unknown_library", "record_feedback",
         {"library": "secret", "episode": "e", "reward": 1}),
    Call("feedback on an answer of another library", "unknown_rollout", "record_feedback",
         {"library": "math", "rollout": "ANSWER", "reward": 1}),
    Call("feedback on an answer that there was not", "unknown_rollout", "record_feedback",
         {"library": "math", "rollout": "0" * 32, "reward": 1}),
    Call("feedback on an episode of another library", "unknown_episode", "record_feedback",
         {"library": "math", "episode": "secret-talk", "reward": 1}),
    Call("feedback on an episode that there was not", "unknown_episode", "record_feedback",
         {"library": "math", "episode": "no talk", "comment": "Right."}),
    Call("null for what says nothing", "bad_feedback", "record_feedback",
         {"library": "math", "episode": "talk-1", "rollout": None, "reward": None, "comment": None}),
    Call("a tool that there is not", "unknown_tool", "delete_library", {"library": "math"}),
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_each_call_is_answered_or_refused_with_its_code(store: Path, subtests: pytest.Subtests, mode: Any) -> None:
    libraries = LibraryStore(store / "libraries")
    secret = libraries.load("secret").experiences[0].id
    chat = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "5"}]
    with Recorder("math", store) as recorder:
        recorder.record_sync(chat, episode="talk-1")
    with Recorder("secret", store) as recorder:
        answer = recorder.record_sync(chat, episode="secret-talk")
    named = {"ANSWER": answer, "SECRET": secret, "PARKED": libraries.load("math").withheld[0].experience.id}

    async def work() -> None:
        async with Client(mcp_server(["math"], store), mode=mode) as client:
            for call in CALLS:
                given = {name: named.get(value, value) if isinstance(value, str) else value
                         for name, value in call.arguments.items()}  # fmt: skip
                result = await client.call_tool(call.tool, given)
                text = json.dumps([result.structured_content, [one.model_dump() for one in result.content]])
                with subtests.test(call.name):
                    assert result.is_error == bool(call.code), text
                    kind, _, name = call.code.rpartition(":")
                    assert (f"'{name}'" if kind else f"({name})" if name else "") in text
                    assert not kind or "(bad_argument)" in text
                    assert "validation" not in text, "no words of a program"
                    assert "Error executing" not in text
                    assert HIDDEN not in text
                    assert "Say nothing" not in text
                    assert MADE["lesson"] not in text
                    assert str(store) not in text

    asyncio.run(work())
    math = libraries.load("math")
    assert [one.lesson for one in math.experiences] == [ENDS, STUCK], "no proposal is shown"
    (held,) = [one for one in math.withheld if one.status == "pending"]
    assert held.experience.lesson == MADE["lesson"]
    assert [author.words for author in held.experience.origin.strangers] == ["recorded traffic (mcp)"]
    assert libraries.load("secret").experiences[0].id == secret
    (waiting,) = json.loads(agentlearn_here("review", "--json", "--store", str(store), cwd=store).stdout)["items"]
    assert waiting["lessons"][0]["lesson"] == MADE["lesson"]


def test_proposals_neither_fill_the_inbox_nor_come_back_after_a_refusal(store: Path) -> None:
    history = LibraryStore(store / "libraries").history("math")

    async def proposed(server: Any, lesson: str) -> str:
        async with Client(server) as client:
            result = await client.call_tool("propose_lesson", {"library": "math", "lesson": lesson})
            return json.dumps([one.model_dump() for one in result.content]) if result.is_error else ""

    server, last = mcp_server(["math"], store), ""
    assert asyncio.run(proposed(server, "Guess when the time is nearly over.")) == ""
    history.reject(history.load().withheld[-1].experience.id)
    assert "(refused_by_person)" in asyncio.run(proposed(server, "Guess, when the TIME is nearly over!"))
    words = [f"{a}{b}{c}" for a in ("ba", "ke", "li", "mo", "nu") for b in "dfgst" for c in ("al", "en", "ir")]
    for number in range(MOST_WAITING + 1):
        assert last == ""
        last = asyncio.run(proposed(server, " ".join(words[number : number + 25 : 5])))
    assert "inbox_full" in last
    pending = [one for one in history.load().withheld if one.status == "pending"]
    assert len(pending) == MOST_WAITING


def test_a_lesson_is_found_as_soon_as_a_person_approves_it(store: Path) -> None:
    history = LibraryStore(store / "libraries").history("math")

    async def found(client: Client) -> list[str]:
        result = (await client.call_tool("search_lessons", {"query": "fractions"})).structured_content
        assert result is not None
        return [one["lesson"] for one in result["lessons"]]

    async def work() -> None:
        async with Client(mcp_server(["math"], store)) as client:
            await client.call_tool("propose_lesson", MADE)
            assert await found(client) == []
            history.approve(history.load().withheld[-1].experience.id)
            assert await found(client) == [MADE["lesson"]]

    asyncio.run(work())


def test_equal_needs_get_equal_answers_also_after_a_restart_and_a_new_order(store: Path) -> None:
    libraries = LibraryStore(store / "libraries")
    tied = library_of([f"Peel the {fruit} first." for fruit in ("plum", "pear", "kiwi", "lime", "fig")])
    libraries.publish("math", tied)

    def answer(query: str) -> list[str]:
        async def asked() -> list[str]:
            async with Client(mcp_server(["math"], store)) as client:
                found = (await client.call_tool("search_lessons", {"query": query, "limit": 3})).structured_content
                assert found is not None
                return [one["id"] for one in found["lessons"]]

        return asyncio.run(asked())

    first = answer("Peel it first")
    assert first == sorted(one.id for one in tied.experiences)[:3]
    assert answer("first:  PEEL it!") == first
    libraries.publish("math", Library(parent=tied.version, experiences=tied.experiences[::-1]))
    assert answer("Peel it first") == first


def test_read_only_offers_no_tool_that_stores_something(store: Path) -> None:
    async def names() -> list[str]:
        async with Client(mcp_server(["math"], store, read_only=True)) as client:
            return [one.name for one in (await client.list_tools()).tools]

    assert asyncio.run(names()) == ["search_lessons", "get_lesson"]


INITIALIZE = cases(__file__, "initialize")
SENT = {
    "authorization": f"Bearer {TOKEN}",
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}


class Trick(NamedTuple):
    """A request that is refused."""

    name: str
    status: int
    headers: dict[str, str] = {}  # noqa: RUF012
    path: str = "/mcp"
    method: str = "POST"
    body: bytes = json.dumps(INITIALIZE).encode()


TRICKS = (
    Trick("no token", 401, {"authorization": ""}),
    Trick("another token", 401, {"authorization": f"Bearer {TOKEN[:-1]}x"}),
    Trick("the start of the token", 401, {"authorization": f"Bearer {TOKEN[:-1]}"}),
    Trick("the token as a password", 401, {"authorization": f"Basic {TOKEN}"}),
    Trick("the token in the address", 401, {"authorization": ""}, f"/mcp?token={TOKEN}"),
    Trick("no token, for another path", 401, {"authorization": ""}, "/"),
    Trick("a name that was bound to this machine later", 421, {"host": f"evil.example:{PORT}"}),
    Trick("another port in Host", 421, {"host": "127.0.0.1:1"}),
    Trick("Host with an account", 421, {"host": f"a@127.0.0.1:{PORT}"}),
    Trick("an empty Host", 421, {"host": ""}),
    Trick("a page of another site", 403, {"origin": "http://evil.example"}),
    Trick("a page without an origin", 403, {"origin": "null"}),
    Trick("a page at another port", 403, {"origin": "http://127.0.0.1:1"}),
    Trick("a page at another port, as the browser says it", 403, {"sec-fetch-site": "same-site"}),
    Trick("an address that is too long", 414, {}, f"/mcp?{'a' * 5_000}"),
    Trick("another path", 404, {}, "/mcp/../secret"),
    Trick("a body that is too large", 413, {}, body=b" " * (MAX_REQUEST + 1)),
    Trick("a body that is no JSON", 400, {}, body=b"{"),
    Trick("JSON that is too deep", 400, {}, body=b"[" * 20_000),
    Trick("a form", 400, {"content-type": "application/x-www-form-urlencoded"}),
    Trick("an answer in another form", 406, {"accept": "text/html"}),
    Trick("a version that there is not", 400, {"mcp-protocol-version": "1999-01-01"},
          body=b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}'),
    Trick("another method", 405, {}, method="PUT"),
)  # fmt: skip


@contextmanager
def served(store: Path) -> Generator[TestClient]:
    app = http_app(mcp_server(["math"], store), hosts_of("127.0.0.1", PORT), TOKEN)
    with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", raise_server_exceptions=False) as client:
        yield client


def test_tricks_over_http_get_nothing(store: Path, subtests: pytest.Subtests) -> None:
    with served(store) as client:
        for trick in TRICKS:
            with subtests.test(trick.name):
                headers = {**SENT, **trick.headers}
                answer = client.request(trick.method, trick.path, headers=headers, content=trick.body)
                assert answer.status_code == trick.status, answer.text
                assert "search_lessons" not in answer.text
                assert TOKEN not in answer.text


def test_a_client_of_2025_is_served_as_it_asks_by_hand(store: Path) -> None:
    with served(store) as client:
        begun = client.post("/mcp", headers=SENT, content=json.dumps(INITIALIZE)).json()["result"]
        assert begun["protocolVersion"] == "2025-11-25"
        assert begun["serverInfo"]["name"] == "agentlearn"
        later = {**SENT, "mcp-protocol-version": "2025-11-25"}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert client.post("/mcp", headers=later, json=done).status_code == 202
        asked = {"name": "search_lessons", "arguments": {"query": "range"}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}
        found = client.post("/mcp", headers=later, json=call).json()["result"]["structuredContent"]
        assert [one["lesson"] for one in found["lessons"]] == [ENDS]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_over_stdio(store: Path, mode: Any) -> None:
    command = StdioServerParameters(command=str(AGENTLEARN), args=["mcp", "math", "--store", str(store)])

    async def work() -> None:
        async with Client(command, mode=mode) as client:
            found = (await client.call_tool("search_lessons", {"query": "stuck"})).structured_content
            assert found is not None
            assert [one["lesson"] for one in found["lessons"]] == [STUCK]
            made = await client.call_tool("propose_lesson", MADE)
            assert not made.is_error

    asyncio.run(work())
    reason = LibraryStore(store / "libraries").load("math").withheld[-1].reason
    assert reason.startswith("proposed over MCP by an agent of ")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_official_client_over_http(store: Path, mode: Any) -> None:
    command = [str(AGENTLEARN), "mcp", "math", "--port", "0", "--store", str(store)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        lines = [running.stderr.readline() for _ in range(3)]
        (url,), (token,) = re.findall(r"http://\S+", lines[0]), re.findall(r"Bearer (\S+)", lines[1])

        async def work() -> None:
            async with (
                httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
                Client(streamable_http_client(url, http_client=http), mode=mode) as client,
            ):
                found = (await client.call_tool("search_lessons", {"query": "stuck"})).structured_content
                assert found is not None
                assert [one["lesson"] for one in found["lessons"]] == [STUCK]

        try:
            asyncio.run(work())
        finally:
            running.terminate()


@pytest.mark.parametrize(("words", "said"), [
    ("", "name the libraries to offer"), ("maths", "'maths'"), ("../math", "'../math' is not a valid library name"),
    ("math --port 0", "AGENTLEARN_MCP_TOKEN has 5 characters"),
])  # fmt: skip
def test_the_command_says_what_is_wrong(store: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str) -> None:
    monkeypatch.setenv("AGENTLEARN_MCP_TOKEN", "short")
    assert said in agentlearn_here("mcp", *words.split(), "--store", str(store), cwd=store, expect=2).stderr


def test_nothing_of_the_package_is_imported_without_the_command() -> None:
    program = "import sys, agentlearn.cli.app as app; app.run(['library', 'list']); print('mcp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
