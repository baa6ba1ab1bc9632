"""A private service that counts every connection and packet; no page may ever reach it."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agentlearn_web.boundary.access_policy import read_host

SECRET = "the secret of the inside"
_HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\n"
    f"Content-Length: {len(SECRET)}\r\n\r\n{SECRET}"
)


@dataclass
class Inside:
    """What reached the private service."""

    port: int
    connections: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    """Requests by host; each attack uses a different address."""
    packets: int = 0
    """Number of UDP packets."""

    def taken(self) -> "Inside":
        """Return the counts so far and reset them."""
        taken = Inside(self.port, self.connections, self.requests, self.packets)
        self.connections, self.requests, self.packets = 0, Counter(), 0
        return taken


def _host(request: bytes) -> str:
    """Return the host of a request, as a proxy would parse it."""
    found = re.search(rb"^host: (\[[^\]]*\]|[^:\r]*)", request, re.IGNORECASE | re.MULTILINE)
    return str(read_host(found[1].decode())) if found else ""


class _Packets(asyncio.DatagramProtocol):
    def __init__(self, inside: Inside) -> None:
        self._inside = inside

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._inside.packets += 1


@asynccontextmanager
async def inside(addresses: Iterable[str]) -> AsyncGenerator[Inside]:
    """Serve TCP and UDP at all these loopback addresses, on one port."""
    running: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        found.connections += 1
        try:
            if request := await reader.read(65_536):
                found.requests[_host(request)] += 1
                writer.write(_HEAD.encode())
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            running.discard(task)
            writer.close()

    first, *others = addresses
    loop = asyncio.get_running_loop()
    servers = [await asyncio.start_server(connection, first, 0)]
    found = Inside(servers[0].sockets[0].getsockname()[1])
    servers += [await asyncio.start_server(connection, others, found.port)] if others else []
    doors = [
        (await loop.create_datagram_endpoint(lambda: _Packets(found), local_addr=(one, found.port)))[0]
        for one in (first, *others)
    ]
    try:
        yield found
    finally:
        for client in doors:
            client.close()
        for server in servers:
            server.close()
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        await asyncio.sleep(0)
        for server in servers:
            await server.wait_closed()
