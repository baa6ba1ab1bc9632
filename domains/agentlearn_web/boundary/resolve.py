"""From a host's name to its addresses, and from an address to a connection: the two doors to the outside.

Both can be replaced, so that tests can play a name server that changes its mind, and an internet of their own.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""All addresses of a host name, for a port. Raises OSError when there are none."""
Dial = Callable[[str, int], Awaitable[Streams]]
"""Connects to an address, never to a name. Raises OSError."""

READ_BYTES = 65_536


async def system_resolve(name: str, port: int) -> Sequence[str]:
    """Ask the system's resolver, in a thread of its own: however many questions hang, the next one is still asked."""
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
        with contextlib.suppress(RuntimeError):  # the loop ended before the answer came
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
