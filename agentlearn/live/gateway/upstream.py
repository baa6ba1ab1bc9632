"""The service behind a gateway: a request goes to it, and its reply goes back to the client, byte for byte."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from agentlearn.live.gateway.admission import AsgiScope, GatewayRefusal, GatewaySettings, Receive, Send, body_part
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import LEAST, error_words, forms_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

Headers = list[tuple[bytes, bytes]]
ReplyEnded = Callable[["ClientResponse", bytes, float], Awaitable[None]]
"""Called with a whole reply: its status and headers, its body, and the seconds since the request went out."""

OURS = "x-agentlearn-"
"""Begin of the names of our headers. No such header of a client goes on to the service."""
_HOP_BY_HOP = frozenset(("connection", "expect", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"))
"""Headers that hold for one connection only; those of a proxy are among them."""
_READABLE = frozenset(("gzip", "deflate", "identity"))
"""Encodings of a reply that can be read to record it."""
_ENDS = (b"data: [DONE]", b"event: message_stop", b"event: response.completed")
"""What the last event of a stream says in each dialect. It goes out when the reply is recorded."""
_HELD = 2**16
"""Bytes of the end of a reply that wait for its record. All before them goes out as fast as the client reads."""
_CONNECT_S, _SILENT_S, _IDLE_S = 15.0, 900.0, 4.0
"""Longest time for the service to accept a connection, and between its bytes; and for which an idle connection is kept:
vLLM and others close one after 5 s, and a request on it would be lost."""


class Upstream:
    """Sends requests on, through one pool of connections. It belongs to the event loop of its first request."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._base, self._key = settings.upstream.rstrip("/").removesuffix("/v1"), settings.key
        self._key_forms = sorted((one.encode() for one in forms_of(settings.key)), key=len, reverse=True)
        self._most = settings.max_body_mib * 2**20
        self._session: ClientSession | None = None

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def relay(
        self,
        path: str,
        content: bytes,
        ours: Headers,
        scope: AsgiScope,
        receive: Receive,
        send: Send,
        ended: ReplyEnded | None,
        counts: "Counter[tuple[str, str]]",
    ) -> None:
        """Send a request on, and the reply back as it comes, without the gateway's key where the service repeats it.

        ours: headers that are added to the reply. ended: where the reply is read; its end goes out afterwards. counts:
        what happened, by name and label of the metric; added to. A reply that is cut is cut for the client, too. Raises
        GatewayRefusal where the service does not answer, ConnectionAbortedError for a reply that it broke off.
        """
        from aiohttp import ClientError
        from yarl import URL

        query = scope["query_string"].decode("latin-1")
        target = URL(f"{self._base}{path}{'?' if query else ''}{query}", encoded=True)
        headers = self._request_headers(scope, len(content))
        session, started = self._opened(), time.monotonic()
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            request = asyncio.ensure_future(
                session.request(scope["method"], target, data=content or None, headers=headers, allow_redirects=False)
            )
            await asyncio.wait({request, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not request.done():  # the client has left before the service answered
                request.cancel()
                counts["cut", "client"] += 1
                return
            response = await request
        except (ClientError, TimeoutError) as error:
            gone.cancel()
            kind = "timeout" if isinstance(error, TimeoutError) else "unreachable"
            counts["unreached", kind] += 1
            get_log().warning("gateway.unreached", service=self._base, error=error_words(error))
            status = 504 if kind == "timeout" else 502
            raise GatewayRefusal(
                status, f"service_{kind}", f"the service {self._base!r} did not answer: {kind}"
            ) from error
        gone.add_done_callback(lambda _: response.close())
        try:
            counts["requests", str(response.status)] += 1
            await self._reply(response, ours, send, ended, started)
        except (ClientError, TimeoutError) as error:
            by = "client" if gone.done() else "service"
            counts["cut", by] += 1
            if by == "service":
                get_log().warning("gateway.reply_cut", service=self._base, error=error_words(error))
                raise ConnectionAbortedError("the service broke its reply off") from error
        finally:
            gone.cancel()
            response.release()

    async def _reply(
        self, response: "ClientResponse", ours: Headers, send: Send, ended: ReplyEnded | None, started: float
    ) -> None:
        given = [(name.decode("latin-1"), b"".join(self._without_key(value))) for name, value in response.raw_headers]
        dropped = _dropped([(name, value.decode("latin-1")) for name, value in given])
        if self._key and "content-encoding" in response.headers:  # it is plain here, so that the key is found in it
            dropped |= {"content-encoding", "content-length"}
        kept = [(name.encode("latin-1"), value) for name, value in given if name.lower() not in dropped]
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        keeps, ends, parts, size, held = ended is not None, not streamed, list[bytes](), 0, b""
        await send({"type": "http.response.start", "status": response.status, "headers": [*kept, *ours]})
        async for part in self._parts(response):
            size += len(part)
            keeps = keeps and size <= self._most
            if keeps:
                parts.append(part)
            ends = ends or any(end in part for end in _ENDS)
            if keeps and ends and len(held) + len(part) <= _HELD:
                held += part
            else:
                ready, held = (held, part) if keeps and ends else (held + part, b"")
                await send(body_part(ready, more=True))
        if keeps and ended is not None:
            await ended(response, b"".join(parts), time.monotonic() - started)
        await send(body_part(held, more=False))

    async def _parts(self, response: "ClientResponse") -> AsyncGenerator[bytes]:
        """The body of a reply as it comes, without the key."""
        begun = b""
        async for sent in response.content.iter_any():
            part, begun = self._without_key(begun + sent)
            yield part
        yield begun if len(begun) < LEAST else b"*" * len(begun)

    def _without_key(self, data: bytes) -> tuple[bytes, bytes]:
        """The data with as many stars in place of the key; and its end, if the key may begin there."""
        for one in self._key_forms:
            data = data.replace(one, b"*" * len(one))
        ends = (n for one in self._key_forms for n in range(1, len(one)) if data.endswith(one[:n]))
        end = len(data) - max(ends, default=0)
        return data[:end], data[end:]

    def _request_headers(self, scope: AsgiScope, length: int) -> list[tuple[str, str]]:
        given = [(name.decode("latin-1"), _decoded(value)) for name, value in scope["headers"]]
        dropped = _dropped(given) | {"host", "content-length"}
        kept: list[tuple[str, str]] = []
        if self._key:
            dropped |= {"authorization", "x-api-key"}
            is_anthropic = any(name.lower() == "x-api-key" for name, _ in given)
            kept.append(("x-api-key", self._key) if is_anthropic else ("authorization", f"Bearer {self._key}"))
        for name, value in given:
            if name.lower() == "accept-encoding" and self._key:
                kept.append((name, "identity"))
            elif name.lower() == "accept-encoding":
                wanted = (one.strip() for one in value.split(","))
                readable = ", ".join(one for one in wanted if one.partition(";")[0].strip() in _READABLE)
                kept.append((name, readable or "identity"))
            elif name.lower() not in dropped and not name.lower().startswith(OURS):
                kept.append((name, value))
        if length or scope["method"] == "POST":
            kept.append(("content-length", str(length)))
        return kept

    def _opened(self) -> "ClientSession":
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=0, keepalive_timeout=_IDLE_S, socket_factory=_opened_socket),
                cookie_jar=DummyCookieJar(),
                auto_decompress=bool(self._key),
                timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENT_S),
                skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                read_bufsize=_HELD,
                max_line_size=2**16,
                max_field_size=2**16,
            )
        return self._session


def _opened_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that takes little of a reply before we read on; the system would take some megabytes."""
    opened = socket.socket(*address[:3])
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * _HELD)
    return opened


def _dropped(headers: Sequence[tuple[str, str]]) -> set[str]:
    """The headers that hold for one connection only: the known ones, those of a proxy, and what `connection` names."""
    found = set[str](_HOP_BY_HOP)
    for name, value in headers:
        if name.lower() == "connection":
            found |= {one.strip().lower() for one in value.split(",")}
        elif name.lower().startswith("proxy-"):
            found.add(name.lower())
    return found


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
