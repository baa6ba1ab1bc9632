"""The proxy of a walk with raw clients: what it forwards, what it refuses, and that it closes everything."""

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import AccessPolicy, HostPort, RefusedConnection
from agentlearn_web.boundary.proxy import NetworkLimits, ProxySession, open_proxy
from agentlearn_web.boundary.upstream import Streams
from tests.support.cases import cases
from tests.support.raw_http import connected, one_answer, said, scripted

PUBLIC = "93.184.216.34"
OTHER_PUBLIC = "2606:2800:220:1::1"
KB = 1_024


@dataclass
class Outside:
    """A fake internet: the addresses of names, and one server behind every public address."""

    port: int
    names: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """Lookup results of each name, in order; the last one is repeated."""
    asked: list[str] = field(default_factory=list)
    dialled: list[HostPort] = field(default_factory=list)
    silent: tuple[str, ...] = ()
    """Addresses that do not answer."""

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        answers = self.names.get(name)
        if answers is None:
            raise OSError("no such name")
        self.asked.append(name)
        return answers[min(self.asked.count(name), len(answers)) - 1]

    async def dial(self, address: str, port: int) -> Streams:
        self.dialled.append((address, port))
        if address in self.silent:
            await asyncio.sleep(3600)
        return await asyncio.open_connection("127.0.0.1", self.port if address in (PUBLIC, OTHER_PUBLIC) else port)


