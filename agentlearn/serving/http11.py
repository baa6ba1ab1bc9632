"""A small HTTP/1.1 server on loopback: asyncio for the sockets, h11 for the protocol.

It supports keep-alive, chunked responses and many connections.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import SO_LINGER, SOL_SOCKET
from socket import socket as Socket  # noqa: N812  a class

import h11

HOST = "127.0.0.1"
MAX_BODY_BYTES = 32 * 1024 * 1024
GONE_CHECK_S = 0.5
"""Seconds between checks whether the client is still connected while its response is computed."""
_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A complete request."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Headers by lower-case name; of several with the same name, the last."""
    body: bytes
    query: str = ""
    """Text after the question mark of the path, as sent."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response, sent whole or in chunks."""

    status: int
    body: bytes = b""
    pieces: Sequence[bytes] = ()
    """Chunks to send instead of the body, if there are any."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"


class ConnectionCut(ConnectionError):
    """Raised by the app to reset the connection instead of sending a response."""


App = Callable[[HttpRequest], Awaitable[HttpResponse]]


@asynccontextmanager
async def listening(app: App, port: int = 0) -> AsyncGenerator[int]:
    """Serve the app on 127.0.0.1 while the block runs; yields the port (port 0: a free one).

    Leaving the block closes all connections, also during a request. Raises OSError when the port is taken.
    """
    running: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await _serve_connection(app, reader, writer)
        except ConnectionCut:
            # A linger time of 0 makes the socket send a reset.
            socket: Socket = writer.get_extra_info("socket")
            socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            # The client disconnected, or the server is closing.
            pass
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(connection, HOST, port, backlog=1_024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        with contextlib.suppress(ConnectionError):
            await server.wait_closed()


async def _serve_connection(app: App, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection until a side closes it."""
    wire = h11.Connection(h11.SERVER)
    while True:
        try:
            request = await _next_request(wire, reader, writer)
        except h11.RemoteProtocolError as error:
            if wire.our_state in {h11.IDLE, h11.SEND_RESPONSE}:  # else the error can no longer be sent
                close, status = {"connection": "close"}, error.error_status_hint
                body = f"{error}\n".encode()
                await _send(wire, writer, HttpResponse(status, body, headers=close, content_type="text/plain"))
            return
        if request is None:
            return
        response = await _answered(app, request, reader)
        if response is None:
            return
        await _send(wire, writer, response)
        if wire.our_state is h11.MUST_CLOSE or wire.their_state is not h11.DONE:
            return
        wire.start_next_cycle()


async def _answered(app: App, request: HttpRequest, reader: asyncio.StreamReader) -> HttpResponse | None:
    """The app's response; None when the client disconnected first, which cancels the app."""

    async def response_or_error() -> HttpResponse | Exception:
        try:
            return await app(request)
        except Exception as error:  # noqa: BLE001  raised again below; a task group would wrap it
            return error

    async with asyncio.TaskGroup() as tasks:
        answering = tasks.create_task(response_or_error())
        while not (await asyncio.wait({answering}, timeout=GONE_CHECK_S))[0]:
            if reader.at_eof():
                answering.cancel()
                return None
    result = answering.result()
    if isinstance(result, Exception):
        raise result
    return result


async def _next_request(
    wire: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> HttpRequest | None:
    head: h11.Request | None = None
    parts: list[bytes] = []
    size = announced = 0
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            if wire.they_are_waiting_for_100_continue:
                writer.write(wire.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            wire.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Request):
            head, announced = event, int(dict(event.headers).get(b"content-length", b"0"))
        elif isinstance(event, h11.Data):
            parts.append(bytes(event.data))
            size += len(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
            path, _, query = head.target.decode("ascii").partition("?")
            return HttpRequest(head.method.decode("ascii"), path, headers, b"".join(parts), query)
        else:
            return None
        if max(size, announced) > MAX_BODY_BYTES:
            raise h11.RemoteProtocolError("the body is larger than 32 MiB", error_status_hint=413)


async def _send(wire: h11.Connection, writer: asyncio.StreamWriter, response: HttpResponse) -> None:
    headers = [("content-type", response.content_type), *response.headers.items()]
    if not response.pieces:
        headers.append(("content-length", str(len(response.body))))
    head = wire.send(h11.Response(status_code=response.status, headers=headers)) or b""
    for piece in response.pieces or (response.body,):
        writer.write(head + (wire.send(h11.Data(data=piece)) or b""))
        head = b""
        await writer.drain()
    writer.write(wire.send(h11.EndOfMessage()) or b"")
    await writer.drain()
