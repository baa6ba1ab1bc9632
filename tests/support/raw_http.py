"""HTTP as bytes on a socket: a client that sends given bytes, a server that a function scripts, and that of an app."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

HOST = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Script = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Called with the head of a request and the streams of its connection."""


@asynccontextmanager
async def scripted(script: Script) -> AsyncGenerator[int]:
    """Serve one request per connection with the script, and yield the port on 127.0.0.1."""
    running: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await script(await reader.readuntil(b"\r\n\r\n"), reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            running.discard(task)
            writer.transport.abort() if writer.is_closing() else writer.close()

    server = await asyncio.start_server(connection, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await asyncio.sleep(0)
        await server.wait_closed()


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncGenerator[int]:
    """Serve an ASGI app as `agentlearn` does, and yield the port on 127.0.0.1. options: of `uvicorn.Config`."""
    from agentlearn.serving.web_server import server_of

    server = server_of(app, log_level="critical", lifespan="off", **options)
    with socket.create_server((HOST, 0), backlog=512) as listener:
        running = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = server.force_exit = True
        await running


@asynccontextmanager
async def connected(port: int) -> AsyncGenerator[Streams]:
    """Open a connection to a port of 127.0.0.1."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def said(port: int, raw: bytes) -> bytes:
    """Send these bytes and return everything received until the server closes the connection."""
    async with connected(port) as (reader, writer):
        writer.write(raw)
        parts: list[bytes] = []
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(65_536):
                parts.append(part)
        return b"".join(parts)


async def one_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read the next response on an open connection: status, headers by lower-case name, body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in pairs}
    status = int(head[0].split()[1])
    if headers.get("transfer-encoding") == "chunked":
        parts: list[bytes] = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        await reader.readexactly(2)
        return status, headers, b"".join(parts)
    return status, headers, await reader.readexactly(int(headers.get("content-length", "0")))
