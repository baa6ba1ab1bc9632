"""What a request asks a proxy for: `GET http://host/path` or `CONNECT host:port`, read strictly."""

import re
from dataclasses import dataclass

from agentlearn_web.boundary.addresses import Host, read_host
from agentlearn_web.boundary.proxy_session import RequestBlocked

_ABSOLUTE = re.compile(r"http://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{0,5}))?")
HTTP_PORT = 80


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """A host and port to connect to, and what to ask there."""

    host: Host
    port: int
    path: str = ""
    """Path and query; empty for a tunnel."""

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in str(self.host) else str(self.host)
        return host if self.port == HTTP_PORT else f"{host}:{self.port}"


def read_target(method: str, text: str) -> ProxyTarget:
    """The target of a request line. Raises Refused (bad_request) for any form that browsers do not send to a proxy."""
    if method == "CONNECT":
        return _read_authority(text, None, "")
    found = _ABSOLUTE.fullmatch(text)
    if found is None:
        raise RequestBlocked("bad_request", "a proxy takes http:// addresses and CONNECT only")
    path = found[2]
    return _read_authority(found[1], HTTP_PORT, path if path.startswith("/") else f"/{path}")


def _read_authority(text: str, default_port: int | None, path: str) -> ProxyTarget:
    found = _AUTHORITY.fullmatch(text)
    host = read_host(found[1]) if found else None
    port = int(found[2]) if found and found[2] else default_port
    if host is None or port is None or not 0 < port < 65_536:
        raise RequestBlocked("bad_request", "the address has no host and port that can be connected to")
    return ProxyTarget(host, port, path)
