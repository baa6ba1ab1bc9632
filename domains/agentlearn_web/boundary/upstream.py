"""What leaves the process: host name lookup, TCP connections, and a proxy of the user's network for public hosts.

Tests replace lookup and connections, for example with a name server that changes its answers. Host names are resolved
and checked on this machine, and the upstream proxy is asked to connect to the checked address. What it then does is not
checked. Private and named private hosts are connected directly.
"""

import asyncio
import base64
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import h11

from agentlearn.errors import ConfigError
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import know_secret
from agentlearn_web.boundary.access_policy import is_public
from agentlearn_web.boundary.proxy_session import RequestBlocked

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
        result: Sequence[str] | OSError
        try:
            rows = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            result = tuple(dict.fromkeys(str(row[4][0]) for row in rows))
        except OSError as error:
            result = error
        except UnicodeError as error:
            result = OSError(str(error))
        with contextlib.suppress(RuntimeError):  # the loop was closed before the lookup finished
            loop.call_soon_threadsafe(deliver, result)

    threading.Thread(target=look_up, name="agentlearn-lookup", daemon=True).start()
    return await answer


async def system_dial(address: str, port: int) -> Streams:
    """Open a TCP connection."""
    return await asyncio.open_connection(address, port, limit=READ_BYTES)


_DEFAULT_PORTS = {"http": 80, "https": 443}
_PROXY_LOGIN_NEEDED = 407
_REACH_S = 10.0


@dataclass(frozen=True, slots=True)
class UpstreamProxy:
    """The address and the login of an upstream proxy."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """For a proxy that is itself reached with https."""
    authorization: str = field(default="", repr=False)
    """Value of the Proxy-Authorization header; empty without a login."""
    looks_up: bool = False
    """Whether it is asked to connect to names that this machine cannot resolve."""
    _told: set[int] = field(default_factory=set[int], repr=False)

    def carries(self, address: str) -> bool:
        """Return whether connections to an address, or to a name that was not resolved, go through this proxy."""
        try:
            return is_public(ip_address(address))
        except ValueError:
            return True

    async def dial(self, address: str, port: int) -> Streams:
        """Connect to an address through the proxy. Raises OSError, and RequestBlocked when the proxy refuses."""
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=READ_BYTES, ssl=self.tls)
        try:
            status = await self._ask(reader, writer, address, port)
        except BaseException:
            writer.transport.abort()
            raise
        if 200 <= status < 300:
            return reader, writer
        writer.transport.abort()
        self._tell(status)
        raise RequestBlocked("unreachable", f"the upstream proxy answered {status} for {address}")

    async def require(self) -> None:
        """Raise ConfigError when the proxy cannot be connected to."""
        try:
            async with asyncio.timeout(_REACH_S):
                _, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls)
        except (OSError, TimeoutError) as error:
            raise ConfigError(
                f"the proxy {self.host}:{self.port} does not answer ({error or 'it took too long'});"
                " check site_proxy, or leave it out"
            ) from error
        writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, port: int) -> int:
        """Send the CONNECT request and return the status of the answer. Raises ConnectionError for anything else."""
        authority = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        headers = [("Host", authority), *([("Proxy-Authorization", self.authorization)] if self.authorization else [])]
        wire = h11.Connection(h11.CLIENT)
        writer.write(wire.send(h11.Request(method="CONNECT", target=authority, headers=headers)) or b"")
        try:
            while not isinstance(event := wire.next_event(), h11.Response):
                if event is h11.NEED_DATA:
                    # One byte at a time: what follows the answer belongs to the tunnel
                    wire.receive_data(await reader.readexactly(1))
                elif not isinstance(event, h11.InformationalResponse):
                    raise ConnectionAbortedError("the upstream proxy broke off")
        except (h11.ProtocolError, asyncio.IncompleteReadError) as error:
            raise ConnectionAbortedError("the upstream proxy speaks no HTTP/1.1") from error
        return event.status_code

    def _tell(self, status: int) -> None:
        """Warn once about each kind of refusal, because a page only shows that it did not load."""
        if status not in self._told:
            self._told.add(status)
            hint = "set site_proxy_login" if status == _PROXY_LOGIN_NEEDED else "it must allow CONNECT to public hosts"
            get_log().warning("site_proxy.refused", status=status, hint=hint)

    @classmethod
    def at(
        cls, address: str, *, login_variable: str | None = None, looks_up: bool = False, ca_file: Path | None = None
    ) -> Self:
        """Return the proxy at an http or https address. Raises ConfigError when the login is missing.

        login_variable: environment variable with `user:password`. ca_file: certificates that an https proxy may have.
        """
        parts = urlsplit(address)
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context()
            if ca_file is not None:
                tls.load_verify_locations(ca_file)
        return cls(
            parts.hostname or "",
            parts.port or _DEFAULT_PORTS[parts.scheme],
            tls,
            _authorization(login_variable) if login_variable else "",
            looks_up,
        )


def _authorization(variable: str) -> str:
    value = os.environ.get(variable, "")
    user, colon, password = value.partition(":")
    if not user or not colon:
        raise ConfigError(
            f"site_proxy_login names the environment variable {variable!r}, which does not hold user:password;"
            " set it and run again"
        )
    encoded = base64.b64encode(value.encode()).decode("ascii")
    for secret in (password, value, encoded):
        know_secret(secret)
    return f"Basic {encoded}"
