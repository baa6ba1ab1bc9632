"""The access policy of a walk: whether the public web is open, which local sites it reaches, which private hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from agentlearn.errors import ConfigError

HostPort = tuple[str, int]
"""Host in lower case, without brackets; port 1..65535."""
SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The hosts that one walk may connect to."""

    public: bool = True
    """Whether the public internet may be reached."""
    named: frozenset[HostPort] = frozenset()
    """Private hosts and ports that the task names."""
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


def named_by(url: str) -> frozenset[HostPort]:
    """Return the private host and port that an address names, or an empty set.

    Counted as named: an IP address, `localhost`, or any host with an explicit port. A host name without a port is not
    counted, so a public name that resolves to a private address stays blocked.
    """
    try:
        host, port = host_port(url)
        explicit = urlsplit(url.strip()).port is not None
    except ConfigError:
        return frozenset()
    return frozenset({(host, port)}) if explicit or host == "localhost" or _is_ip_address(host) else frozenset()


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
