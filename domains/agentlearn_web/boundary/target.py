"""Strict parser for the target of a proxy request: `GET http://host/path` or `CONNECT host:port`."""

import re
from dataclasses import dataclass

from agentlearn_web.boundary.addresses import Host, read_host
from agentlearn_web.boundary.proxy_session import RequestBlocked

_ABSOLUTE = re.compile(r"http://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{0,5}))?")
HTTP_PORT = 80


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
        return host if self.port == HTTP_PORT else f"{host}:{self.port}"


def read_target(method: str, text: str) -> ProxyTarget:
    """Parse the target of a request line. Raises RequestBlocked (bad_request) for forms that no browser sends."""
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
