"""An upstream proxy: it is asked for checked addresses only, it gets its login, and its refusals are errors."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from agentlearn.errors import ConfigError
from agentlearn.text.secret_values import without_secrets
from agentlearn_web.boundary.access_policy import AccessPolicy
from agentlearn_web.boundary.proxy import ProxySession, open_proxy
from agentlearn_web.boundary.upstream import UpstreamProxy
from tests.support.raw_http import said, scripted

PUBLIC = "93.184.216.34"
NAMES = {"site.example.org": [PUBLIC], "inner.example.org": ["10.0.0.5"]}


@dataclass
class Proxy:
    """A scripted upstream proxy, and what it was asked."""

    answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n"
    heads: list[str] = field(default_factory=list)
    direct: list[str] = field(default_factory=list)
    """Addresses that were connected to without it."""

    @property
    def asked(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]

    async def script(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(head.decode())
        writer.write(self.answer)
        await writer.drain()
        if self.answer.startswith(b"HTTP/1.1 200"):
            request = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(request), request))
            await writer.drain()

    async def resolve(self, name: str, port: int) -> Sequence[str]:
        if name not in NAMES:
            raise OSError("no such name")
        return NAMES[name]

    async def dial(self, address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.direct.append(address)
        raise OSError("nothing here")


@asynccontextmanager
async def walk(proxy: Proxy, policy: AccessPolicy, upstream: UpstreamProxy | None) -> AsyncGenerator[ProxySession]:
    async with scripted(proxy.script) as port:
        given = replace(upstream or UpstreamProxy.at("http://127.0.0.1:1"), host="127.0.0.1", port=port)
        async with open_proxy(policy, resolve=proxy.resolve, dial=proxy.dial, upstream=given) as session:
            yield session


def answers(
    *urls: str, proxy: Proxy, policy: AccessPolicy | None = None, upstream: UpstreamProxy | None = None
) -> list[bytes]:
    """The responses to requests for these addresses."""

    async def main() -> list[bytes]:
        async with asyncio.timeout(30), walk(proxy, policy or AccessPolicy(), upstream) as session:
            return [await said(session.port, request(url)) for url in urls]

    return asyncio.run(main())


def request(url: str) -> bytes:
    return f"GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


def test_public_hosts_are_reached_through_it_at_the_address_that_was_checked() -> None:
    proxy = Proxy()
    (answer,) = answers("http://site.example.org/page", proxy=proxy)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"GET /page HTTP/1.1" in answer
    assert b"Host: site.example.org" in answer
    assert proxy.asked == [f"{PUBLIC}:80"]
    assert proxy.direct == []


def test_it_is_never_asked_for_a_private_host() -> None:
    proxy = Proxy()
    hosts = ("inner.example.org", "10.0.0.5", "127.0.0.1", "localhost", "metadata.google.internal", "169.254.169.254")
    refused = answers(*(f"http://{host}/" for host in hosts), proxy=proxy)
    assert all(answer.startswith(b"HTTP/1.1 403") for answer in refused)
    assert (proxy.asked, proxy.direct) == ([], [])


def test_a_named_private_host_is_connected_directly() -> None:
    proxy = Proxy()
    policy = AccessPolicy(public=False, named=frozenset({("10.0.0.5", 8080)}))
    answers("http://10.0.0.5:8080/", proxy=proxy, policy=policy)
    assert (proxy.asked, proxy.direct) == ([], ["10.0.0.5"])


def test_a_name_that_this_machine_cannot_resolve_is_left_to_it_only_if_the_user_says_so() -> None:
    proxy = Proxy()
    urls = ("http://unknown.example.org/", "http://unknown.internal/", "http://inner.example.org/")
    codes = [answer.split(b" ")[1] for answer in answers(*urls, proxy=proxy)]
    assert (codes, proxy.asked) == ([b"502", b"403", b"403"], [])
    looking_up = UpstreamProxy.at("http://127.0.0.1:1", looks_up=True)
    codes = [answer.split(b" ")[1] for answer in answers(*urls, proxy=proxy, upstream=looking_up)]
    assert (codes, proxy.asked) == ([b"200", b"403", b"403"], ["unknown.example.org:80"])


def test_its_login_comes_from_the_environment_and_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITE_PROXY_LOGIN", "anna:open-sesame-4711")
    upstream = UpstreamProxy.at("http://127.0.0.1:1", login_variable="SITE_PROXY_LOGIN")
    proxy = Proxy()
    (answer,) = answers("http://site.example.org/", proxy=proxy, upstream=upstream)
    encoded = base64.b64encode(b"anna:open-sesame-4711").decode()
    assert f"Proxy-Authorization: Basic {encoded}\r\n" in proxy.heads[0]
    assert encoded.encode() not in answer, "the site does not get it"
    assert "sesame" not in repr(upstream)
    assert without_secrets(f"open-sesame-4711 {encoded}") == "[secret] [secret]"


@pytest.mark.parametrize("value", [None, "", "anna", ":password"])
def test_a_missing_login_is_one_sentence(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SITE_PROXY_LOGIN", raising=False)
    if value is not None:
        monkeypatch.setenv("SITE_PROXY_LOGIN", value)
    with pytest.raises(ConfigError) as raised:
        UpstreamProxy.at("http://127.0.0.1:1", login_variable="SITE_PROXY_LOGIN")
    assert raised.value.message == (
        "site_proxy_login names the environment variable 'SITE_PROXY_LOGIN', which does not hold user:password;"
        " set it and run again"
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
        b"nonsense\r\n\r\n",
        b"",
        b"HTTP/1.1 20\r\n\r\n",
    ],
)
def test_a_proxy_that_refuses_or_breaks_off_is_unreachable(answer: bytes) -> None:
    (got,) = answers("http://site.example.org/", proxy=Proxy(answer))
    assert got.startswith(b"HTTP/1.1 502")


async def test_bytes_after_the_answer_belong_to_the_tunnel() -> None:
    async def script(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nhello from the site")
        await writer.drain()

    async with scripted(script) as port:
        reader, writer = await UpstreamProxy.at(f"http://127.0.0.1:{port}").dial(PUBLIC, 443)
        assert await reader.read() == b"hello from the site"
        writer.close()


def test_a_proxy_that_does_not_answer_is_named_before_the_first_walk() -> None:
    async def main() -> None:
        async with scripted(Proxy().script) as port:
            await UpstreamProxy.at(f"http://127.0.0.1:{port}").require()
        await UpstreamProxy.at(f"http://127.0.0.1:{port}").require()

    with pytest.raises(ConfigError, match=r"the proxy 127\.0\.0\.1:\d+ does not answer .*; check site_proxy"):
        asyncio.run(main())
