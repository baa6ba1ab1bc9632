"""Host name lookup and TCP connections: the two calls that leave the process.

Tests replace both, for example with a name server that changes its answers.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns all addresses of a host name for a port. Raises OSError if there are none."""
Dial = Callable[[str, int], Awaitable[Streams]]
"""Connects to an IP address, never to a name. Raises OSError."""

READ_BYTES = 65_536


async def system_resolve(name: str, port: int) -> Sequence[str]:
    """Return the system resolver's addresses. Each lookup gets a new thread, so hanging lookups never block others."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def deliver(result: Sequence[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(result, OSError):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def look_up() -> None:
        result = _lookup(name, port)
        with contextlib.suppress(RuntimeError):  # the loop was closed before the lookup finished
            loop.call_soon_threadsafe(deliver, result)

    threading.Thread(target=look_up, name="agentlearn-lookup", daemon=True).start()
    return await answer


async def system_dial(address: str, port: int) -> Streams:
    """Open a TCP connection."""
    return await asyncio.open_connection(address, port, limit=READ_BYTES)


def _lookup(name: str, port: int) -> Sequence[str] | OSError:
    try:
        rows = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError as error:
        return OSError(str(error))
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))
