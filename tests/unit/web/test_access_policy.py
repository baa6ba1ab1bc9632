"""Where a walk may go: private starts, allowed hosts, and public starts."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.errors import ConfigError
from agentlearn_web.boundary.access_policy import (
    AccessPolicy,
    HostPort,
    is_public,
    may_be_public,
    read_allowed_host,
    read_host,
    walk_policy,
)

NONE = frozenset[HostPort]()
WIKI = frozenset({("10.0.0.5", 8080)})


def test_a_start_names_a_private_host_by_an_address_or_by_a_name_that_cannot_be_public(
    subtests: pytest.Subtests,
) -> None:
    for start, named in [
        ("https://example.org/", NONE),
        ("https://example.org:8443/", NONE),  # the name may resolve to a private address
        ("http://93.184.216.34/", NONE),
        ("http://wiki.corp/", NONE),
        ("http://wiki.corp:80/", {("wiki.corp", 80)}),
        ("http://10.1.2.3/", {("10.1.2.3", 80)}),
        ("https://192.168.1.1/", {("192.168.1.1", 443)}),
        ("http://0x7f.1:8000/", {("127.0.0.1", 8000)}),
        ("http://2130706433/", {("127.0.0.1", 80)}),
        ("http://[fd00::1]:8080/x", {("fd00::1", 8080)}),
        ("http://[::ffff:127.0.0.1]/", {(str(ip_address("::ffff:127.0.0.1")), 80)}),
        ("http://LOCALHOST/", {("localhost", 80)}),
        ("http://intranet:8000/", {("intranet", 8000)}),
        ("ftp://10.0.0.1/", NONE),
        ("", NONE),
    ]:
        with subtests.test(repr((start, named))):
            assert walk_policy(start).named == named


def test_a_private_start_reaches_its_own_host_only() -> None:
    own = frozenset({("127.0.0.1", 8000)})
    assert walk_policy("http://127.0.0.1:8000/wiki") == AccessPolicy(public=False, named=own)
    assert walk_policy("http://127.0.0.1:8000/", WIKI) == AccessPolicy(public=False, named=own | WIKI)


def test_a_public_start_reaches_the_public_web_and_nothing_private() -> None:
    assert walk_policy("https://example.org/") == AccessPolicy(public=True)
    assert walk_policy("") == AccessPolicy(public=True)


def test_allowed_hosts_close_the_public_web() -> None:
    policy = walk_policy("https://example.org:8443/a", WIKI)
    start = frozenset({("example.org", 8443), ("example.org", 443), ("example.org", 80)})
    assert policy == AccessPolicy(public=False, named=WIKI, listed=start)
    assert walk_policy("", WIKI) == AccessPolicy(public=False, named=WIKI)


def test_generated_sites_stay_by_themselves() -> None:
    served = {"a.test": ("127.0.0.1", 4711)}
    assert walk_policy("http://a.test/", NONE, served) == AccessPolicy(public=False, served=served)
    assert walk_policy("http://a.test/", WIKI, served).named == WIKI
    assert walk_policy("https://example.org/", NONE, served) == AccessPolicy()


@given(
    st.sampled_from(["", "https://example.org/", "http://10.0.0.1/", "http://localhost:1/", "http://a.corp:2/"]),
    st.frozensets(st.sampled_from([("10.0.0.5", 80), ("cdn.example.org", 443), ("wiki", 80)]), max_size=3),
)
def test_no_walk_reaches_both_the_public_web_and_a_private_host(start: str, allowed: frozenset[HostPort]) -> None:
    policy = walk_policy(start, allowed)
    hosts = [read_host(name) for name, _ in policy.named]
    private = [one for one in hosts if not (may_be_public(one) if isinstance(one, str) else one and is_public(one))]
    assert not (policy.public and private)
    assert policy.public == (not allowed and not walk_policy(start).named)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("wiki.corp", {("wiki.corp", 80), ("wiki.corp", 443)}),
        (" Wiki.Example.org:8443 ", {("wiki.example.org", 8443)}),
        ("10.1.2.3:8080", {("10.1.2.3", 8080)}),
        ("[fd00::1]:8080", {("fd00::1", 8080)}),
        ("[fd00::1]", {("fd00::1", 80), ("fd00::1", 443)}),
        ("fd00::1", {("fd00::1", 80), ("fd00::1", 443)}),
        ("localhost:3000", {("localhost", 3000)}),
    ],
)
def test_an_allowed_host_has_a_port_or_those_of_http_and_https(text: str, hosts: frozenset[HostPort]) -> None:
    assert read_allowed_host(text) == hosts


def test_anything_else_is_no_allowed_host(subtests: pytest.Subtests) -> None:
    for text in [
        "", "http://a.test/", "a.test:", "a.test:0", "a.test:65536", "a.test:x", "a b", "*.a.test", "10.0.0.0/8",
    ]:  # fmt: skip
        with subtests.test(repr(text)):
            with pytest.raises(ConfigError) as raised:
                read_allowed_host(text)
            assert raised.value.message == (
                f"{text!r} is not a host; give one such as wiki.example.org, 10.1.2.3:8080 or [fd00::1]:8080"
            )
