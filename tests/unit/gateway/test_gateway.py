"""The gateway between real clients and a service, in one process."""

import asyncio
import itertools
import json
import re
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

import pytest

from agentlearn import Library, LibraryStore, Trajectory
from agentlearn.errors import ConfigError
from agentlearn.live.forgetting import forget
from agentlearn.live.gateway.admission import GatewaySettings
from agentlearn.live.gateway.gateway import Gateway
from agentlearn.live.recorder import Recorder
from agentlearn.serving.http11 import ConnectionCut, HttpRequest, HttpResponse, listening
from agentlearn.store import read_store
from agentlearn.types.ids import RolloutId
from tests.support.cases import cases

LESSON = "Check whether both ends count."
REPLY = {"id": "r", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "42"}}]}
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "6 * 7?"}]}
TOKEN, OTHER = "token-of-the-first-client", "token-of-another-client"
IDS = ("rollout", "episode")


@dataclass
class Told:
    """What the gateway answered."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    parts: int = 0
    ended: bool = False

    @property
    def code(self) -> str:
        return json.loads(self.body)["error"]["code"]


@dataclass
class Setting:
    """A gateway before a service that remembers what it was asked."""

    gateway: Gateway
    asked: list[HttpRequest]
    replies: list[HttpResponse]
    """What the service answers next; the last one for ever."""

    async def ask(
        self,
        body: object = ASKED,
        path: str = "/v1/chat/completions",
        *,
        method: str = "POST",
        headers: Mapping[str, str] | list[tuple[str, str]] = MappingProxyType({}),
        receive: Callable[[], Awaitable[Any]] | None = None,
    ) -> Told:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = list(headers.items()) if isinstance(headers, Mapping) else headers
        if not any(name.lower() == "host" for name, _ in given):
            given = [("host", "localhost:8400"), *given]
        route, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(route),
            "raw_path": route.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given],
            "client": ("127.0.0.1", 5),
        }
        told, sent = Told(), [{"type": "http.request", "body": content, "more_body": False}]

        async def told_once() -> Any:
            return sent.pop() if sent else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                told.status = message["status"]
                told.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            else:
                told.body += message["body"]
                told.parts += bool(message["body"])
                told.ended = not message["more_body"]

        try:
            await self.gateway(scope, receive or told_once, send)
        except ConnectionAbortedError:
            told.ended = False
        return told


@asynccontextmanager
async def setting(store: Path, *replies: HttpResponse, **options: Any) -> AsyncGenerator[Setting]:
    LibraryStore(store / "libraries").publish("math", Library.of([LESSON]))
    asked: list[HttpRequest] = []
    waiting = list(replies) or [HttpResponse(200, json.dumps(REPLY).encode())]

    async def service(request: HttpRequest) -> HttpResponse:
        asked.append(request)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    async with listening(service) as port:
        upstream = options.pop("upstream", f"http://127.0.0.1:{port}/v1")
        options = {"libraries": ("math",), "store": store, **options}
        gateway = Gateway(GatewaySettings(upstream, **options))
        try:
            yield Setting(gateway, asked, waiting)
        finally:
            await gateway.aclose()


def stored(store: Path) -> list[Trajectory]:
    with read_store(store) as reader:
        found = [reader.trajectory(row.id) for run in reader.runs() for row in reader.trajectories(run.run)]
    return sorted(found, key=lambda one: (one.g, one.attempt))


async def test_a_request_passes_with_lessons_and_nothing_else(tmp_path: Path) -> None:
    content = b'{ "model":"m@math", "temperature": 1.0, "messages":[{"role":"user","content":"\\u00e9"}] }'
    async with setting(tmp_path) as here:
        told = await here.ask(
            content, "/v1/chat/completions?a=%2F", headers={"authorization": "Bearer k", "X-Own": "é"}
        )
        sent = here.asked[0]
    assert told.status == 200
    assert json.loads(told.body) == REPLY
    assert told.headers["x-agentlearn-library"].startswith("math@")
    assert (sent.query, sent.headers["authorization"]) == ("a=%2F", "Bearer k")
    assert not any(name.startswith("x-agentlearn") for name in sent.headers)
    assert LESSON.encode() in sent.body
    assert json.loads(sent.body)["model"] == "m"
    assert sent.body.startswith(b'{ "model":"m", "temperature": 1.0, "messages":[{"role": "system"')
    assert sent.body.endswith(b', {"role":"user","content":"\\u00e9"}] }')


@pytest.mark.parametrize(
    ("headers", "model", "shown", "status"),
    [
        ({}, "m", True, 200),
        ({"x-agentlearn-library": "none"}, "m", False, 200),
        ({}, "m@none", False, 200),
        ({}, "claude@20250101", True, 200),
        ({"x-agentlearn-library": "secret"}, "m", False, 404),
    ],
)
async def test_a_request_names_its_library(
    tmp_path: Path, headers: dict[str, str], model: str, shown: bool, status: int
) -> None:
    async with setting(tmp_path) as here:
        told = await here.ask({**ASKED, "model": model}, headers=headers)
        assert told.status == status
        if status == 200:
            assert (LESSON.encode() in here.asked[0].body) is shown
            assert json.loads(here.asked[0].body)["model"] == model.removesuffix("@none")
        else:
            assert told.code == "unknown_library"
            assert not here.asked


async def test_other_requests_pass_byte_for_byte(tmp_path: Path) -> None:
    reply = HttpResponse(418, b"\x00\xff", headers={"x-odd": "1", "content-encoding": "br"}, content_type="image/png")
    async with setting(tmp_path, reply) as here:
        for path, method, body in [
            ("/v1/models", "GET", b""),
            ("/v1/embeddings", "POST", b'{"input": "x"}'),
            ("/v1/chat/completions", "POST", b"no JSON"),
            ("/v1/files/a%20b", "PUT", b"\xff" * 1000),
        ]:
            told = await here.ask(body, path, method=method)
            assert (told.status, told.body, told.headers["x-odd"]) == (418, b"\x00\xff", "1")
            assert (here.asked[-1].method, here.asked[-1].path, here.asked[-1].body) == (method, path, body)


def _event(delta: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": delta}, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "m", "choices": [choice]}).encode() + b"\n\n"


async def test_a_long_reply_passes_as_it_comes_and_ends_when_it_is_recorded(tmp_path: Path) -> None:
    said = {**REPLY, "choices": [{"index": 0, "message": {"role": "assistant", "content": "42 " * 300_000}}]}
    content = json.dumps(said).encode()
    async with setting(tmp_path, HttpResponse(200, content)) as here:
        told = await here.ask()
        assert (told.body, told.ended, told.parts > 1) == (content, True, True)
        assert here.gateway.counts["recorded", ""] == 1


async def test_a_stream_passes_as_it_comes_and_ends_when_it_is_recorded(tmp_path: Path) -> None:
    pieces = [_event("4"), _event("2", "stop"), b"data: [DONE]\n\n"]
    async with setting(tmp_path, HttpResponse(200, pieces=pieces, content_type="text/event-stream")) as here:
        told = await here.ask({**ASKED, "stream": True})
        assert (told.body, told.ended) == (b"".join(pieces), True)
        assert here.gateway.counts["recorded", ""] == 1
    (rollout,) = stored(tmp_path)
    assert (rollout.id, rollout.answer) == (told.headers["x-agentlearn-rollout"], "42")


async def test_a_reply_that_is_cut_is_cut_for_the_client_and_not_recorded(tmp_path: Path) -> None:
    async with setting(tmp_path) as here:

        async def cut(_: HttpRequest) -> HttpResponse:
            raise ConnectionCut

        async with listening(cut) as port:
            broken = Gateway(replace(here.gateway.settings, upstream=f"http://127.0.0.1:{port}"))
            told = await replace(here, gateway=broken).ask()
            assert (told.status, told.code) == (502, "service_unreachable")
            await broken.aclose()
        half = HttpResponse(200, pieces=[_event("4")], content_type="text/event-stream")
        here.replies[:] = [half]
        told = await here.ask({**ASKED, "stream": True})
        assert told.body == _event("4")
        assert here.gateway.counts["unrecorded", "broken_off"] == 1  # it never said that it was finished
    assert not (tmp_path / "journal.sqlite").exists() or not stored(tmp_path)


@pytest.mark.parametrize(
    ("message", "ending", "limit", "code"),
    [
        ({"content": "The total is 4"}, "abort", None, "broken_off"),
        ({"content": "The total is 4"}, "content_filter", None, "filtered"),
        ({"content": "The total is 4"}, "length", None, "cut_off"),
        ({"content": "The total is 4"}, "length", 9, ""),
        ({"content": ""}, "stop", None, "empty"),
        ({"content": None, "reasoning": "hm"}, "stop", None, "only_reasoning"),
        ({"tool_calls": [{"id": "a"}]}, "tool_calls", None, "unread"),
    ],
)
async def test_only_the_models_answer_is_recorded_and_all_else_is_counted_with_its_code(
    tmp_path: Path, message: dict[str, Any], ending: str, limit: int | None, code: str
) -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 9}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": ending}], "usage": usage}
    async with setting(tmp_path, HttpResponse(200, json.dumps(body).encode())) as here:
        told = await here.ask({**ASKED, **({"max_tokens": limit} if limit else {})})
        assert json.loads(told.body) == body
        assert here.gateway.counts["unrecorded" if code else "recorded", code] == 1


async def test_a_request_that_cannot_be_read_passes_and_is_counted(tmp_path: Path) -> None:
    asked = {"model": "m", "messages": [*ASKED["messages"], {"role": "nobody", "content": "x"}]}
    async with setting(tmp_path) as here:
        assert json.loads((await here.ask(asked)).body) == REPLY
        assert here.gateway.counts["unrecorded", "unread"] == 1
        assert LESSON.encode() in here.asked[0].body


async def test_a_reply_that_swells_is_passed_and_not_read(tmp_path: Path) -> None:
    squeezed = zlib.compressobj()
    body = b"".join(squeezed.compress(bytes(2**20)) for _ in range(65)) + squeezed.flush()
    async with setting(tmp_path, HttpResponse(200, body, headers={"content-encoding": "deflate"})) as here:
        assert (await here.ask()).body == body
        assert here.gateway.counts["unrecorded", "unread"] == 1


async def test_a_compressed_reply_is_passed_and_read(tmp_path: Path) -> None:
    squeezed = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    body = squeezed.compress(json.dumps(REPLY).encode()) + squeezed.flush()
    async with setting(tmp_path, HttpResponse(200, body, headers={"content-encoding": "gzip"})) as here:
        told = await here.ask(headers={"accept-encoding": "br;q=1, gzip;q=0.5, zstd"})
        assert told.body == body
        assert here.asked[0].headers["accept-encoding"] == "gzip;q=0.5"
    assert stored(tmp_path)[0].answer == "42"


async def test_calls_of_one_agent_run_are_one_rollout_to_learn_from(tmp_path: Path) -> None:
    """An agent sends its conversation again with each result of a tool. The user's next words begin a new rollout."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    chat: list[dict[str, Any]] = [*ASKED["messages"]]
    async with setting(tmp_path) as here:
        told = [await here.ask({"model": "m", "messages": chat})]
        chat += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]
        told.append(await here.ask({"model": "m", "messages": chat}))
        told.append(await here.ask({"model": "m", "messages": chat}))  # another sample of the same call
        chat += [{"role": "assistant", "content": "42"}, {"role": "user", "content": "and 6 * 8?"}]
        told.append(await here.ask({"model": "m", "messages": chat}))
        episodes = {one.headers["x-agentlearn-episode"] for one in told}
        said = {"metric_name": "reward", "value": True, "episode_id": episodes.pop()}
        assert (await here.ask(said, "/v1/feedback")).status == 200
        assert not episodes
    rollouts = stored(tmp_path)
    assert [(one.g, one.attempt) for one in rollouts] == [(0, 0), (0, 1), (1, 0), (2, 0)]
    with read_store(tmp_path) as reader:
        counted = {row.id for row in reader.live("gateway", None)}
    assert counted == {one.id for one in rollouts[1:]}
    forget(tmp_path, rollout=rollouts[1].id)
    assert [(one.g, one.attempt) for one in stored(tmp_path)] == [(1, 0), (2, 0)]