async def echo(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A site whose response depends on the path."""
    match head.split(b" ")[1].partition(b"?")[0]:
        case b"/hang":
            await reader.read()
        case b"/chunked":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\n")
            writer.write(
                b"Proxy-Authenticate: Basic\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"
            )
            for piece in (b"one ", b"two ", b"three"):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        case b"/until-close":
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        case b"/old":
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nan old server")
        case b"/short":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all")
        case b"/short-chunk":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nnot all")
        case b"/nonsense":
            writer.write(b"hello, this is no HTTP\r\n\r\n")
        case b"/nothing":
            pass
        case b"/hints":
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        case b"/announced":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * KB)
            await reader.read()
        case b"/endless" | b"/endless.html" as path:
            kind = b"Content-Type: Text/HTML; charset=utf-8\r\n" if path.endswith(b"html") else b""
            writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"\r\n")
            while True:
                writer.write(b"x" * KB)
                await writer.drain()
        case b"/told.html":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n")
            writer.write(b"x" * 1_000_000)
        case b"/half":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
            await reader.read()
        case b"/socket":
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nready ")
            while data := await reader.read(KB):
                writer.write(data)
        case b"/size":
            size = await _body_size(head, reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%d" % (len(str(size)), size))
        case b"/early":
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n")
            await reader.read(1)
        case _:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(head), head))
    await writer.drain()


async def _body_size(head: bytes, reader: asyncio.StreamReader) -> int:
    told = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    if told:
        return len(await reader.readexactly(int(told[1])))
    total = 0
    while size := int(await reader.readuntil(b"\r\n"), 16):
        total += len(await reader.readexactly(size + 2)) - 2
    return total


@asynccontextmanager
async def walk(
    limits: NetworkLimits = NetworkLimits(),  # noqa: B008  frozen
    *,
    public: bool = False,
    named: Callable[[int], frozenset[HostPort]] = lambda port: frozenset(),
    **names: Sequence[Sequence[str]],
) -> AsyncGenerator[tuple[ProxySession, Outside]]:
    """A proxy session with the site `site.test`, and a host `NAME.example.org` for each keyword."""
    async with scripted(echo) as port:
        outside = Outside(port, {f"{name}.example.org": answers for name, answers in names.items()})
        policy = AccessPolicy(public=public, named=named(port), served={"site.test": ("127.0.0.1", port)})
        async with open_proxy(policy, limits, resolve=outside.resolve, dial=outside.dial) as session:
            yield session, outside


def run(main: Awaitable[None]) -> None:
    """Run one test with a time limit."""

    async def timed() -> None:
        async with asyncio.timeout(30):
            await main

    asyncio.run(timed())


def get(url: str, *more: str, method: str = "GET") -> bytes:
    """A request as a browser sends it to a proxy, with `Connection: close`."""
    lines = (f"{method} {url} HTTP/1.1", "Host: whatever.test", "Connection: close", *more)
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def connect(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()


def codes(session: ProxySession) -> list[str]:
    return [refusal.code for refusal in session.drain()]


async def test_a_served_site_gets_its_requests_without_proxy_headers() -> None:
    async with walk() as (session, outside):
        told = get(
            "http://SITE.test./path?q=1#fragment",
            "Proxy-Authorization: Basic c2VjcmV0",
            "Proxy-Connection: keep-alive",
            "Connection: x-hop",
            "X-Hop: 1",
            "TE: trailers",
            "Upgrade-Insecure-Requests: 1",
            "Cookie: a=1",
        )
        answer = (await said(session.port, told)).decode()
        status, _, head = answer.partition("\r\n\r\n")
        assert status.startswith("HTTP/1.1 200 OK")
        assert head.splitlines()[:2] == ["GET /path?q=1 HTTP/1.1", "Host: site.test"]
        assert head.count("Host:") == 1
        assert "Cookie: a=1" in head
        assert "Upgrade-Insecure-Requests: 1" in head
        for word in ("proxy", "x-hop", "te:", "secret", "whatever", "fragment"):
            assert word not in head.lower(), word
        assert outside.dialled == [("127.0.0.1", outside.port)]
        assert (session.requests, session.drain()) == (1, ())
        assert session.bytes > len(head)
        assert session.server == f"http://127.0.0.1:{session.port}"


async def test_each_request_of_a_kept_connection_is_checked() -> None:
    async with walk() as (session, _), connected(session.port) as (reader, writer):
        for path in ("/a", "/b"):
            writer.write(f"GET http://site.test{path} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode())
            status, _, body = await one_answer(reader)
            assert (status, body.split()[1]) == (200, path.encode())
        pipelined = ("http://site.test/c", "http://127.0.0.1:80/", "http://site.test/d")
        writer.write(b"".join(f"GET {url} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode() for url in pipelined))
        assert (await one_answer(reader))[0] == 200
        status, headers, body = await one_answer(reader)
        assert (status, headers["content-type"]) == (403, "text/plain; charset=utf-8")
        assert body == b"agentlearn: 127.0.0.1 is no site of this walk\n"
        assert await reader.read() == b""
        assert session.drain() == (RefusedConnection("not_served", "GET", "127.0.0.1", 80),)
        assert session.drain() == ()
        assert session.requests == 4


async def test_responses_are_forwarded_in_every_framing() -> None:
    async with walk() as (session, _), connected(session.port) as (reader, writer):
        wanted = {
            "/chunked": (200, b"one two three"),
            "/until-close": (200, b"to the end"),
            "/old": (200, b"an old server"),
            "/hints": (204, b""),
        }
        for path, (status, body) in wanted.items():
            writer.write(f"GET http://site.test{path} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode())
            got = await one_answer(reader)
            assert (got[0], got[2]) == (status, body), path
            assert not {"x-hop", "keep-alive", "proxy-authenticate"} & set(got[1]), path
        answer = await said(session.port, get("http://site.test/chunked"))
        assert answer.count(b"Set-Cookie") == 2
        answer = await said(session.port, b"GET http://site.test/chunked HTTP/1.0\r\n\r\n")
        assert answer.endswith(b"\r\n\r\none two three")
        assert codes(session) == []


@pytest.mark.parametrize("path", ["/short", "/short-chunk"])
async def test_a_truncated_response_is_not_forwarded_as_complete(path: str) -> None:
    async with walk() as (session, _), connected(session.port) as (reader, writer):
        writer.write(get(f"http://site.test{path}"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await one_answer(reader)
        assert codes(session) == ["unreachable"]


@pytest.mark.parametrize("path", ["/nonsense", "/nothing"])
async def test_a_server_without_http_gives_bad_gateway(path: str) -> None:
    async with walk() as (session, _):
        answer = await said(session.port, get(f"http://site.test{path}"))
        assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        assert codes(session) == ["unreachable"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies_are_uploaded(chunked: bool) -> None:
    body = bytes(3_000_000)

    async with walk() as (session, _):
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
        answer = await said(session.port, get("http://site.test/size", framing, method="POST") + sent)
        assert answer.endswith(f"\r\n\r\n{len(body)}".encode())
        assert session.bytes >= len(body)


async def test_a_response_may_arrive_before_the_upload_ends() -> None:
    async with walk() as (session, _), connected(session.port) as (reader, writer):
        writer.write(get("http://site.test/early", "Content-Length: 1000", method="POST"))
        status, _, body = await one_answer(reader)
        assert (status, body) == (413, b"no\n")
        assert await reader.read() == b""  # this connection cannot be used again
        assert codes(session) == []


def test_private_hosts_are_refused_without_a_connection(subtests: pytest.Subtests) -> None:
    for host in cases(__file__, "private_hosts_are_refused_without_a_connection"):
        with subtests.test(repr(host)):

            async def main() -> None:
                names = {"inside": [["10.1.2.3"]], "both": [[PUBLIC, "127.0.0.1"]]}
                async with walk(public=True, **names) as (session, outside):
                    answers = [
                        await said(session.port, raw)
                        for raw in (
                            get(f"http://{host}/"),
                            get(f"http://{host}:{outside.port}/", method="POST"),
                            connect(f"{host}:443"),
                            connect(f"{host}:{session.port}"),
                        )
                    ]
                    for answer in answers:
                        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n"), answer
                        assert answer.partition(b"\r\n\r\n")[2].count(b"\n") == 1
                    refusals = session.drain()
                    assert [one.code for one in refusals] == ["private_address"] * 4
                    assert [one.method for one in refusals] == ["GET", "POST", "CONNECT", "CONNECT"]
                    assert [one.port for one in refusals] == [80, outside.port, 443, session.port]
                    assert outside.dialled == []

            run(main())


@given(st.ip_addresses(network="127.0.0.0/8") | st.ip_addresses(network="10.0.0.0/8"), st.integers(1, 65_535))
def test_no_private_address_is_dialled(address: object, port: int) -> None:
    async def main() -> None:
        async with walk(public=True) as (session, outside):
            await said(session.port, connect(f"{address}:{port}"))
            assert (codes(session), outside.dialled) == (["private_address"], [])

    run(main())


def test_requests_that_no_browser_sends_are_bad_requests(subtests: pytest.Subtests) -> None:
    for raw in [
        b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET http://site.test/\r\n\r\n",
        b"HELO site.test\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"GET http://site.test/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://site.test/ HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET http://site.test/ HTTP/1.1\r\nHost: a\r\n X: folded\r\n\x00: b\r\n\r\n",
        b"GET http://site.test/\rHost:127.0.0.1 HTTP/1.1\r\nHost: site.test\r\n\r\n",
        get("http://site.test/", "Content-Length: 3", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
        get("http://site.test/", "Content-Length: 3", "Content-Length: 4", method="POST") + b"abcd",
        get("http://site.test/", "Transfer-Encoding: gzip", method="POST"),
        get("http://site.test/", "X: " + "x" * 200_000),
        get("https://site.test/"),
        get("ftp://site.test/"),
        get("file:///etc/passwd"),
        get("http:///path"),
        get("http://"),
        get("*", method="OPTIONS"),
        get("//site.test/"),
        get("http://site.test@127.0.0.1/"),
        get("http://public@site.test/"),
        get("http://a:b@site.test/"),
        get("http://site.test:0/"),
        get("http://site.test:65536/"),
        get("http://site.test:80:80/"),
        get("http://site.test:٨٠/".encode().decode("latin-1")),
        get("http://site.test%2f/"),
        get("http://site.test\\@127.0.0.1/"),
        get("http://[::1/"),
        get("http://[fe80::1%25eth0]/"),
        get("http://256.256.256.256/"),
        get("site.test:80"),
        connect("site.test"),
        connect("site.test:"),
        connect("http://site.test/"),
        connect("user@site.test:80"),
        connect("/"),
        b"CONNECT site.test:80 HTTP/1.1\r\nHost: site.test\r\nContent-Length: 3\r\n\r\nabc",
    ]:
        with subtests.test(repr(raw)):

            async def main() -> None:
                async with walk(public=True) as (session, outside):
                    answer = await said(session.port, raw)
                    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), answer
                    assert answer.partition(b"\r\n\r\n")[2].count(b"\n") == 1
                    assert codes(session) == ["bad_request"]
                    assert outside.dialled == []

            run(main())


async def test_the_proxy_frames_requests_itself_against_smuggling() -> None:
    async with walk() as (session, _):
        hidden = b"GET http://127.0.0.1/hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        framed = get("http://site.test/size", f"Content-Length: {len(hidden)}", method="POST") + hidden
        assert (await said(session.port, framed)).endswith(b"\r\n%d" % len(hidden))
        assert (session.requests, codes(session)) == (1, [])


async def test_the_public_internet_is_reached_at_the_address_that_was_checked() -> None:
    async with walk(public=True, www=[[OTHER_PUBLIC, PUBLIC]]) as (session, outside):
        answer = await said(session.port, get("http://www.example.org:8080/x"))
        assert b"\r\nHost: www.example.org:8080\r\n" in answer
        assert b"\r\nHost: 8.8.8.8\r\n" not in answer
        assert outside.dialled == [(PUBLIC, 8080)]
        async with connected(session.port) as (reader, writer):
            writer.write(connect("www.example.org:443") + b"GET /early-data HTTP/1.1\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            assert b"/early-data" in await reader.read()
        assert outside.dialled == [(PUBLIC, 8080), (PUBLIC, 443)]
        assert outside.asked == ["www.example.org"]
        assert codes(session) == []


async def test_a_name_is_resolved_once_per_walk() -> None:
    async with walk(public=True, rebind=[[PUBLIC], ["127.0.0.1"]]) as (session, outside):
        for _ in range(3):
            assert b" 200 " in await said(session.port, get("http://rebind.example.org/"))
        assert {address for address, _ in outside.dialled} == {PUBLIC}
    async with walk(public=True, rebind=[["127.0.0.1"], [PUBLIC]]) as (session, outside):
        assert b" 403 " in await said(session.port, get("http://rebind.example.org/"))
        assert outside.dialled == []


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    limits = NetworkLimits(connect_s=0.4)
    async with walk(limits, public=True, www=[[PUBLIC, OTHER_PUBLIC]], gone=[["1.2.3.4"]]) as (session, outside):
        outside.silent = (PUBLIC, "1.2.3.4")
        assert b" 200 " in await said(session.port, get("http://www.example.org/"))
        assert outside.dialled == [(PUBLIC, 80), (OTHER_PUBLIC, 80)]
        assert b" 502 " in await said(session.port, get("http://gone.example.org/"))
        assert b" 502 " in await said(session.port, get("http://nowhere.example.org/"))
        assert session.drain() == (
            RefusedConnection("unreachable", "GET", "gone.example.org", 80),
            RefusedConnection("unresolvable", "GET", "nowhere.example.org", 80),
        )


async def test_a_hanging_lookup_does_not_block_other_requests() -> None:
    async def hang(name: str, port: int) -> Sequence[str]:
        await asyncio.sleep(3600)
        return ()

    async with scripted(echo) as port:
        policy = AccessPolicy(served={"site.test": ("127.0.0.1", port)})
        async with (
            open_proxy(policy, NetworkLimits(connect_s=0.3), resolve=hang) as session,
            asyncio.TaskGroup() as tasks,
        ):
            slow = tasks.create_task(said(session.port, get("http://slow.example.org/")))
            assert b" 200 " in await said(session.port, get("http://site.test/"))
            assert not slow.done()
            assert b" 502 " in await slow
            assert codes(session) == ["unreachable"]


def test_a_public_address_of_this_machine_is_private() -> None:
    async def main() -> None:
        class Own:
            """A connection as it looks when a machine connects to its own public address."""

            def __init__(self, writer: asyncio.StreamWriter) -> None:
                self._writer = writer
                self.transport = writer.transport

            def get_extra_info(self, name: str) -> object:
                return (PUBLIC, 5) if name == "sockname" else self._writer.get_extra_info(name)

        async def resolve(name: str, port: int) -> Sequence[str]:
            return [PUBLIC]

        async with scripted(echo) as port:

            async def dial(address: str, _: int) -> Streams:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                return reader, Own(writer)  # pyright: ignore[reportReturnType]

            async with open_proxy(AccessPolicy(), resolve=resolve, dial=dial) as session:
                assert b" 403 " in await said(session.port, get("http://me.example.org/"))
                assert codes(session) == ["private_address"]

    run(main())


async def test_a_named_private_host_is_reached_only_at_its_port() -> None:
    def named(port: int) -> frozenset[HostPort]:
        return frozenset({("127.0.0.1", port), ("LocalHost", port), ("::1", 9), ("wiki.example.org", port)})

    for public in (False, True):
        async with walk(public=public, named=named, wiki=[["127.0.0.1"]]) as (session, outside):
            for host in ("127.0.0.1", "2130706433", "localhost", "wiki.example.org"):
                answer = await said(session.port, get(f"http://{host}:{outside.port}/"))
                assert b" 200 " in answer, (host, answer)
            assert b" 200 " in await said(
                session.port, connect(f"localhost:{outside.port}") + b"GET / HTTP/1.1\r\n\r\n"
            )
            dialled = len(outside.dialled)
            for host in ("127.0.0.1", "localhost", "wiki.example.org", "127.0.0.2", "[::ffff:127.0.0.1]"):
                port = outside.port if host in {"127.0.0.2", "[::ffff:127.0.0.1]"} else 8080
                assert b" 403 " in await said(session.port, get(f"http://{host}:{port}/")), host
            assert codes(session) == ["private_address" if public else "not_served"] * 5
            assert len(outside.dialled) == dialled


async def test_without_the_public_web_no_name_is_resolved() -> None:
    async with walk(www=[[PUBLIC]]) as (session, outside):
        for raw in (
            get("http://www.example.org/"),
            connect("www.example.org:443"),
            connect("1.1.1.1:443"),
            connect("site.test:443"),
            get("http://site.test:8080/"),
            get(f"http://127.0.0.1:{outside.port}/"),
            get(f"http://127.0.0.1:{session.port}/"),
            get("http://other.site.test/"),
            f"GET http://127.0.0.1:{outside.port}/ HTTP/1.0\r\n\r\n".encode(),
        ):
            assert b" 403 " in await said(session.port, raw), raw
        assert set(codes(session)) == {"not_served"}
        assert (outside.asked, outside.dialled) == ([], [])


async def test_a_tunnel_to_a_served_site_carries_bytes_both_ways_until_both_sides_end() -> None:
    async with walk() as (session, _), connected(session.port) as (reader, writer):
        writer.write(connect("site.test:80"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"GET /socket HTTP/1.1\r\nHost: site.test\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await reader.readexactly(6) == b"ready "
        for piece in (b"ping", b"x" * 200_000):
            writer.write(piece)
            assert await reader.readexactly(len(piece)) == piece
        writer.write_eof()
        assert await reader.read() == b""
        assert session.requests == 1
        assert session.bytes > 400_000
        assert codes(session) == []


async def test_an_accepted_upgrade_is_forwarded() -> None:
    async with walk() as (session, _), connected(session.port) as (reader, writer):
        asks = b"GET http://site.test%s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        writer.write(asks % b"/" + asks % b"/socket")
        status, _, head = await one_answer(reader)
        assert status == 200
        assert b"Upgrade: echo" in head
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        writer.write(b"ping")
        assert await reader.readexactly(10) == b"ready ping"


@pytest.mark.parametrize(
    ("path", "limits", "status"),
    [
        ("/announced", NetworkLimits(), b"403 Forbidden"),
        ("/endless", NetworkLimits(response_bytes=300_000), b"200 OK"),
        ("/endless", NetworkLimits(session_bytes=300_000), b"200 OK"),
    ],
)
async def test_a_response_that_is_too_large_is_cut(path: str, limits: NetworkLimits, status: bytes) -> None:
    async with walk(limits) as (session, _):
        answer = await said(session.port, get(f"http://site.test{path}"))
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert not answer.endswith(b"0\r\n\r\n")  # cut, not ended
        assert len(answer) < 600_000
        assert session.bytes < 600_000
        assert session.drain() == (RefusedConnection("too_large", "GET", "site.test", 80),)
        spent = limits.session_bytes < 1_000_000
        again = await said(session.port, get("http://site.test/"))
        assert again.startswith(b"HTTP/1.1 403" if spent else b"HTTP/1.1 200")
        assert codes(session) == (["too_large"] if spent else [])


async def test_a_page_that_is_too_large_ends_at_the_limit() -> None:
    async with walk(NetworkLimits(response_bytes=300_000)) as (session, _), connected(session.port) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET http://site.test/endless.html HTTP/1.1\r\nHost: a\r\n\r\n")
            status, _, body = await one_answer(reader)
            assert (status, set(body)) == (200, {ord("x")})
            assert 200_000 < len(body) <= 300_000
            assert codes(session) == ["too_large"]
        old = await said(session.port, b"GET http://site.test/endless.html HTTP/1.0\r\n\r\n")
        assert len(old) < 400_000


async def test_a_tunnel_over_its_limit_is_cut() -> None:
    async with walk(NetworkLimits(tunnel_bytes=300_000, response_bytes=10)) as (session, _):
        answer = await said(session.port, connect("site.test:80") + b"GET /endless HTTP/1.1\r\n\r\n")
        assert len(answer) < 600_000
        assert session.drain() == (RefusedConnection("too_large", "CONNECT", "site.test", 80),)


async def test_uploads_count_towards_the_limit() -> None:
    async with walk(NetworkLimits(session_bytes=100_000)) as (session, _):
        raw = get("http://site.test/size", "Content-Length: 3000000", method="POST")
        answer = await said(session.port, raw + bytes(3_000_000))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 403")
        assert codes(session) == ["too_large"]


async def test_connections_over_the_limit_are_refused() -> None:
    async with walk(NetworkLimits(connections=2)) as (session, _):
        async with connected(session.port) as (reader, writer), connected(session.port) as (other, other_writer):
            for stream in (writer, other_writer):
                stream.write(b"GET http://site.test/ HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await one_answer(reader))[0] == (await one_answer(other))[0] == 200
            assert b" 403 " in await said(session.port, get("http://site.test/"))
            assert session.drain() == (RefusedConnection("too_many", "GET", "site.test", 80),)
            writer.write(b"GET http://site.test/ HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await one_answer(reader))[0] == 200
        while b" 403 " in await said(session.port, get("http://site.test/")):
            await asyncio.sleep(0.01)


async def test_idle_requests_are_too_slow_and_idle_connections_are_closed() -> None:
    async with walk(NetworkLimits(idle_s=0.2)) as (session, _):
        assert b" 504 " in await said(session.port, get("http://site.test/hang"))
        assert (await said(session.port, get("http://site.test/half"))).endswith(b"\r\n\r\nhalf")
        slow = (RefusedConnection("too_slow", "GET", "site.test", 80),) * 2
        assert session.drain() == slow
        assert await said(session.port, b"GET http://site") == b""
        assert await said(session.port, connect("site.test:80")) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        assert session.drain() == ()


@pytest.mark.parametrize("reset", [False, True])
async def test_server_connections_close_when_the_browser_disconnects(reset: bool) -> None:
    left = asyncio.Event()

    async def hang(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()

    async with scripted(hang) as port, open_proxy(AccessPolicy(served={"site.test": ("127.0.0.1", port)})) as session:
        for raw in (get("http://site.test/"), connect("site.test:80") + b"GET / HTTP/1.1\r\n\r\n"):
            left.clear()
            async with connected(session.port) as (_, writer):
                writer.write(raw)
                await asyncio.sleep(0.05)
                if reset:
                    no_linger = struct.pack("ii", 1, 0)
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
                    writer.transport.abort()
            await left.wait()
        assert codes(session) == []


async def test_all_connections_are_closed_at_the_end_of_the_block() -> None:
    async with scripted(echo) as port:
        alone, descriptors = asyncio.all_tasks(), psutil.Process().num_fds()
        async with open_proxy(AccessPolicy(served={"site.test": ("127.0.0.1", port)})) as session:
            streams = [await asyncio.open_connection("127.0.0.1", session.port) for _ in range(5)]
            for (_, writer), raw in zip(
                streams,
                (
                    get("http://site.test/hang"),
                    get("http://site.test/endless"),
                    connect("site.test:80") + b"GET /socket HTTP/1.1\r\n\r\n",
                    get("http://site.test/size", "Content-Length: 5", method="POST"),
                    b"",
                ),
                strict=True,
            ):
                writer.write(raw)
            await asyncio.sleep(0.05)
        for reader, writer in streams:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", session.port)
        await asyncio.sleep(0.05)
        assert asyncio.all_tasks() == alone
        assert psutil.Process().num_fds() == descriptors


def test_an_error_inside_the_block_is_raised() -> None:
    async def main() -> None:
        async with walk() as (session, _), connected(session.port) as (_, writer):
            writer.write(get("http://site.test/hang"))
            await asyncio.sleep(0.02)
            raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        run(main())


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            AccessPolicy(served={"site.test": ("10.0.0.1", 80)}),
            "the site 'site.test' is served at '10.0.0.1', which is not a loopback address; serve it at 127.0.0.1",
        ),
        (
            AccessPolicy(named=frozenset({("a b", 80)})),
            "'a b' is not a host; give a name such as example.org or an IP address",
        ),
    ],
)
async def test_invalid_policies_are_config_errors(policy: AccessPolicy, message: str) -> None:
    with pytest.raises(ConfigError) as told:
        async with open_proxy(policy):
            pass
    assert (str(told.value), told.value.exit_status) == (message, 2)
