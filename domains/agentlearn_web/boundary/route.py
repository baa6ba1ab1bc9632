"""Routing of proxy requests: the addresses that a walk may connect to for a host, resolved once and cached.

Connections go to an address that was checked, never to a name, so a name server cannot change its answer afterwards.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import AccessPolicy, Host, HostPort, is_public, may_be_public, read_host
from agentlearn_web.boundary.proxy_session import ProxySession, RequestBlocked
from agentlearn_web.boundary.upstream import Dial, Resolve, Streams, UpstreamProxy

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