def _response(name: str, *output: dict[str, Any]) -> HttpResponse:
    return HttpResponse(200, json.dumps({"id": name, "model": "m", "status": "completed", "output": output}).encode())


async def test_a_request_that_names_an_earlier_response_is_recorded_whole(tmp_path: Path) -> None:
    called = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "42"}]}
    replies = [_response("r1", called), _response("r2", said), _response("r3", said), _response("r4", said)]
    tokens = {TOKEN: "", OTHER: "other"}
    asks: list[tuple[str, dict[str, Any]]] = [
        (TOKEN, {"input": "6 * 7?", "instructions": "Count."}),
        (
            TOKEN,
            {
                "previous_response_id": "r1",
                "input": [{"type": "function_call_output", "call_id": "c", "output": "ok"}],
                "instructions": "Count.",
            },
        ),
        (TOKEN, {"previous_response_id": "r2", "input": "and 6 * 8?"}),
        (OTHER, {"previous_response_id": "r3", "input": "what was said?"}),
    ]
    async with setting(tmp_path, *replies, tokens=tokens) as here:
        told = [
            await here.ask({"model": "m", **body}, "/v1/responses", headers={"x-agentlearn-token": token})
            for token, body in asks
        ]
        sent = [json.loads(one.body) for one in here.asked]
    assert [one.get("input") for one in sent] == [body["input"] for _, body in asks]
    assert len({one.headers["x-agentlearn-episode"] for one in told[:3]}) == 1
    rollouts = {one.id: one for one in stored(tmp_path)}
    found = [rollouts[RolloutId(one.headers["x-agentlearn-rollout"])] for one in told[:3]]
    steps = [" ".join(step.kind for step in one.steps) for one in found]
    assert steps == ["model", "model tool model", "user model tool model user model"]
    assert [(one.g, one.attempt) for one in found] == [(0, 0), (0, 1), (1, 0)]
    (other,) = stored(tmp_path / "tenants" / "other")
    assert [step.kind for step in other.steps] == ["model"]
    assert told[3].headers["x-agentlearn-episode"] != told[2].headers["x-agentlearn-episode"]


