"""Refuses every socket that is not this machine's own, from the lowest place Python offers: an audit hook.

The hook sees C code's calls too and cannot be taken out again. Names are not resolved either, so a test cannot leak a
question to a name server. Importing the module installs the hook, once per interpreter.
"""

import ipaddress
import socket
import sys


class NetworkBlocked(RuntimeError):
    """Raised where a test reaches past loopback. No OSError, so that no retry takes it for bad weather."""


def is_loopback(host: object) -> bool:
    """Whether a host, as sockets take it, is this machine's loopback; the wildcard address is not."""
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
