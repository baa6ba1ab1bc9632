"""Chromium's launch flags and context options, and which addresses a walk may open."""

import pytest

from agentlearn_web.boundary.flags import FLAGS, context_options, scheme_allowed
from agentlearn_web.boundary.proxy import NetworkLimits, ProxySession


def test_a_context_sends_all_traffic_through_its_proxy() -> None:
    assert context_options(ProxySession(4711, NetworkLimits())) == {
        "accept_downloads": False,
        "bypass_csp": False,
        "ignore_https_errors": False,
        "permissions": [],
        "proxy": {"server": "http://127.0.0.1:4711", "bypass": "<-loopback>"},
        "service_workers": "block",
    }


def test_the_flags_turn_off_what_would_bypass_the_proxy() -> None:
    assert list(FLAGS) == sorted(set(FLAGS))
    assert "--force-webrtc-ip-handling-policy=disable_non_proxied_udp" in FLAGS
    assert "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1" in FLAGS
    assert "--disable-quic" in FLAGS
    assert not [flag for flag in FLAGS if "sandbox" in flag or flag.startswith(("--disable-features", "--proxy"))]


@pytest.mark.parametrize(
    "url",
    ["http://example.org/", "https://example.org/a?b#c", "HTTP://EXAMPLE.ORG", " http://site.test/ ", "about:blank"],
)
def test_allowed_schemes(url: str) -> None:
    assert scheme_allowed(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "//example.org/",
        "/path",
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "blob:http://site.test/1",
        "view-source:http://site.test/",
        "chrome://version",
        "about:srcdoc",
        "ftp://example.org/",
        "ws://example.org/",
        "http:",
        "http://",
        "http:///x",
        "http://[",
        "java\nscript:alert(1)",
        "fi\tle:///etc/passwd",
        "about:blank#x/../file",
        "filesystem:http://site.test/x",
        "http\x00://site.test/",
    ],
)
def test_refused_schemes(url: str) -> None:
    assert not scheme_allowed(url)