async def test_feedback_reaches_its_rollout(tmp_path: Path) -> None:
    async with setting(tmp_path, metric="solved") as here:
        rollout = (await here.ask()).headers["x-agentlearn-rollout"]
        table = [
            ({"metric_name": "solved", "value": 0.25, "inference_id": rollout, "tags": {"by": "ana"}}, 200),
            ({"metric_name": "comment", "value": "too short", "inference_id": rollout}, 200),
            ({"metric_name": "demonstration", "value": "42, because", "inference_id": rollout}, 200),
            ({"metric_name": "speed", "value": 1.5, "inference_id": rollout}, 422),
            ({"metric_name": "solved", "value": "yes", "inference_id": rollout}, 422),
            ({"metric_name": "solved", "value": True}, 422),
            ({"value": True, "inference_id": rollout}, 422),
            ({"metric_name": "solved", "value": True, "inference_id": "../x"}, 422),
            ({"metric_name": "solved", "value": True, "inference_id": rollout, "extra": 1}, 422),
            ([], 422),
            (b"{", 422),
        ]
        for said, status in table:
            assert (await here.ask(said, "/v1/feedback")).status == status, said
    with read_store(tmp_path) as reader:
        (row,) = [one for one in reader.live("gateway", None) if one.id == rollout]
        assert row.reward == 0.25


