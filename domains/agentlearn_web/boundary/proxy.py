"""The forward proxy of a walk: one loopback port per walk, which connects only to hosts that the walk may reach.

Every request passes through here and is checked separately, including redirects, WebSockets and requests of workers.
Host names are resolved once, and the connection goes to the address that was checked. https and WebSockets are
tunnelled without being read, so only their host, port and size are known.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus

import h11

from agentlearn_web.boundary.access_policy import (
    REFUSED_HEADER,
    AccessPolicy,
    NetworkLimits,
    ProxySession,
    RefusalCode,
    RequestBlocked,
)
from agentlearn_web.boundary.upstream import (
    READ_BYTES,
    Dial,
    ProxyTarget,
    Resolve,
    Routes,
    Streams,
    UpstreamProxy,
    system_dial,
    system_resolve,
)

_MAX_HEAD_BYTES = 65_536
"""Largest accepted request or response head (first line and headers)."""
_STATUS: dict[RefusalCode, HTTPStatus] = {
    "bad_request": HTTPStatus.BAD_REQUEST,
    "unresolvable": HTTPStatus.BAD_GATEWAY,
    "unreachable": HTTPStatus.BAD_GATEWAY,
    "too_slow": HTTPStatus.GATEWAY_TIMEOUT,
}
"""HTTP status for each refusal code. All other codes get 403."""


class _WatchedReader(asyncio.StreamReader):
    """A stream reader that reports immediately when its peer disconnects, even while nobody reads."""

    gone = False
    on_gone: Callable[[], None] | None = None

    def feed_eof(self) -> None:
        """Pass on to the base class and report the disconnect."""
        super().feed_eof()
        self._notify()

    def set_exception(self, exc: Exception) -> None:
        """Pass on to the base class and report the disconnect."""
        super().set_exception(exc)
        self._notify()

    def _notify(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


class _ClientConnection:
    """One connection that the browser opened to the proxy."""

    def __init__(self, reader: _WatchedReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)

    async def next_request(self) -> h11.Request | None:
        """Return the head of the next request, or None at the end. Raises h11.RemoteProtocolError for invalid HTTP."""
        event = await self._next_event()
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> AsyncIterator[bytes]:
        """Yield the request body in pieces. Raises ConnectionError when the browser disconnects in the middle."""
        while isinstance(event := await self._next_event(), h11.Data):
            yield bytes(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionAbortedError

    async def end(self) -> None:
        """Consume the end of a request that has no body."""
        async for _ in self.body():
            pass

    def early_bytes(self) -> bytes:
        """Return bytes that the browser sent after a CONNECT or upgrade request, before the response."""
        return self._wire.trailing_data[0]

    def encode(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> bytes:
        """Return a part of the response as bytes, in the framing that this browser understands."""
        return self._wire.send(event) or b""

    def end_bytes(self) -> bytes:
        """Return the bytes that end a response early; empty if a content length was sent."""
        try:
            return self.encode(h11.EndOfMessage())
        except h11.LocalProtocolError:
            return b""

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait until the browser can take more."""
        self.writer.write(data)
        await self.writer.drain()

    async def refuse(self, refused: RequestBlocked) -> None:
        """Respond with one line of plain text. A response that has started is cut; a complete one is left alone."""
        if self._wire.our_state in {h11.DONE, h11.MUST_CLOSE}:
            return
        if self._wire.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.writer.transport.abort()
            return
        body = f"agentlearn: {refused}\n".encode()
        status = _STATUS.get(refused.code, HTTPStatus.FORBIDDEN)
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            (REFUSED_HEADER, refused.code),
            ("connection", "close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=status.phrase)
        await self.send(b"".join(map(self.encode, (head, h11.Data(data=body), h11.EndOfMessage()))))

    def next_cycle(self) -> bool:
        """Prepare for the next request. Returns False if the connection cannot take another one."""
        if self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
            return False
        self._wire.start_next_cycle()
        return True

    async def _next_event(self) -> object:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            if self._wire.they_are_waiting_for_100_continue:
                await self.send(self.encode(h11.InformationalResponse(status_code=100, headers=[])))
            self._wire.receive_data(await self.reader.read(READ_BYTES))
        return event

    async def handle_request(
        self, request: h11.Request, routes: Routes, session: ProxySession, *, crowded: bool
    ) -> None:
        """Forward one request, or refuse it."""
        method, target = request.method.decode("ascii"), None
        session.requests += 1
        try:
            target = ProxyTarget.read(method, request.target.decode("ascii"))
            session.check_limits(crowded=crowded)
            await self.forward_request(request, target, routes, session)
        except RequestBlocked as refused:
            host, port = (str(target.host), target.port) if target else ("", 0)
            if not (self.reader.gone and refused.code in {"unreachable", "too_slow"}):
                session.add_refusal(refused.code, method, host, port)
            await self.refuse(refused)

    async def forward_request(
        self, request: h11.Request, target: ProxyTarget, routes: Routes, session: ProxySession
    ) -> None:
        """Forward one request. Raises RequestBlocked, and OSError when the browser disconnects."""
        is_tunnel, with_body = request.method == b"CONNECT", _has_body(request)
        if is_tunnel and with_body:
            raise RequestBlocked("bad_request", "a CONNECT has no body")
        server = await routes.connect(target)
        try:
            async with asyncio.timeout(session.limits.idle_s) as deadline:
                loop = asyncio.get_running_loop()
                relay = _Relay(self, server, session, lambda: deadline.reschedule(loop.time() + session.limits.idle_s))
                if is_tunnel:
                    await self.end()
                    await self.send(_ESTABLISHED)
                    await relay.tunnel(self.early_bytes())
                else:
                    await relay.exchange(request, target, with_body=with_body)
        except TimeoutError:
            if is_tunnel:  # it is just closed; the next request opens a new one
                raise ConnectionAbortedError from None
            words = f"{target.host} kept silent for {session.limits.idle_s:g} s"
            raise RequestBlocked("too_slow", words) from None
        except (OSError, h11.ProtocolError) as error:
            if is_tunnel or self.reader.gone:
                raise ConnectionAbortedError from error
            raise RequestBlocked("unreachable", f"{target.host} broke off, or speaks no HTTP/1.1") from None
        finally:
            server[1].transport.abort()


_Fields = list[tuple[bytes, bytes]]
_HOP_BY_HOP = {b"connection", b"expect", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
_ALWAYS_PASSED = {b"content-length", b"host"}
"""Always forwarded, even if a Connection header lists them."""


def _request_fields(request: h11.Request, authority: str) -> _Fields:
    """Return the headers for the server. Host comes from the request target, never from the browser's own header."""
    fields: _Fields = [(b"Host", authority.encode("ascii"))]
    if _values(request, b"transfer-encoding"):
        fields.append((b"Transfer-Encoding", b"chunked"))
    if upgrade := _requested_upgrade(request):
        fields += [(b"Connection", b"upgrade"), (b"Upgrade", upgrade)]
    else:
        fields.append((b"Connection", b"close"))
    return fields + [field for field in _end_to_end_fields(request) if field[0].lower() != b"host"]


def _switch_fields(response: h11.InformationalResponse) -> _Fields:
    """Return the headers for the browser when the server switches to another protocol."""
    upgrade = _values(response, b"upgrade")
    return [(b"Connection", b"upgrade"), (b"Upgrade", b", ".join(upgrade)), *_end_to_end_fields(response)]


def _requested_upgrade(request: h11.Request) -> bytes:
    """Return the protocol that the browser asks to switch to; empty if it asks for none."""
    asked = b"upgrade" in _tokens(_values(request, b"connection"))
    return b", ".join(_values(request, b"upgrade")) if asked else b""


def _has_body(request: h11.Request) -> bool:
    """Return whether a body follows. Raises RequestBlocked (bad_request) if two headers give its length."""
    lengths = _values(request, b"content-length")
    if lengths and _values(request, b"transfer-encoding"):
        raise RequestBlocked("bad_request", "two headers tell the length of this request")
    return bool(_values(request, b"transfer-encoding")) or any(length != b"0" for length in lengths)


def _end_to_end_fields(message: h11.Request | h11.Response | h11.InformationalResponse) -> _Fields:
    dropped = (_HOP_BY_HOP | _tokens(_values(message, b"connection"))) - _ALWAYS_PASSED
    return [
        (name, value)
        for name, value in message.headers.raw_items()
        if name.lower() not in dropped and not name.lower().startswith(b"proxy-")
    ]


def _values(message: h11.Request | h11.Response | h11.InformationalResponse, wanted: bytes) -> list[bytes]:
    return [value for name, value in message.headers if name == wanted]


def _tokens(values: Iterable[bytes]) -> set[bytes]:
    return {token.strip().lower() for value in values for token in value.split(b",")}


_FLUSH_BYTES = 65_536
_BODYLESS = {204, 304}
_Tick = Callable[[], None]
"""Called whenever data arrives from either side."""


class _Relay:
    """A browser connection joined to a server connection."""

    def __init__(self, client: _ClientConnection, server: Streams, session: ProxySession, tick: _Tick) -> None:
        self._client = client
        self._reader, self._writer = server
        self._session = session
        self._tick = tick
        self._received = 0
        self._is_page = False

    async def exchange(self, request: h11.Request, target: ProxyTarget, *, with_body: bool) -> None:
        """Forward the request and its response. An HTML page that exceeds the size limit ends at the limit.

        Raises RequestBlocked (too_large, unreachable), and OSError or h11.ProtocolError when a side disconnects.
        """
        wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        fields = _request_fields(request, target.authority)
        head = wire.send(h11.Request(method=request.method, target=target.path, headers=fields)) or b""
        self._writer.write(head)
        self._client.reader.on_gone = self._writer.transport.abort
        if self._client.reader.gone:
            raise ConnectionAbortedError
        try:
            if with_body:
                await _run_both(self._send_response(wire, request), self._upload(wire))
            else:
                await self._upload(wire)
                await self._send_response(wire, request)
        finally:
            self._client.reader.on_gone = None

    async def tunnel(self, early_bytes: bytes = b"", late: bytes = b"") -> None:
        """Forward bytes in both directions until both sides have ended.

        early_bytes, late: bytes already received from the browser and from the server.
        Raises RequestBlocked (too_large), and OSError when a side disconnects.
        """
        await _run_both(
            self._pump(late, self._reader, self._client.writer, self._count_received),
            self._pump(early_bytes, self._client.reader, self._writer, self._session.count_bytes),
            both=True,
        )
        self._writer.close()
        await self._writer.wait_closed()  # the browser's last bytes have been handed to the system

    async def _upload(self, wire: h11.Connection) -> None:
        try:
            async for piece in self._client.body():
                self._tick()
                self._session.count_bytes(len(piece))
                self._writer.write(wire.send(h11.Data(data=piece)) or b"")
                await self._writer.drain()
            self._writer.write(wire.send(h11.EndOfMessage()) or b"")
            await self._writer.drain()
        except (RequestBlocked, OSError, h11.ProtocolError):
            self._writer.transport.abort()
            raise

    async def _send_response(self, wire: h11.Connection, request: h11.Request) -> None:
        buffer = bytearray()
        try:
            await self._forward_response(wire, request, buffer)
        except RequestBlocked as refused:
            if self._is_page and refused.code == "too_large":
                # End the response properly: a browser shows a page that ended, but waits for one that was cut.
                await self._client.send(bytes(buffer) + self._client.end_bytes())
            raise

    async def _forward_response(self, wire: h11.Connection, request: h11.Request, buffer: bytearray) -> None:
        while True:
            event = await self._next_event(wire, buffer)
            if isinstance(event, h11.InformationalResponse):
                if event.status_code == 101 and _requested_upgrade(request):
                    await self._switch_protocol(wire, event)
                    return
                continue
            if isinstance(event, h11.Response):
                self._check_length_header(request, event)
                fields = _end_to_end_fields(event)
                self._is_page = any(one.lower().startswith(b"text/html") for one in _values(event, b"content-type"))
                event = h11.Response(status_code=event.status_code, headers=fields, reason=event.reason)
            elif isinstance(event, h11.Data):
                self._count_response(len(event.data))
            elif not isinstance(event, h11.EndOfMessage):
                raise RequestBlocked("unreachable", "the server broke off")
            else:
                event = h11.EndOfMessage()
            buffer += self._client.encode(event)
            if isinstance(event, h11.EndOfMessage):
                await self._client.send(bytes(buffer))
                return

    async def _next_event(self, wire: h11.Connection, buffer: bytearray) -> object:
        """Return the server's next event. Sends the buffer to the browser before waiting, and when it is large."""
        while (event := wire.next_event()) is h11.NEED_DATA:
            if buffer:
                await self._client.send(bytes(buffer))
                buffer.clear()
            data = await self._reader.read(READ_BYTES)
            self._tick()
            self._session.count_bytes(len(data))
            wire.receive_data(data)
        if len(buffer) > _FLUSH_BYTES:
            await self._client.send(bytes(buffer))
            buffer.clear()
        return event

    async def _switch_protocol(self, wire: h11.Connection, response: h11.InformationalResponse) -> None:
        head = h11.InformationalResponse(status_code=101, headers=_switch_fields(response), reason=response.reason)
        await self._client.send(self._client.encode(head))
        await self.tunnel(self._client.early_bytes(), wire.trailing_data[0])

    async def _pump(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]
    ) -> None:
        try:
            data = first or await reader.read(READ_BYTES)
            while data:
                self._tick()
                count(len(data))
                writer.write(data)
                await writer.drain()
                data = await reader.read(READ_BYTES)
            if writer.can_write_eof() and not writer.is_closing():
                writer.write_eof()
        except (RequestBlocked, OSError):
            self._client.writer.transport.abort()
            self._writer.transport.abort()
            raise

    def _check_length_header(self, request: h11.Request, response: h11.Response) -> None:
        bodyless = request.method == b"HEAD" or response.status_code in _BODYLESS
        length = max(map(int, _values(response, b"content-length")), default=0)
        if not bodyless and length > self._session.limits.response_bytes:
            raise RequestBlocked("too_large", f"the response has more than {self._session.limits.response_bytes} bytes")

    def _count_response(self, size_bytes: int) -> None:
        self._received += size_bytes
        if self._received > self._session.limits.response_bytes:
            raise RequestBlocked("too_large", f"the response has more than {self._session.limits.response_bytes} bytes")

    def _count_received(self, size_bytes: int) -> None:
        self._received += size_bytes
        self._session.count_bytes(size_bytes)
        if self._received > self._session.limits.tunnel_bytes:
            raise RequestBlocked(
                "too_large", f"the connection brought more than {self._session.limits.tunnel_bytes} bytes"
            )


async def _run_both(main: Awaitable[None], second: Awaitable[None], *, both: bool = False) -> None:
    """Run two awaitables at once. Unless `both` is set, `second` is cancelled when `main` ends.

    Raises the error of either one; a RequestBlocked goes before a connection error.
    """
    async with asyncio.TaskGroup() as tasks:
        second_task = tasks.create_task(_error_of(second))
        errors = [await _error_of(main)]
        if not both:
            second_task.cancel()
    if not second_task.cancelled():
        errors.append(second_task.result())
    errors = sorted(filter(None, errors), key=lambda error: not isinstance(error, RequestBlocked))
    for error in errors:
        raise error


async def _error_of(running: Awaitable[None]) -> Exception | None:
    """Run it and return its error, if any: a task group would wrap the error in a group."""
    try:
        await running
    except (RequestBlocked, OSError, h11.ProtocolError) as error:
        return error
    return None


_HOST = "127.0.0.1"
_DEFAULT = NetworkLimits()
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@asynccontextmanager
async def open_proxy(
    policy: AccessPolicy,
    limits: NetworkLimits = _DEFAULT,
    *,
    resolve: Resolve = system_resolve,
    dial: Dial = system_dial,
    upstream: UpstreamProxy | None = None,
) -> AsyncGenerator[ProxySession]:
    """Run a proxy for one walk while the block runs, and close all its connections at the end.

    upstream: proxy through which public hosts are reached; None: directly.
    Raises ConfigError if the policy names an invalid host, or a served site that is not on loopback.
    """
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    loop = asyncio.get_running_loop()
    session = ProxySession(0, limits)
    routes = Routes(policy, session, resolve, dial, upstream)

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(reader, _WatchedReader)
        if not server.is_serving():
            writer.transport.abort()  # it connected while the block was ending
            return
        connections[task] = writer
        try:
            client, crowded = _ClientConnection(reader, writer), len(connections) > limits.connections
            while (request := await _next_request(client, session)) is not None:
                await client.handle_request(request, routes, session, crowded=crowded)
                if not client.next_cycle():
                    break
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()  # the browser disconnected, or the walk is over
        finally:
            del connections[task]
            writer.close()

    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(_WatchedReader(limit=READ_BYTES, loop=loop), connection, loop=loop)

    server = await loop.create_server(protocol, _HOST, 0, backlog=256)
    session.port = server.sockets[0].getsockname()[1]
    try:
        yield session
    finally:
        server.close()
        for task, writer in connections.items():
            writer.transport.abort()
            task.cancel()
        if connections:
            await asyncio.wait(tuple(connections))
        await asyncio.sleep(0)  # transports close in the next iteration of the loop
        await server.wait_closed()


async def _next_request(client: _ClientConnection, session: ProxySession) -> h11.Request | None:
    """Return the next request; None when the browser closes the connection, is idle too long, or sends invalid HTTP."""
    try:
        async with asyncio.timeout(session.limits.idle_s):
            return await client.next_request()
    except TimeoutError:
        return None
    except h11.RemoteProtocolError:
        session.requests += 1
        session.add_refusal("bad_request", "", "", 0)
        await client.refuse(RequestBlocked("bad_request", "this is no HTTP/1.1 request"))
        return None
