"""Where a walk may go: the public web unless it is shut, sites served here under names of their own, private places."""

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
    """What one walk may connect to."""

    public: bool = True
    """Whether addresses of the public internet may be reached."""
    named: frozenset[HostPort] = frozenset()
    """Private hosts and ports that the task itself names."""
    served: Mapping[str, HostPort] = field(default_factory=dict[str, HostPort])
    """Names of sites that are served here, each with the loopback address behind it; always reached at port 80."""


def host_port(url: str) -> HostPort:
    """Host and port of an http or https address. Raises ConfigError for any other address."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(
            f"{url!r} is no address: {error}; give one such as https://example.org/", code="bad_url"
        ) from None
    if parts.scheme.lower() not in SCHEMES or not host:
        raise ConfigError(f"{url!r} is no web address; give one that begins with http:// or https://", code="bad_url")
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
    """A connection that was not made, or was cut."""

    code: RefusalCode
    method: str
    """`GET`, `CONNECT`, …"""
    host: str
    port: int


def named_by(url: str) -> frozenset[HostPort]:
    """The private place that an address names: an IP address or `localhost`, or any name with its port written out.

    A name without a port names nothing, so that a public site whose name is turned to a private address stays outside.
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
