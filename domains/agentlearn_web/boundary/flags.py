"""How Chromium is started and its contexts are made, so that nothing goes around a walk's proxy."""

from typing import Any
from urllib.parse import urlsplit

from agentlearn_web.boundary.proxy_session import ProxySession

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
"""Launch arguments. The browser resolves no names at all: every name is the proxy's to look up."""
SCHEMES = ("http", "https")
BLANK = "about:blank"


def context_options(session: ProxySession) -> dict[str, Any]:
    """Arguments of `browser.new_context` for a walk: all traffic through its lane, loopback included."""
    return {
        "accept_downloads": False,
        "bypass_csp": False,
        "ignore_https_errors": False,
        "permissions": [],
        "proxy": {"server": session.server, "bypass": "<-loopback>"},
        "service_workers": "block",
    }


def scheme_allowed(url: str) -> bool:
    """Whether a walker may open an address: http and https, and the blank page."""
    if url == BLANK:
        return True
    try:
        parts = urlsplit(url.strip())
        return parts.scheme.lower() in SCHEMES and bool(parts.hostname)
    except ValueError:
        return False
