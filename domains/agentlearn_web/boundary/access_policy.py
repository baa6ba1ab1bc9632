"""The access policy of a walk: whether the public web is open, which local sites it reaches, which named hosts.

As soon as hosts are named, by a private start or by the user, a walk reaches the named hosts only. So no page of the
public web ever shares a walk with a private host that the user did not name together with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.addresses import Host, is_public, may_be_public, read_host

HostPort = tuple[str, int]
"""Host in lower case, without brackets; port 1..65535."""
SCHEMES = ("http", "https")
HTTP_PORTS = (80, 443)


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The hosts that one walk may connect to."""

    public: bool = True
    """Whether the public internet may be reached."""
    named: frozenset[HostPort] = frozenset()
    """Hosts and ports that may be reached, also at private addresses."""
    listed: frozenset[HostPort] = frozenset()
    """Hosts and ports that may be reached at public addresses only, where the public internet is closed."""
    served: Mapping[str, HostPort] = field(default_factory=dict[str, HostPort])
    """Host name of each site served on this machine, with its loopback address. The walk reaches it at port 80."""


def host_port(url: str) -> HostPort:
    """Return host and port of an http or https address. Raises ConfigError for any other text."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(
            f"{url!r} is not an address: {error}; give one such as https://example.org/", code="bad_url"
        ) from None
    if parts.scheme.lower() not in SCHEMES or not host:
        raise ConfigError(
            f"{url!r} is not a web address; give one that begins with http:// or https://", code="bad_url"
        )
    return host.lower(), port or (443 if parts.scheme.lower() == "https" else 80)


RefusalCode = Literal[
    "private_address",
    "not_served",
    "unresolvable",
    "bad_request",
    "too_large",
    "too_many",
    "too_slow",
    "unreachable",
]


@dataclass(frozen=True, slots=True)
class RefusedConnection:
    """A connection that the proxy refused or cut."""

    code: RefusalCode
    method: str
    """`GET`, `CONNECT`, …"""
    host: str
    port: int


def walk_policy(
    start: str, allowed: frozenset[HostPort] = frozenset(), served: Mapping[str, HostPort] | None = None
) -> AccessPolicy:
    """Return where a walk may go.

    On a served site: the served sites. With a private start, or with allowed hosts: the start's host and the allowed
    hosts. Otherwise: the public web. start: address of the first page; empty for none. allowed: hosts that the user
    named, which are reachable in every walk.
    """
    served = served or {}
    if start and _start_host(start) in served:
        return AccessPolicy(public=False, named=allowed, served=served)
    private = private_start(start)
    if not private and not allowed:
        return AccessPolicy()
    listed = frozenset[HostPort]() if private else _both_schemes(start)
    return AccessPolicy(public=False, named=private | allowed, listed=listed)


def private_start(url: str) -> frozenset[HostPort]:
    """Return the private host and port that a start address names; empty for a start on the public web.

    Counted as private: a private IP address, `localhost`, or a name that no public host can have, with its port. Any
    other name is checked by its address, so a public name that resolves to a private address stays blocked.
    """
    try:
        name, port = host_port(url)
        explicit = urlsplit(url.strip()).port is not None
    except ConfigError:
        return frozenset()
    host = read_host(name)
    if host is None or not _is_private(host) or (isinstance(host, str) and host != "localhost" and not explicit):
        return frozenset()
    return frozenset({(str(host), port)})


def read_allowed_host(text: str) -> frozenset[HostPort]:
    """Return the host and ports of `HOST` or `HOST:PORT`. Without a port: 80 and 443. Raises ConfigError."""
    name, port = _split_port(text.strip())
    host = read_host(name)
    if host is None or (port is not None and not 0 < port < 65_536):
        raise ConfigError(
            f"{text!r} is not a host; give one such as wiki.example.org, 10.1.2.3:8080 or [fd00::1]:8080",
            code="bad_host",
        )
    return frozenset((str(host), one) for one in (HTTP_PORTS if port is None else (port,)))


def _split_port(text: str) -> tuple[str, int | None]:
    """Return host and port; the port is None when none is given, and 0 when it is not a number."""
    bare_v6 = text.count(":") > 1 and not text.startswith("[")
    name, colon, port = text.rpartition(":")
    if bare_v6 or not colon or text.endswith("]"):
        return text, None
    return name, int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0


def _both_schemes(start: str) -> frozenset[HostPort]:
    """Return the host of a start with its port, and with those of http and https; empty without a start."""
    try:
        host, port = host_port(start)
    except ConfigError:
        return frozenset()
    return frozenset((host, one) for one in (port, *HTTP_PORTS))


def _start_host(start: str) -> str:
    try:
        return host_port(start)[0]
    except ConfigError:
        return ""


def _is_private(host: Host) -> bool:
    return not (may_be_public(host) if isinstance(host, str) else is_public(host))
