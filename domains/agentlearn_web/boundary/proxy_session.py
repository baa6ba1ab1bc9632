"""A lane: what went through one walk's proxy, what was refused, and the limits it keeps to."""

from collections import deque
from dataclasses import dataclass

from agentlearn_web.boundary.access_policy import RefusalCode, RefusedConnection

MAX_REFUSALS = 1_000
"""Refusals kept until they are drained; of more, the latest."""


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """How much one walk may take from the network."""

    response_bytes: int = 20_000_000
    """Of one http response, as it is sent (compressed or not)."""
    tunnel_bytes: int = 50_000_000
    """From the server through one tunnel (https, WebSocket), in which responses cannot be told apart."""
    session_bytes: int = 200_000_000
    """Of everything, both ways."""
    connections: int = 64
    """Open at once, from the browser."""
    connect_s: float = 10.0
    """From a host's name to an open connection."""
    idle_s: float = 30.0
    """Without a byte in either direction."""


class RequestBlocked(Exception):
    """Raised where a request is not let through, or its connection is cut."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.code: RefusalCode = code


class ProxySession:
    """One walk's way to the network: a proxy on loopback, its counts, and what it refused."""

    def __init__(self, port: int, limits: NetworkLimits) -> None:
        self.port = port
        self.limits = limits
        self.requests = 0
        """Requests and tunnels asked for, refused ones included."""
        self.bytes = 0
        """From servers, and of what was sent up to them: bodies and tunnels."""
        self._refusals = deque[RefusedConnection](maxlen=MAX_REFUSALS)

    @property
    def server(self) -> str:
        """The proxy's address, as a browser takes it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def refusal_count(self) -> int:
        """Refusals that wait to be drained."""
        return len(self._refusals)

    def drain(self) -> tuple[RefusedConnection, ...]:
        """What was refused since the last call, oldest first."""
        drained = tuple(self._refusals)
        self._refusals.clear()
        return drained

    def add_refusal(self, code: RefusalCode, method: str, host: str, port: int) -> None:
        """Note a refusal."""
        self._refusals.append(RefusedConnection(code, method, host, port))

    def count_bytes(self, size_bytes: int) -> None:
        """Count bytes. Raises Refused (too_large) once the lane has carried more than it may."""
        self.bytes += size_bytes
        self.check_limits()

    def check_limits(self, *, crowded: bool = False) -> None:
        """Raises Refused: too_many for a connection that is one too many, too_large once the lane has had its bytes."""
        if crowded:
            raise RequestBlocked("too_many", f"this walk has more than {self.limits.connections} connections open")
        if self.bytes > self.limits.session_bytes:
            raise RequestBlocked(
                "too_large", f"this walk has had its {self.limits.session_bytes} bytes from the network"
            )
