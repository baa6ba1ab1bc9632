"""The server of the gateway, the web app and MCP: slow clients keep nobody out, and an unclear length is refused."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="pip install 'agentlearn-lib[serve]'")

from agentlearn.serving.web_server import WAITS_S, wrong_head
from tests.support.cases import cases
from tests.support.raw_http import connected, one_answer, said, serving

ASKED = b"GET /small HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = 20_000_000


class Paths:
    """An app that answers each path in its way, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked = list[str]()
        self.bodies = list[bytes]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        body, more = b"", scope["path"] != "/refuse"
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        self.bodies.append(body)
        answer = b"x" * (LARGE if scope["path"] == "/large" else 2)
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def test_heads_that_two_servers_read_in_two_ways_are_refused(subtests: pytest.Subtests) -> None:
    for name, head, taken in cases(__file__, "wrong_heads"):
        with subtests.test(name):
            assert (wrong_head(head.encode()) == "") is taken


async def test_a_refused_head_ends_the_connection_also_after_another_request() -> None:
    app = Paths()
    both = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + ASKED
    async with serving(app) as port:
        assert (await said(port, both)).startswith(b"HTTP/1.1 400")
        assert app.asked == []
        answers = await said(port, ASKED + both)
        assert (answers.count(b"HTTP/1.1 200"), answers.count(b"HTTP/1.1 400")) == (1, 1)
    assert app.asked == ["/small"]


async def test_what_follows_a_body_that_nobody_read_is_no_request() -> None:
    """The app answers before the body is there; what comes after the body may be the rest of another request."""
    app = Paths()
    async with serving(app) as port, connected(port) as (reader, writer):
        writer.write(b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        assert (await one_answer(reader))[0] == 200
        writer.write(b"12345" + ASKED)
        assert await reader.read() == b""
    assert app.asked == ["/refuse"]


@pytest.mark.parametrize(
    ("what", "sent"),
    [
        ("head", [b"POST /x HTTP/1.1\r\nho"]),
        ("head", [b""]),
        ("head", [b"G", b"E", b"T", b" ", b"/", b"x"] * 10),  # a byte now and then is no request either
        ("body", [b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1"]),
        ("head", [ASKED, b"GET /s"]),
        ("idle", [ASKED]),
        ("reader", [b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"]),
    ],
)
async def test_a_slow_client_is_sent_away(monkeypatch: pytest.MonkeyPatch, what: str, sent: list[bytes]) -> None:
    for name in WAITS_S:
        monkeypatch.setitem(WAITS_S, name, 0.2 if name == what else 30.0)
    async with serving(Paths()) as port, connected(port) as (reader, writer):
        writer.transport.pause_reading() if what == "reader" else None  # type: ignore[attr-defined]
        for one in sent:
            writer.write(one)
            await asyncio.sleep(0.05)
        if what == "reader":
            await asyncio.sleep(0.8)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = 0
        async with asyncio.timeout(5):
            try:
                while part := await reader.read(2**20):
                    received += len(part)
            except ConnectionError:
                pass
    assert received < LARGE


async def test_a_client_that_does_its_part_is_not_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow service is no slow client, and each request begins anew."""
    for name in ("head", "body", "reader"):
        monkeypatch.setitem(WAITS_S, name, 0.3)

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await asyncio.sleep(0.5)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with serving(slow) as port, connected(port) as (reader, writer):
        for _ in range(2):
            writer.write(b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12")
            await asyncio.sleep(0.1)
            writer.write(b"34")
            assert (await one_answer(reader))[2] == b"ok"
            await asyncio.sleep(0.4)


async def test_a_client_that_reads_slowly_gets_the_whole_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WAITS_S, "reader", 0.5)
    async with serving(Paths()) as port, connected(port) as (reader, writer):
        writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        received = 0
        while part := await reader.read(2**18):
            received += len(part)
            await asyncio.sleep(0.02)
    assert received > LARGE


async def test_replies_that_nobody_reads_take_no_more_than_128_mib() -> None:
    """The client that has read nothing for the longest time makes room, and the others get all."""
    async with serving(Paths()) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        for _, writer in slow:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await asyncio.sleep(0.05)
        whole = list[bool]()
        for reader, writer in slow:
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            try:
                whole.append(len(await reader.read()) > LARGE)
            except ConnectionError:
                whole.append(False)
            writer.close()
    assert whole == [False] * 6 + [True] * 6


@pytest.mark.parametrize(
    "sent",
    [
        lambda: b"POST /x HTTP/1.1\r\nho",
        lambda: b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1",
        lambda: ASKED,
        lambda: b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_many_slow_clients_keep_nobody_out(sent: Callable[[], bytes]) -> None:
    """The one that has let the server wait longest makes room."""
    async with serving(Paths(), limit_concurrency=20) as port:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
        for _, writer in slow:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(sent())
        await asyncio.sleep(0.1)
        for _ in range(3):
            async with asyncio.timeout(2), connected(port) as (reader, writer):
                writer.write(ASKED)
                assert (await one_answer(reader))[0] == 200
        for _, writer in slow:
            writer.transport.abort()
