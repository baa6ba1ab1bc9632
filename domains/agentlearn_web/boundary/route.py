"""Where a target leads: the addresses that a walk may connect to for it, looked up once and kept; or why it may not.

A connection is made to an address that was checked, never to a name, so that a name server's second answer has no say.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import AccessPolicy, HostPort
from agentlearn_web.boundary.addresses import is_public, may_be_public, read_host
from agentlearn_web.boundary.proxy_session import ProxySession, RequestBlocked
from agentlearn_web.boundary.resolve import Dial, Resolve, Streams
from agentlearn_web.boundary.target import HTTP_PORT, ProxyTarget

MAX_ADDRESSES = 4
"""Of one host, tried in turn within the time to connect."""
_LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class _Route:
    addresses: tuple[str, ...]
    port: int
    told: bool
    """Whether the walk's places name it; then it may be private."""


class Routes:
    """The ways of one lane."""

    def __init__(self, places: AccessPolicy, lane: ProxySession, resolve: Resolve, dial: Dial) -> None:
        self._public = places.public
        self._named = frozenset((_plain(host), port) for host, port in places.named)
        self._served = {_plain(name): _loopback(name, behind) for name, behind in places.served.items()}
        self._lane = lane
        self._resolve = resolve
        self._dial = dial
        self._known: dict[str, tuple[str, ...]] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def connect(self, target: ProxyTarget) -> Streams:
        """An open connection. Raises Refused (private_address, not_served, unresolvable, unreachable)."""
        try:
            async with asyncio.timeout(self._lane.limits.connect_s):
                return await self._connected(await self._route(target))
        except TimeoutError:
            raise RequestBlocked("unreachable", f"{target.host} did not answer in time") from None

    async def _route(self, target: ProxyTarget) -> _Route:
        name = str(target.host)
        if name in self._served:
            if target.port != HTTP_PORT:
                raise RequestBlocked("not_served", f"{name} is served at port {HTTP_PORT} only")
            address, port = self._served[name]
            return _Route((address,), port, told=True)
        told = (name, target.port) in self._named
        if not told and not self._public:
            raise RequestBlocked("not_served", f"{name} is no site of this walk")
        return _Route(await self._addresses(target, told=told), target.port, told)

    async def _addresses(self, target: ProxyTarget, *, told: bool) -> tuple[str, ...]:
        """The addresses behind a host, all of them public unless the walk's places name it."""
        if not isinstance(target.host, str):
            return _checked((str(target.host),), told=told)
        name = target.host
        if name == "localhost" or name.endswith(".localhost"):
            return _checked(_LOOPBACK, told=told)
        if not told and not may_be_public(name):
            raise RequestBlocked("private_address", f"{name} is no name of the public internet")
        async with self._asking[name]:
            known = self._known.get(name)
            if known is None:
                known = self._known[name] = _checked(await self._looked_up(target), told=told)
        return _checked(known, told=told)

    async def _looked_up(self, target: ProxyTarget) -> tuple[str, ...]:
        try:
            found = tuple(await self._resolve(str(target.host), target.port))
        except OSError:
            found = ()
        if not found:
            raise RequestBlocked("unresolvable", f"{target.host} has no address")
        return tuple(sorted(found, key=lambda address: ":" in address))

    async def _connected(self, route: _Route) -> Streams:
        tried = route.addresses[:MAX_ADDRESSES]
        for address in tried:
            try:
                async with asyncio.timeout(self._lane.limits.connect_s / len(tried)):
                    streams = await self._dial(address, route.port)
            except (OSError, TimeoutError):
                continue
            if not route.told and streams[1].get_extra_info("sockname")[0] == address:
                streams[1].transport.abort()
                raise RequestBlocked("private_address", f"{address} is this machine")
            return streams
        raise RequestBlocked("unreachable", f"nothing answers at port {route.port} of {', '.join(tried)}")


def _checked(addresses: Sequence[str], *, told: bool) -> tuple[str, ...]:
    """The same addresses. Raises Refused (private_address) when any of them is not public and nobody named the host."""
    for address in addresses:
        if not told and not is_public(ip_address(address)):
            raise RequestBlocked("private_address", f"{address} is not public, and this walk's task does not name it")
    return tuple(addresses)


def _plain(name: str) -> str:
    host = read_host(name)
    if host is None:
        raise ConfigError(f"{name!r} is no host; give a name such as example.org or an address", code="bad_url")
    return str(host)


def _loopback(name: str, behind: HostPort) -> HostPort:
    address, port = behind
    host = read_host(address)
    if host is None or isinstance(host, str) or not host.is_loopback:
        raise ConfigError(
            f"the site {name!r} is served at {address!r}, which is no loopback address; serve it at 127.0.0.1",
            code="bad_url",
        )
    return str(host), port
