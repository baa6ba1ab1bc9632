"""Which hosts are public, and how hosts are parsed."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn_web.boundary.access_policy import is_public, may_be_public, read_host
from tests.support.cases import cases

LOOPBACK = IPv4Address("127.0.0.1")
V4 = st.ip_addresses(v=4)
V6 = st.ip_addresses(v=6)
PRIVATE_V4 = st.one_of(
    *(
        st.ip_addresses(network=network)
        for network in (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.168.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
        )
    )
)  # fmt: skip


def number(value: int, form: str) -> str:
    """A number in a notation that parts of an IPv4 address can have."""
    return {"decimal": f"{value}", "octal": f"0{value:o}", "hex": f"0x{value:x}", "HEX": f"0X{value:X}"}[form]


@given(V4, st.integers(1, 4), st.lists(st.sampled_from(("decimal", "octal", "hex", "HEX")), min_size=4, max_size=4))
def test_every_notation_of_an_ipv4_address_is_parsed(address: IPv4Address, parts: int, forms: list[str]) -> None:
    octets = list(address.packed)
    values = [*octets[: parts - 1], int.from_bytes(octets[parts - 1 :], "big")]
    text = ".".join(number(value, form) for value, form in zip(values, forms, strict=False))
    assert read_host(text) == address, text
    assert read_host(f"{text}.") == address, text


def test_forms_of_loopback(subtests: pytest.Subtests) -> None:
    for text in cases(__file__, "forms_of_loopback"):
        with subtests.test(repr(text)):
            assert read_host(text) == LOOPBACK


def test_names_and_ipv6_addresses(subtests: pytest.Subtests) -> None:
    for text, host in [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("localhost.", "localhost"),
        ("[::1]", IPv6Address("::1")),
        ("::1", IPv6Address("::1")),
        ("[::FFFF:127.0.0.1]", IPv6Address("::ffff:7f00:1")),
        ("fe80::1%eth0", IPv6Address("fe80::1%eth0")),
        ("0x", IPv4Address("0.0.0.0")),
        ("1.2.3.4.example", "1.2.3.4.example"),
        ("0x7f.example", "0x7f.example"),
        ("-a.b-.c_d.example", "-a.b-.c_d.example"),
        ("1.0xg", "1.0xg"),
    ]:
        with subtests.test(repr((text, host))):
            assert read_host(text) == host


def test_invalid_hosts_are_refused(subtests: pytest.Subtests) -> None:
    for text in [
        *("", ".", "..", "a..b", ".example", "a b.example", "a/b", "a@b", "a%41", "a\\b"),
        *("256.0.0.1", "1.2.3.4.5", "1.256.1", "4294967296", "127.0.0.0x100", "08.0.0.1", "127.0.0.1.."),
        *("[::1", "::1]", "[127.0.0.1]", "1:2", "[::1%]x", "0" * 400, "a" * 64 + ".example", "a." * 130 + "example"),
        *("example\x00.org", "exa\nmple.org", "\ud800.example", "ex＠mple.org"),
    ]:
        with subtests.test(repr(text)):
            assert read_host(text) is None


@given(st.text(max_size=40))
def test_parsing_a_host_twice_changes_nothing(text: str) -> None:
    host = read_host(text)
    assert host is None or read_host(str(host)) == host


@given(st.one_of(V4, V6))
def test_an_ip_address_parses_to_itself(address: IPv4Address | IPv6Address) -> None:
    assert read_host(str(address)) == address


@given(PRIVATE_V4)
def test_a_private_address_stays_private_inside_any_ipv6_address(address: IPv4Address) -> None:
    low = int(address)
    assert not is_public(address)
    for network in ("::ffff:0:0", "::", "64:ff9b::", "64:ff9b:1::", "::ffff:0:0:0"):
        assert not is_public(IPv6Address(int(IPv6Address(network)) | low)), network
    assert not is_public(IPv6Address((0x2002 << 112) | low << 80))
    teredo = (0x20010000 << 96) | (low ^ 0xFFFF_FFFF)
    assert not is_public(IPv6Address(teredo))


@given(st.one_of(V4, V6, V4.map(lambda inner: IPv6Address(f"::ffff:{inner}"))))
def test_public_addresses_are_global_unicast(address: IPv4Address | IPv6Address) -> None:
    inner = getattr(address, "ipv4_mapped", None) or address
    if is_public(address):
        assert inner.is_global
        kinds = ("private", "multicast", "loopback", "link_local", "unspecified")
        assert not [kind for kind in kinds if getattr(inner, f"is_{kind}")]


@pytest.mark.parametrize(
    "text",
    cases(__file__, "public_addresses"),
)
def test_public_addresses(text: str) -> None:
    assert is_public(read_host(text))  # pyright: ignore[reportArgumentType]


def test_private_addresses(subtests: pytest.Subtests) -> None:
    for text in cases(__file__, "private_addresses"):
        with subtests.test(repr(text)):
            assert not is_public(read_host(text))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["example.org", "xn--bcher-kva.example.net", "internal.example.org", "local.co"])
def test_names_that_may_be_public(name: str) -> None:
    assert may_be_public(name)


def test_names_that_are_never_public(subtests: pytest.Subtests) -> None:
    for name in cases(__file__, "names_that_are_never_public"):
        with subtests.test(repr(name)):
            assert not may_be_public(name)