async def test_a_store_that_cannot_be_written_stops_no_reply(tmp_path: Path) -> None:
    async with setting(tmp_path) as here:
        (tmp_path / "journal.sqlite").mkdir()
        told = await here.ask()
        assert (told.status, json.loads(told.body)) == (200, REPLY)
        rollout = told.headers["x-agentlearn-rollout"]
        told = await here.ask({"metric_name": "reward", "value": True, "inference_id": rollout}, "/v1/feedback")
        assert told.status == 503


async def test_instructions_that_are_no_text_stop_no_request(tmp_path: Path) -> None:
    async with setting(tmp_path) as here:
        body = {"model": "m", "messages": [{"role": "system", "content": 5}, *ASKED["messages"]]}
        assert (await here.ask(body)).status == 200
        assert json.loads(here.asked[0].body) == body
        assert [metric for metric, _ in here.gateway.counts] == ["unadvised", "requests", "recorded"]


async def test_hostile_requests_go_nowhere(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    async with setting(tmp_path, tokens={TOKEN: "", OTHER: "other"}, max_body_mib=1, max_sending_s=0.02) as here:
        for name, given, status, code in cases(__file__, "hostile"):
            asked, size = dict(given), given.get("size", 0)
            asked.pop("size", None)
            with subtests.test(name):
                told = await here.ask(b"x" * size if size > 0 else ASKED, receive=never if size < 0 else None, **asked)
                assert (told.status, told.code, here.asked) == (status, code, [])
                assert told.headers["content-type"] == "application/json"


async def test_a_client_that_asks_too_often_waits(tmp_path: Path) -> None:
    async with setting(tmp_path, tokens={TOKEN: "", OTHER: ""}, max_requests_per_minute=2) as here:
        mine = [await here.ask(headers={"x-agentlearn-token": TOKEN}) for _ in range(3)]
        other = await here.ask(headers={"x-agentlearn-token": OTHER})
    assert [one.status for one in mine] == [200, 200, 429]
    assert 1 <= int(mine[2].headers["retry-after"]) <= 60
    assert other.status == 200


async def test_a_request_that_is_cut_goes_nowhere(tmp_path: Path) -> None:
    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async with setting(tmp_path) as here:
        assert (await here.ask(receive=receive)).code == "cut"
        assert not here.asked


async def test_a_client_that_leaves_ends_the_call(tmp_path: Path) -> None:
    answering, left = asyncio.Event(), asyncio.Event()

    async def slow(_: HttpRequest) -> HttpResponse:
        answering.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with setting(tmp_path) as here, listening(slow) as port:
        gateway = Gateway(replace(here.gateway.settings, upstream=f"http://127.0.0.1:{port}"))
        told = [{"type": "http.request", "body": json.dumps(ASKED).encode(), "more_body": False}]

        async def receive() -> Any:
            if told:
                return told.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        asking = asyncio.ensure_future(replace(here, gateway=gateway).ask(receive=receive))
        await answering.wait()
        left.set()
        await asking
        assert gateway.counts["cut", "client"] == 1
        await gateway.aclose()


async def test_the_key_of_the_service_stays_with_the_gateway(tmp_path: Path) -> None:
    async with setting(tmp_path, tokens={TOKEN: ""}, key="sk-real") as here:
        told = await here.ask(headers={"authorization": f"Bearer {TOKEN}"})
        assert here.asked[-1].headers["authorization"] == "Bearer sk-real"
        await here.ask({**ASKED, "max_tokens": 1}, "/v1/messages", headers={"x-api-key": TOKEN})
        assert here.asked[-1].headers["x-api-key"] == "sk-real"
        assert "authorization" not in here.asked[-1].headers
        assert TOKEN not in str([one.headers for one in here.asked])
        assert "sk-real" not in str(told)


KEY, CLIENTS_KEY = "sk-made-up/for+this-test=000000", "sk-of-a-client-111111111111"


def _squeezed(body: bytes) -> bytes:
    squeezed = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return squeezed.compress(body) + squeezed.flush()


def _echo(key: str, path: str) -> bytes:
    """A reply that repeats the key as it is, in JSON's other form, and as a part of an address."""
    text = f"You sent {key}, that is {quote(key, safe='')}, for {path}"
    said = {"role": "assistant", "content": text, "tool_calls": [_function(key)]}
    return json.dumps({**REPLY, "id": key, "choices": [{"index": 0, "message": said}]}).encode()


def _function(key: str) -> dict[str, Any]:
    return {"id": key, "type": "function", "function": {"name": "f", "arguments": json.dumps({"key": key})}}


def _files(store: Path) -> bytes:
    return b"".join(one.read_bytes() for one in store.rglob("*") if one.is_file())


async def test_a_key_that_the_service_repeats_is_in_no_reply_and_no_store(
    tmp_path: Path, subtests: pytest.Subtests, caplog: pytest.LogCaptureFixture
) -> None:
    body, told_key = _echo(KEY, "/v1"), {"www-authenticate": f'Bearer realm="{KEY}"', "location": f"/x?key={KEY}"}
    event = b"data: " + json.dumps({"model": "m", "choices": [{"delta": {"content": KEY}}]}).encode() + b"\n\n"
    streamed = [event[at : at + 3] for at in range(0, len(event), 3)] + [_event("", "stop"), b"data: [DONE]\n\n"]
    replies = {
        "a reply": HttpResponse(200, body),
        "a refusal": HttpResponse(401, f"Incorrect API key provided: {KEY}".encode(), headers=told_key),
        "a page": HttpResponse(502, f"<pre>authorization: Bearer {KEY}</pre>".encode(), content_type="text/html"),
        "a squeezed reply": HttpResponse(200, _squeezed(body), headers={"content-encoding": "gzip"}),
        "a stream in small pieces": HttpResponse(200, pieces=streamed, content_type="text/event-stream"),
        "a reply that ends in a key": HttpResponse(200, KEY[:-1].encode()),
    }
    async with setting(tmp_path, tokens={TOKEN: "acme"}, key=KEY) as here:
        for name, reply in replies.items():
            with subtests.test(name):
                here.replies[:] = [reply]
                told = await here.ask(
                    {**ASKED, "stream": bool(reply.pieces)}, headers={"authorization": f"Bearer {TOKEN}"}
                )
                assert (told.status, told.ended) == (reply.status, True)
                assert KEY[:-1] not in told.body.decode() + str(told.headers)
                assert quote(KEY, safe="") not in told.body.decode()
                if "content-length" in told.headers:
                    assert int(told.headers["content-length"]) == len(told.body)
        assert here.asked[-1].headers["authorization"] == f"Bearer {KEY}"
        assert here.gateway.counts["recorded", ""] == 3
        broken = Gateway(replace(here.gateway.settings, upstream="http://127.0.0.1:1"))
        await replace(here, gateway=broken).ask(headers={"authorization": f"Bearer {TOKEN}"})
        await broken.aclose()
    assert stored(tmp_path / "tenants" / "acme")
    assert KEY.encode() not in _files(tmp_path)
    assert KEY not in caplog.text


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "api-key", "x-goog-api-key", "?key", "?api_key"])
async def test_a_key_of_a_client_is_not_stored(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    body, query = _echo(CLIENTS_KEY, "/v1"), f"{name}={CLIENTS_KEY}" if name.startswith("?") else ""
    headers = {} if query else {name: f"{'Bearer ' * (name == 'authorization')}{CLIENTS_KEY}"}
    async with setting(tmp_path, HttpResponse(200, body)) as here:
        told = await here.ask(path=f"/v1/chat/completions{query}", headers=headers)
        assert told.body == body, "its own key is its own"
        await here.ask()
    assert len(stored(tmp_path)) == 2
    assert _files(tmp_path).count(CLIENTS_KEY.encode()) in {2, 4, 6}, "of the other request only, which named no key"
    assert CLIENTS_KEY not in caplog.text


async def test_a_request_that_takes_too_long_to_read_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    turn = {"role": "user", "content": "x"}
    requests = {
        "many messages": b'{"messages":[' + b",".join([json.dumps(turn).encode()] * 600_000) + b"]}",
        "more messages than are read": json.dumps({"messages": [turn] * 10_001}).encode(),
        "many items": json.dumps({"input": [turn] * 10_001}).encode(),
        "many numbers": b'{"messages":[' + b"1," * 300_000 + b"1]}",
        "many names": json.dumps({str(number): 1 for number in range(300_000)}).encode(),
        "many levels": json.dumps({"messages": [*[turn] * 3, json.loads("[" * 150 + "]" * 150)]}).encode(),
        "levels without end": b'{"messages":' + b"[" * 100_000,
    }
    async with setting(tmp_path) as here:
        for name, body in requests.items():
            with subtests.test(name):
                before = time.process_time()
                told = await here.ask(body, "/v1/responses" if "items" in name else "/v1/chat/completions")
                assert (told.status, told.code, here.asked) == (413, "too_many_values", [])
                assert time.process_time() - before < 1
        assert (await here.ask(requests["many names"], "/v1/feedback")).code == "too_many_values"
        for name, body in {
            "a table in a text": json.dumps({"messages": [{**turn, "content": "1,2,[3],{4}\n" * 55_000}]}).encode(),
            "a text without an end": b'{"messages": "' + b",[" * 300_000,
            "a long conversation": json.dumps({"messages": [turn] * 1_000}).encode(),
        }.items():
            with subtests.test(name):
                assert (await here.ask(body)).status == 200


async def test_feedback_is_taken_on_what_was_recorded_for_the_client_only(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    chat = [{"role": "user", "content": "6 * 7?"}, {"role": "assistant", "content": "42"}]
    with Recorder("secret", tmp_path) as recorder:
        of_library = recorder.record_sync(chat, episode="secret-talk")
    with Recorder("gateway", tmp_path) as recorder:  # another process of the same gateway
        earlier = recorder.record_sync(chat, episode="earlier-talk")
    async with setting(tmp_path, tokens={TOKEN: "", OTHER: "other"}) as here:
        theirs = (await here.ask(headers={"x-agentlearn-token": OTHER})).headers
        mine = (await here.ask(headers={"x-agentlearn-token": TOKEN})).headers
        cases = {
            "mine": ({"inference_id": mine["x-agentlearn-rollout"]}, 200, ""),
            "my episode": ({"episode_id": mine["x-agentlearn-episode"]}, 200, ""),
            "recorded by another process": ({"inference_id": earlier}, 200, ""),
            "an episode of another process": ({"episode_id": "earlier-talk"}, 200, ""),
            "another tenant's": ({"inference_id": theirs["x-agentlearn-rollout"]}, 404, "unknown_rollout"),
            "another tenant's episode": ({"episode_id": theirs["x-agentlearn-episode"]}, 404, "unknown_episode"),
            "another library's": ({"inference_id": of_library}, 404, "unknown_rollout"),
            "an episode of another library": ({"episode_id": "secret-talk"}, 404, "unknown_episode"),
            "nobody's": ({"inference_id": "0" * 32}, 404, "unknown_rollout"),
            "an episode that there was not": ({"episode_id": "no talk"}, 404, "unknown_episode"),
            "an episode by the name of a rollout": ({"episode_id": earlier}, 404, "unknown_episode"),
            "a rollout by the name of an episode": (
                {"inference_id": mine["x-agentlearn-episode"]}, 404, "unknown_rollout"
            ),
        }  # fmt: skip
        for name, (named, status, code) in cases.items():
            with subtests.test(name):
                said = {"metric_name": "reward", "value": True, **named}
                told = await here.ask(said, "/v1/feedback", headers={"x-agentlearn-token": TOKEN})
                assert (told.status, "" if status == 200 else told.code) == (status, code)


async def test_a_tenant_sees_its_own_counts_only(tmp_path: Path) -> None:
    tokens = {TOKEN: "acme", OTHER: "beta", "token-of-the-owner-himself": ""}
    async with setting(tmp_path, tokens=tokens) as here:
        await here.ask(headers={"x-agentlearn-token": TOKEN})
        await here.ask(headers={"x-agentlearn-token": OTHER, "x-agentlearn-library": "no"})
        await here.ask(headers={"x-agentlearn-token": "nobody's"})
        told = [await here.ask(b"", "/metrics", method="GET", headers={"x-agentlearn-token": one}) for one in tokens]
    counted = [re.findall(rb'_gateway_(\w+)_total\{label="(\w*)"\} (\d)', one.body) for one in told]
    assert counted[0] == [(b"requests", b"200", b"1"), (b"recorded", b"", b"1")]
    assert counted[1] == [(b"refused", b"unknown_library", b"1")]
    assert {name for name, _, _ in counted[2]} == {b"requests", b"recorded", b"refused"}
    assert (b"refused", b"unknown_token", b"1") in counted[2]


@pytest.mark.slow
async def test_nothing_of_a_tenant_reaches_another(tmp_path: Path) -> None:
    """40 tenants at once: no lesson, record or id of one is in a request, a reply or a file of another."""
    tenants = range(10, 50)
    for n in tenants:
        store = tmp_path / "tenants" / f"t{n}"
        LibraryStore(store / "libraries").publish("math", Library.of([f"Lesson of tenant {n} only."]))
    told: dict[int, list[Told]] = {n: [] for n in tenants}
    async with setting(tmp_path, tokens={f"token-of-tenant-{n:04}": f"t{n}" for n in tenants}) as here:

        async def asks(n: int) -> None:
            headers = {"x-agentlearn-token": f"token-of-tenant-{n:04}"}
            chat = [{"role": "user", "content": f"question of tenant {n}"}]
            told[n].append(await here.ask({"model": "m", "messages": chat}, headers=headers))
            ids = {name: told[n][0].headers[f"x-agentlearn-{name}"] for name in IDS}
            chat += [{"role": "assistant", "content": "42"}, {"role": "user", "content": "all that was said?"}]
            told[n].append(await here.ask({"model": "m", "messages": chat}, headers=headers))
            said = {"metric_name": "comment", "value": f"comment of tenant {n}", "inference_id": ids["rollout"]}
            told[n].append(await here.ask(said, "/v1/feedback", headers=headers))
            for path in ("/metrics", "/.well-known/skills/index.json", "/.well-known/skills/math/SKILL.md"):
                told[n].append(await here.ask(b"", path, method="GET", headers=headers))

        await asyncio.gather(*(asks(n) for n in tenants))
        for sent in here.asked:
            assert len(set(re.findall(rb"of tenant (\d\d)", sent.body))) == 1
    ids = {n: {told[n][at].headers[f"x-agentlearn-{name}"] for at in (0, 1) for name in IDS} for n in tenants}
    assert len(set[str]().union(*ids.values())) == 3 * len(tenants)  # two rollouts and an episode
    for n in tenants:
        assert {one.status for one in told[n]} == {200}
        replies = b"".join(one.body + str(one.headers).encode() for one in told[n])
        files = b"".join(one.read_bytes() for one in (tmp_path / "tenants" / f"t{n}").rglob("*") if one.is_file())
        for held in (replies, files):
            assert set(re.findall(rb"of tenant (\d\d)", held)) == {str(n).encode()}
            found = set(re.findall(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])", held))
            assert ids[n] <= {one.decode() for one in found}
            assert not found & {one.encode() for other in tenants if other != n for one in ids[other]}
    shared = b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file() and "tenants" not in one.parts)
    assert b"of tenant" not in shared


async def test_a_share_of_episodes_reads_the_canary(tmp_path: Path) -> None:
    async with setting(tmp_path) as here:
        history = LibraryStore(tmp_path / "libraries").history("math")
        history.start_canary(Library.of([LESSON, "A lesson on trial."]), share=0.5, margin=0.02)
        read: dict[str, set[str]] = {}
        for n in range(24):
            told = await here.ask(headers={"x-agentlearn-episode": f"chat-{n % 12}"})
            on_trial = b"A lesson on trial." in here.asked[-1].body
            read.setdefault(f"chat-{n % 12}", set()).add(told.headers["x-agentlearn-library"] + str(on_trial))
    assert all(len(versions) == 1 for versions in read.values())
    assert len(set.union(*read.values())) == 2


async def test_libraries_are_skills_for_coding_agents(tmp_path: Path) -> None:
    async with setting(tmp_path, libraries=("math", "none")) as here:
        index = await here.ask(b"", "/.well-known/skills/index.json", method="GET")
        (entry,) = json.loads(index.body)["skills"]
        assert (entry["name"], entry["files"]) == ("math", ["SKILL.md"])
        assert entry["description"]
        told = await here.ask(b"", "/.well-known/skills/math/SKILL.md", method="GET")
        assert LESSON.encode() in told.body
        for wrong in ("math/other.md", "other/SKILL.md", "math", ""):
            refused = await here.ask(b"", f"/.well-known/skills/{wrong}", method="GET")
            assert refused.status == 404
            assert repr(wrong).encode() in refused.body


async def test_health_and_metrics(tmp_path: Path) -> None:
    async with setting(tmp_path) as here:
        assert (await here.ask(path="/health", method="GET", body=b"")).status == 200
        described = json.loads((await here.ask(path="/openapi.json", method="GET", body=b"")).body)
        assert {"/health", "/metrics", "/v1/feedback"} <= set(described["paths"])
        await here.ask()
        told = await here.ask(path="/metrics", method="GET", body=b"")
    assert b'agentlearn_gateway_requests_total{label="200"} 1\n' in told.body
    assert b"agentlearn_waiting 0\n" in told.body


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"upstream": "api.openai.com"}, "bad_config"),
        ({"upstream": "ftp://x"}, "bad_config"),
        ({"upstream": "http://user:pw@x"}, "bad_config"),
        ({"key": "k"}, "bad_config"),
        ({"hide": "2"}, "bad_hide"),
        ({"max_body_mib": 0}, "bad_config"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GatewaySettings(**dict[str, Any](upstream="http://x") | options)
    assert caught.value.code == code


@pytest.mark.parametrize(("episode", "tenant"), [("", ""), ("ticket-7", ""), ("ticket-7", "acme")])
async def test_a_conversation_keeps_the_lessons_it_began_with(tmp_path: Path, episode: str, tenant: str) -> None:
    """New versions reach new conversations; a named one goes on after a restart as it was."""
    headers = {"x-agentlearn-episode": episode} if episode else {}
    headers |= {"x-agentlearn-token": TOKEN} if tenant else {}
    options: dict[str, Any] = {"tokens": {TOKEN: tenant}} if tenant else {}
    if tenant:
        LibraryStore(tmp_path / "tenants" / tenant / "libraries").publish("math", Library.of(["Be ours."]))
    libraries, said, sent = LibraryStore(tmp_path / "libraries"), list[dict[str, str]](), list[str]()

    async def say(here: Setting) -> None:
        said.append({"role": "user", "content": f"6 * {len(said)}?"})
        await here.ask({"model": "m", "messages": said}, headers=headers)
        said.append({"role": "assistant", "content": "42"})
        sent.append(here.asked[-1].body.decode().removesuffix("]}"))

    async with setting(tmp_path, **options) as here:
        for turn in range(4):
            await say(here)
            if turn == 1:
                now = libraries.load("math")
                libraries.publish("math", Library(parent=now.version, experiences=Library.of(["Be new."]).experiences))
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(sent))
        await here.ask(ASKED, headers={name: value for name, value in headers.items() if "token" in name})
        assert b"Be new." in here.asked[-1].body
        assert (b"Be ours." in here.asked[-1].body) is bool(tenant)
    options |= {"upstream": "http://127.0.0.1:9", "libraries": ("math",), "store": tmp_path}
    gateway = Gateway(GatewaySettings(**options))
    try:
        content = json.dumps({"model": "m", "messages": [*said, {"role": "user", "content": "And 6 * 9?"}]}).encode()
        call = gateway._call(gateway._tenants[tenant], "/v1/chat/completions", content, headers)
        assert call is not None
        assert call.content.decode().startswith(sent[-1]) is bool(episode), "without a name it is a new one"
    finally:
        await gateway.aclose()
