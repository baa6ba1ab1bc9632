"""What leaves the process: the addresses of a host, looked up once and checked, connections, and the user's own proxy.

Connections go to an address that was checked, never to a name, so a name server cannot change its answer afterwards.
Host names are resolved and checked on this machine, and a proxy of the user's network is asked to connect to the
checked address of a public host. What it then does is not checked. Private and named private hosts are connected
directly. Tests replace lookup and connections, for example with a name server that changes its answers.
"""

import asyncio
import base64
import contextlib
import os
import re
import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import h11

from agentlearn.errors import ConfigError
from agentlearn.text.log import get_log
from agentlearn.text.secret_values import know_secret
from agentlearn_web.boundary.access_policy import (
    AccessPolicy,
    Host,
    HostPort,
    ProxySession,
    RequestBlocked,
    is_public,
    may_be_public,
    read_host,
)

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


_ABSOLUTE = re.compile(r"http://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{0,5}))?")
_HTTP_PORT = 80


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """The host and port to connect to, and the path to request there."""

    host: Host
    port: int
    path: str = ""
    """Path and query; empty for a tunnel."""

    @property
    def authority(self) -> str:
        """The value of the Host header: the host, and the port unless it is 80."""
        host = f"[{self.host}]" if ":" in str(self.host) else str(self.host)
        return host if self.port == _HTTP_PORT else f"{host}:{self.port}"

    @staticmethod
    def read(method: str, text: str) -> "ProxyTarget":
        """Parse the target of a request line. Raises RequestBlocked (bad_request) for forms that no browser sends."""
        if method == "CONNECT":
            return _read_authority(text, None, "")
        found = _ABSOLUTE.fullmatch(text)
        if found is None:
            raise RequestBlocked("bad_request", "a proxy takes http:// addresses and CONNECT only")
        path = found[2]
        return _read_authority(found[1], _HTTP_PORT, path if path.startswith("/") else f"/{path}")


def _read_authority(text: str, default_port: int | None, path: str) -> ProxyTarget:
    found = _AUTHORITY.fullmatch(text)
    host = read_host(found[1]) if found else None
    port = int(found[2]) if found and found[2] else default_port
    if host is None or port is None or not 0 < port < 65_536:
        raise RequestBlocked("bad_request", "the address has no host and port that can be connected to")
    return ProxyTarget(host, port, path)


_MAX_ADDRESSES = 4
"""Most addresses of one host that are tried, one after the other, within the connect timeout."""
_LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class _Route:
    addresses: tuple[str, ...]
    port: int
    named: bool
    """Whether the access policy names this host. A named host may have a private address."""


class Routes:
    """Finds and opens the server connections of one proxy session."""

    def __init__(
        self,
        policy: AccessPolicy,
        session: ProxySession,
        resolve: Resolve,
        dial: Dial,
        upstream: UpstreamProxy | None = None,
    ) -> None:
        self._public = policy.public
        self._named = _host_texts(policy.named)
        self._listed = _host_texts(policy.listed)
        self._served = {_host_text(name): _loopback(name, behind) for name, behind in policy.served.items()}
        self._session = session
        self._resolve = resolve
        self._dial = dial
        self._upstream = upstream
        self._cache: dict[str, tuple[str, ...]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def connect(self, target: ProxyTarget) -> Streams:
        """Open a connection. Raises RequestBlocked (private_address, not_served, unresolvable, unreachable)."""
        try:
            async with asyncio.timeout(self._session.limits.connect_s):
                return await self._dial_first(await self._route(target))
        except TimeoutError:
            raise RequestBlocked("unreachable", f"{target.host} did not answer in time") from None

    async def _route(self, target: ProxyTarget) -> _Route:
        name = str(target.host)
        if name in self._served:
            if target.port != _HTTP_PORT:
                raise RequestBlocked("not_served", f"{name} is served at port {_HTTP_PORT} only")
            address, port = self._served[name]
            return _Route((address,), port, named=True)
        named = (name, target.port) in self._named
        if not named and not self._public and (name, target.port) not in self._listed:
            raise RequestBlocked("not_served", f"{name} is no site of this walk")
        return _Route(await self._addresses(target, named=named), target.port, named)

    async def _addresses(self, target: ProxyTarget, *, named: bool) -> tuple[str, ...]:
        """Return the addresses of a host. All are public unless the access policy names the host."""
        if not isinstance(target.host, str):
            return _require_public((str(target.host),), named=named)
        name = target.host
        if name == "localhost" or name.endswith(".localhost"):
            return _require_public(_LOOPBACK, named=named)
        if not named and not may_be_public(name):
            raise RequestBlocked("private_address", f"{name} is no name of the public internet")
        async with self._locks[name]:
            cached = self._cache.get(name)
            if cached is None:
                cached = self._cache[name] = _require_public(await self._lookup(target), named=named)
        return _require_public(cached, named=named)

    async def _lookup(self, target: ProxyTarget) -> tuple[str, ...]:
        try:
            found = tuple(await self._resolve(str(target.host), target.port))
        except OSError:
            found = ()
        if not found and self._upstream is not None and self._upstream.looks_up and may_be_public(str(target.host)):
            return (str(target.host),)  # the upstream proxy resolves it; its address is not checked
        if not found:
            raise RequestBlocked("unresolvable", f"{target.host} has no address")
        return tuple(sorted(found, key=lambda address: ":" in address))

    async def _dial_first(self, route: _Route) -> Streams:
        addresses = route.addresses[:_MAX_ADDRESSES]
        for address in addresses:
            try:
                async with asyncio.timeout(self._session.limits.connect_s / len(addresses)):
                    upstream = self._upstream
                    dial = upstream.dial if upstream is not None and upstream.carries(address) else self._dial
                    streams = await dial(address, route.port)
            except (OSError, TimeoutError):
                continue
            if not route.named and streams[1].get_extra_info("sockname")[0] == address:
                streams[1].transport.abort()
                raise RequestBlocked("private_address", f"{address} is this machine")
            return streams
        raise RequestBlocked("unreachable", f"nothing answers at port {route.port} of {', '.join(addresses)}")


def _require_public(addresses: Sequence[str], *, named: bool) -> tuple[str, ...]:
    """Return the addresses. Raises RequestBlocked (private_address) if one is not public and the host is not named."""
    for address in addresses:
        is_name = isinstance(read_host(address), str)  # the upstream proxy looks it up
        if not named and not is_name and not is_public(ip_address(address)):
            raise RequestBlocked("private_address", f"{address} is not public, and this walk's task does not name it")
    return tuple(addresses)


def _host_texts(hosts: Iterable[HostPort]) -> frozenset[HostPort]:
    return frozenset((_host_text(host), port) for host, port in hosts)


def _host_text(name: str) -> str:
    host = read_host(name)
    if host is None:
        raise ConfigError(f"{name!r} is not a host; give a name such as example.org or an IP address", code="bad_url")
    return str(host)


def _loopback(name: str, behind: HostPort) -> HostPort:
    address, port = behind
    host = read_host(address)
    if host is None or isinstance(host, str) or not host.is_loopback:
        raise ConfigError(
            f"the site {name!r} is served at {address!r}, which is not a loopback address; serve it at 127.0.0.1",
            code="bad_url",
        )
    return str(host), port
