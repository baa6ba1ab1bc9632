"""What one walk may reach, and what its proxy counted: the access policy, limits, traffic, and refused connections.

The policy says whether the public web is open, which local sites a walk reaches, and which named hosts. As soon as
hosts are named, by a private start or by the user, a walk reaches the named hosts only. So no page of the public web
ever shares a walk with a private host that the user did not name together with it.

`ipaddress.is_global` is not enough: it also accepts multicast addresses, and IPv6 addresses that embed a private IPv4
address. An address that is not certainly public counts as private.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from agentlearn.errors import ConfigError

Host = IPv4Address | IPv6Address | str
"""An IP address, or a host name in lower-case ASCII without a final dot."""

_PRIVATE_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",  # a public address at which Azure serves its own virtual machines
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
_UNICAST_V6 = IPv6Network("2000::/3")
_PRIVATE_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments such as Teredo
            "2001:db8::/32",
            "2002::/16",  # 6to4: embeds any IPv4 address
            "3fff::/20",
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_PRIVATE_ENDINGS = (
    "alt arpa corp example home internal intranet invalid lan local localdomain localhost onion private test"
)
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_MAX_NAME = 253


def read_host(text: str) -> Host | None:
    """Return the host that a browser would connect to, or None if the text is not a host.

    Accepts names in any script, IPv6 addresses with or without brackets, and every IPv4 form that browsers accept:
    `2130706433`, `0x7f.1`, `0177.0.0.1`, `127.1`. Source: WHATWG URL, host parsing. Non-ASCII names follow Python's
    IDNA 2003.
    """
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return _read_v6(text[1:-1])
    if ":" in text:
        return _read_v6(text)
    name = _to_ascii(text)
    if name is None:
        return None
    labels = name.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _read_v4(labels)
    name = ".".join(labels)
    return name if len(name) <= _MAX_NAME and all(map(_LABEL.fullmatch, labels)) else None


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address certainly belongs to the public internet."""
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _PRIVATE_V4)
    if address.scope_id is not None:
        return False
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address.is_global and address in _UNICAST_V6 and not any(address in network for network in _PRIVATE_V6)


def may_be_public(name: str) -> bool:
    """Return whether a host name can be public: it has a dot, and its last label is not reserved."""
    _, dot, ending = name.rpartition(".")
    return bool(dot) and ending not in _PRIVATE_ENDINGS.split()


def _to_ascii(text: str) -> str | None:
    if text.isascii():
        return text.lower()
    try:
        return text.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None


def _read_v6(text: str) -> IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address if isinstance(address, IPv6Address) else None


def _read_v4(labels: list[str]) -> IPv4Address | None:
    """Parse one to four numbers, each decimal, octal (0…) or hexadecimal (0x…); the last fills the remaining bytes."""
    numbers = [_number(label) for label in labels]
    *leading, last = numbers
    if len(numbers) > 4 or last is None or last >= 256 ** (4 - len(leading)):
        return None
    value = last
    for index, number in enumerate(leading):
        if number is None or number > 255:
            return None
        value += number * 256 ** (3 - index)
    return IPv4Address(value)


def _number(text: str) -> int | None:
    digits, base = (text[2:] or "0", 16) if text.startswith("0x") else (text, 8 if text[:1] == "0" else 10)
    if len(digits) > _MAX_NAME or not _NUMBER.fullmatch(text):
        return None
    try:
        return int(digits, base)
    except ValueError:
        return None


HostPort = tuple[str, int]
"""Host in lower case, without brackets; port 1..65535."""
SCHEMES = ("http", "https")
_HTTP_PORTS = (80, 443)


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
    "private_address", "not_served", "unresolvable", "bad_request", "too_large", "too_many", "too_slow", "unreachable"
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
    try:
        host, port = host_port(start)
    except ConfigError:
        host, port = "", 0
    if served and host in served:
        return AccessPolicy(public=False, named=allowed, served=served)
    private = _private_start(start)
    if not private and not allowed:
        return AccessPolicy()
    listed = frozenset[HostPort]()
    if host and not private:  # the same host with http and with https
        listed = frozenset((host, one) for one in (port, *_HTTP_PORTS))
    return AccessPolicy(public=False, named=private | allowed, listed=listed)


