"""Chromium's launch flags and context options, and which addresses a walk may open."""

import pytest

from agentlearn_web.boundary.access_policy import FLAGS, scheme_allowed
from agentlearn_web.boundary.proxy import NetworkLimits, ProxySession
from tests.support.cases import cases


def test_a_context_sends_all_traffic_through_its_proxy() -> None:
    assert ProxySession(4711, NetworkLimits()).context_options() == {
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


def test_refused_schemes(subtests: pytest.Subtests) -> None:
    for url in cases(__file__, "refused_schemes"):
        with subtests.test(repr(url)):
            assert not scheme_allowed(url)
