"""Refuse connections to other machines, with an audit hook of the Python interpreter.

The hook also sees calls of C code, and it cannot be removed. It also refuses to resolve other names than localhost, so
no query reaches a name server. Importing the module installs the hook, once per interpreter.
"""

import ipaddress
import socket
import sys


class NetworkBlocked(RuntimeError):
    """Raised when a test connects to something other than loopback. Not an OSError, so that nothing retries it."""


def is_loopback(host: object) -> bool:
    """Return whether a host given to a socket is loopback. The wildcard address is not loopback."""
    name = host.decode() if isinstance(host, bytes) else str(host)
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.split("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_the_world(event: str, args: tuple[object, ...]) -> None:
    match event, args:
        case (
            "socket.connect" | "socket.bind" | "socket.sendto" | "socket.sendmsg",
            (socket.socket(family=socket.AF_INET | socket.AF_INET6), (host, *_)),
        ):
            allowed = is_loopback(host)
        case "socket.getaddrinfo" | "socket.gethostbyname" | "socket.gethostbyaddr", (host, *_):
            allowed = host is None or is_loopback(host)
        case _:
            return
    if not allowed:
        raise NetworkBlocked(f"tests use loopback only, and this one asked for {host!r} ({event})")


sys.addaudithook(_refuse_the_world)