def _private_start(url: str) -> frozenset[HostPort]:
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
        raise ConfigError(f"{text!r} is not a host; give one such as wiki.example.org, 10.1.2.3:8080 or [fd00::1]:8080")
    return frozenset((str(host), one) for one in (_HTTP_PORTS if port is None else (port,)))


def _split_port(text: str) -> tuple[str, int | None]:
    """Return host and port; the port is None when none is given, and 0 when it is not a number."""
    bare_v6 = text.count(":") > 1 and not text.startswith("[")
    name, colon, port = text.rpartition(":")
    if bare_v6 or not colon or text.endswith("]"):
        return text, None
    return name, int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0


def _is_private(host: Host) -> bool:
    return not (may_be_public(host) if isinstance(host, str) else is_public(host))


MAX_REFUSALS = 1_000
"""How many undrained refusals are kept; the oldest are dropped first."""
REFUSED_HEADER = "proxy-refused"
"""Header of the proxy's own responses, with the code of the refusal. It is left out of the responses of servers."""


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits on the network traffic of one walk."""

    response_bytes: int = 20_000_000
    """Largest body of one http response, in the encoding in which it is sent."""
    tunnel_bytes: int = 50_000_000
    """Most bytes from the server through one tunnel (https, WebSocket), where single responses cannot be seen."""
    session_bytes: int = 200_000_000
    """Most bytes of the whole walk, in both directions."""
    connections: int = 64
    """Most connections that the browser may have open at once."""
    connect_s: float = 10.0
    """Longest time to resolve a host and connect to it."""
    idle_s: float = 30.0
    """Longest time without a byte in either direction."""


class RequestBlocked(Exception):
    """Raised when a request is refused or its connection is cut."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.code: RefusalCode = code


class ProxySession:
    """The proxy of one walk, as its owner sees it: address, counters and refused connections."""

    def __init__(self, port: int, limits: NetworkLimits) -> None:
        self.port = port
        self.limits = limits
        self.requests = 0
        """Number of requests and tunnels, including refused ones."""
        self.bytes = 0
        """Bytes received from servers, plus request bodies and tunnel data sent to them."""
        self._refusals = deque[RefusedConnection](maxlen=MAX_REFUSALS)

    @property
    def server(self) -> str:
        """Address of the proxy in the form that browsers accept."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def refusal_count(self) -> int:
        """Number of refusals that have not been drained."""
        return len(self._refusals)

    def drain(self) -> tuple[RefusedConnection, ...]:
        """Return the refusals since the last call, oldest first."""
        drained = tuple(self._refusals)
        self._refusals.clear()
        return drained

    def add_refusal(self, code: RefusalCode, method: str, host: str, port: int) -> None:
        """Record a refused connection."""
        self._refusals.append(RefusedConnection(code, method, host, port))

    def count_bytes(self, size_bytes: int) -> None:
        """Count bytes. Raises RequestBlocked (too_large) when the session is over its limit."""
        self.bytes += size_bytes
        self.check_limits()

    def check_limits(self, *, crowded: bool = False) -> None:
        """Raise RequestBlocked: too_many if `crowded`, too_large if the session is over its byte limit.

        crowded: whether more connections are open than allowed.
        """
        if crowded:
            raise RequestBlocked("too_many", f"this walk has more than {self.limits.connections} connections open")
        if self.bytes > self.limits.session_bytes:
            raise RequestBlocked(
                "too_large", f"this walk has had its {self.limits.session_bytes} bytes from the network"
            )

    def context_options(self) -> dict[str, Any]:
        """Return arguments of `browser.new_context` that send all traffic, loopback included, through the proxy."""
        return {
            "accept_downloads": False,
            "bypass_csp": False,
            "ignore_https_errors": False,
            "permissions": [],
            "proxy": {"server": self.server, "bypass": "<-loopback>"},
            "service_workers": "block",
        }


FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-notifications",
    "--disable-print-preview",
    "--disable-quic",
    "--disable-speech-api",
    "--disable-sync",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--mute-audio",
    "--no-first-run",
)
"""Launch arguments. The browser resolves no host names; the proxy resolves all of them."""
BLANK = "about:blank"


def scheme_allowed(url: str) -> bool:
    """Return whether a walk may show an address: http, https, or the blank page."""
    if url == BLANK:
        return True
    try:
        parts = urlsplit(url.strip())
        return parts.scheme.lower() in SCHEMES and bool(parts.hostname)
    except ValueError:
        return False
