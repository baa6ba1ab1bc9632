"""Forwarding between a browser and a server: one plain http exchange, or the bytes of a tunnel in both directions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import h11

from agentlearn_web.boundary.client_connection import MAX_HEAD_BYTES, ClientConnection
from agentlearn_web.boundary.proxy_session import ProxySession, RequestBlocked
from agentlearn_web.boundary.resolve import READ_BYTES, Streams
from agentlearn_web.boundary.route import ProxyTarget

Fields = list[tuple[bytes, bytes]]
_HOP_BY_HOP = {
    b"connection",
    b"expect",
    b"keep-alive",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_ALWAYS_PASSED = {b"content-length", b"host"}
"""Always forwarded, even if a Connection header lists them."""


def request_fields(request: h11.Request, authority: str) -> Fields:
    """Return the headers for the server. Host comes from the request target, never from the browser's own header."""
    fields: Fields = [(b"Host", authority.encode("ascii"))]
    if _is_chunked(request):
        fields.append((b"Transfer-Encoding", b"chunked"))
    if upgrade := requested_upgrade(request):
        fields += [(b"Connection", b"upgrade"), (b"Upgrade", upgrade)]
    else:
        fields.append((b"Connection", b"close"))
    return fields + [field for field in _end_to_end_fields(request) if field[0].lower() != b"host"]


def response_fields(response: h11.Response) -> Fields:
    """Return the headers for the browser."""
    return _end_to_end_fields(response)


def switch_fields(response: h11.InformationalResponse) -> Fields:
    """Return the headers for the browser when the server switches to another protocol."""
    upgrade = _values(response, b"upgrade")
    return [(b"Connection", b"upgrade"), (b"Upgrade", b", ".join(upgrade)), *_end_to_end_fields(response)]


def requested_upgrade(request: h11.Request) -> bytes:
    """Return the protocol that the browser asks to switch to; empty if it asks for none."""
    asked = b"upgrade" in _tokens(_values(request, b"connection"))
    return b", ".join(_values(request, b"upgrade")) if asked else b""


def has_body(request: h11.Request) -> bool:
    """Return whether a body follows. Raises RequestBlocked (bad_request) if two headers give its length."""
    lengths = _values(request, b"content-length")
    if lengths and _is_chunked(request):
        raise RequestBlocked("bad_request", "two headers tell the length of this request")
    return _is_chunked(request) or any(length != b"0" for length in lengths)


def content_length(response: h11.Response) -> int:
    """Return the body size in bytes that the response declares; 0 if it declares none."""
    return max(map(int, _values(response, b"content-length")), default=0)


def is_html(response: h11.Response) -> bool:
    """Return whether the response is an HTML page."""
    return any(value.lower().startswith(b"text/html") for value in _values(response, b"content-type"))


def _end_to_end_fields(message: h11.Request | h11.Response | h11.InformationalResponse) -> Fields:
    dropped = (_HOP_BY_HOP | _tokens(_values(message, b"connection"))) - _ALWAYS_PASSED
    return [
        (name, value)
        for name, value in message.headers.raw_items()
        if name.lower() not in dropped and not name.lower().startswith(b"proxy-")
    ]


def _is_chunked(request: h11.Request) -> bool:
    return bool(_values(request, b"transfer-encoding"))


def _values(message: h11.Request | h11.Response | h11.InformationalResponse, wanted: bytes) -> list[bytes]:
    return [value for name, value in message.headers if name == wanted]


def _tokens(values: Iterable[bytes]) -> set[bytes]:
    return {token.strip().lower() for value in values for token in value.split(b",")}


_FLUSH_BYTES = 65_536
_BODYLESS = {204, 304}
Tick = Callable[[], None]
"""Called whenever data arrives from either side."""


class Relay:
    """A browser connection joined to a server connection."""

    def __init__(self, client: ClientConnection, server: Streams, session: ProxySession, tick: Tick) -> None:
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
        wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        fields = request_fields(request, target.authority)
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
                if event.status_code == 101 and requested_upgrade(request):
                    await self._switch_protocol(wire, event)
                    return
                continue
            if isinstance(event, h11.Response):
                self._check_length_header(request, event)
                fields, self._is_page = response_fields(event), is_html(event)
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
        head = h11.InformationalResponse(status_code=101, headers=switch_fields(response), reason=response.reason)
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
        if not bodyless and content_length(response) > self._session.limits.response_bytes:
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
