"""Chromium launch flags and context options that send all traffic of a walk through its proxy."""

from typing import Any
from urllib.parse import urlsplit

from agentlearn_web.boundary.access_policy import SCHEMES
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
"""Launch arguments. The browser resolves no host names; the proxy resolves all of them."""
BLANK = "about:blank"


def context_options(session: ProxySession) -> dict[str, Any]:
    """Return arguments of `browser.new_context` that send all traffic, loopback included, through the proxy."""
    return {
        "accept_downloads": False,
        "bypass_csp": False,
        "ignore_https_errors": False,
        "permissions": [],
        "proxy": {"server": session.server, "bypass": "<-loopback>"},
        "service_workers": "block",
    }


def scheme_allowed(url: str) -> bool:
    """Return whether a walk may show an address: http, https, or the blank page."""
    if url == BLANK:
        return True
    try:
        parts = urlsplit(url.strip())
        return parts.scheme.lower() in SCHEMES and bool(parts.hostname)
    except ValueError:
        return False
