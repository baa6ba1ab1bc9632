"""The state of one walk's proxy: its limits, its traffic counters and the connections it refused."""

from collections import deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentlearn_web.boundary.access_policy import SCHEMES, RefusalCode, RefusedConnection

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
