"""A service in its own thread with its own event loop, so that neither it nor the caller blocks the other."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from agentlearn.errors import EndpointError


@asynccontextmanager
async def serve_in_thread(opened: Callable[[], AbstractAsyncContextManager[str]]) -> AsyncGenerator[str]:
    """Run a service in a thread while the block runs; yields its URL.

    opened: creates the service, which is entered and left in that thread. Raises EndpointError when it cannot listen.
    """
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        async with opened() as url:
            ready.set_result((asyncio.get_running_loop(), stop, url))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as error:  # noqa: BLE001  raised again in the caller's thread
            if not ready.done():
                ready.set_exception(_as_endpoint_error(error))

    thread = threading.Thread(target=run, name="agentlearn-service", daemon=True)
    thread.start()
    loop, stop, url = await asyncio.wrap_future(ready)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join)


def _as_endpoint_error(error: Exception) -> Exception:
    if isinstance(error, OSError):
        return EndpointError(f"a local model cannot be served on loopback: {error}", code="not_served")
    return error
