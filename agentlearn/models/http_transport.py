"""HTTP requests through `aiohttp` where it is installed, which takes half of the CPU time of httpx2's own transport.

Only the connections are those of aiohttp. Authentication, cookies, redirects, time limits and errors stay those of
httpx2, so that a caller cannot tell the two apart. Requests that go through a proxy stay with httpx2's own transport.
"""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.request import getproxies

import httpx2

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_KEEP_ALIVE_S = 5.0
"""How long an idle connection is kept, as in httpx2."""
_LONGEST_HEADER_BYTES = 65_536
_SET_BY_HTTPX = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add."""


def http_transport(connections: int, *, proxies: bool) -> "AiohttpTransport | None":
    """Return the transport for a client with that many connections; None for httpx2's own.

    proxies: whether the client uses the proxies of the environment.
    """
    if find_spec("aiohttp") is None or (proxies and getproxies()):
        return None
    return AiohttpTransport(connections)


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one httpx2 client. It belongs to the event loop of its first request."""

    def __init__(self, connections: int) -> None:
        """connections: largest number of connections."""
        self._connections = connections
        self._session: ClientSession | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response, its body unread. Raises the errors of httpx2."""
        from aiohttp import ClientTimeout
        from yarl import URL

        session = self._session = self._session or self._opened()
        limits = request.extensions.get("timeout", {})
        timeout = ClientTimeout(
            connect=limits.get("pool"), sock_connect=limits.get("connect"), sock_read=limits.get("read")
        )
        body = await request.aread()
        with _errors_of_httpx():
            response = await session.request(
                request.method,
                URL(str(request.url), encoded=True),
                data=body or None,
                headers=request.headers.multi_items(),
                skip_auto_headers=_SET_BY_HTTPX,
                allow_redirects=False,
                timeout=timeout,
            )
        connection = response.connection
        return httpx2.Response(
            response.status,
            headers=response.raw_headers,
            stream=_Body(response),
            extensions={
                "http_version": b"HTTP/1.1",
                "reason_phrase": (response.reason or "").encode(),
                "close": connection.transport.close if connection and connection.transport else lambda: None,
            },
        )

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> "ClientSession":
        """Return a session that adds nothing to a request."""
        from aiohttp import ClientSession, DummyCookieJar, TCPConnector

        connector = TCPConnector(
            limit=self._connections, keepalive_timeout=_KEEP_ALIVE_S, ssl=httpx2.create_ssl_context()
        )
        return ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=_LONGEST_HEADER_BYTES,
            max_field_size=_LONGEST_HEADER_BYTES,
        )


class _Body(httpx2.AsyncByteStream):
    """The body of a response, as it comes."""

    def __init__(self, response: "ClientResponse") -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for part in self._response.content.iter_any():
                yield part

    async def aclose(self) -> None:
        """Give the connection back, or close it when a part of the body is unread."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


@contextmanager
def _errors_of_httpx() -> Generator[None]:
    """Raise the error of httpx2 that stands for an error of aiohttp."""
    import aiohttp
    from aiohttp.http_exceptions import HttpProcessingError

    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except TimeoutError as error:
        if not isinstance(error, aiohttp.ClientError):
            raise  # a time limit of the caller
        raise httpx2.ReadTimeout(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error)) from error
    except aiohttp.ServerDisconnectedError as error:
        if isinstance(error.message, str):
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.") from error
        raise httpx2.RemoteProtocolError(f"the service closed the connection after {error.message!r}") from error
    except (aiohttp.ClientOSError, ConnectionError) as error:
        raise httpx2.ReadError(str(error)) from error
    except aiohttp.InvalidURL as error:
        raise httpx2.UnsupportedProtocol(str(error)) from error
    except (aiohttp.ClientError, HttpProcessingError) as error:
        raise httpx2.RemoteProtocolError(str(error) or type(error).__name__) from error
