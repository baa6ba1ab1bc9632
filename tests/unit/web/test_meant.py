"""Which address is meant by what a model asks to open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn_web.browser.addresses import meant

HERE = "http://uni.test/people/list?page=2"


@pytest.mark.parametrize(
    ("asked", "whole"),
    [
        ("https://example.org/a", "https://example.org/a"),
        (" HTTP://example.org ", "HTTP://example.org"),
        ("example.org/a?b=c", "https://example.org/a?b=c"),
        ("example.org:8080/a", "https://example.org:8080/a"),
        ("uni.test/staff", "http://uni.test/staff"),
        ("/staff", "http://uni.test/staff"),
        ("?page=3", "http://uni.test/people/list?page=3"),
        ("../news", "http://uni.test/news"),
        ("#top", "http://uni.test/people/list?page=2#top"),
        ("//other.test/x", "http://other.test/x"),
    ],
)
def test_it_is_read_as_a_person_means_it(asked: str, whole: str) -> None:
    assert meant(asked, HERE) == whole


@pytest.mark.parametrize(
    "asked",
    [
        "", " ", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "blob:http://a/b", "about:blank",
        "view-source:http://a.test", "chrome://version", "ftp://a.test/", "mailto:a@b.c", "http://", "https:///x",
        "http://a:99999/", "http://[::1", "x" * 9_000, "FILE:/etc/passwd", "ws://a.test",
    ],
)  # fmt: skip
def test_all_else_is_refused(asked: str) -> None:
    assert meant(asked, HERE) is None


def test_a_path_means_nothing_on_a_blank_page() -> None:
    assert meant("/staff", "about:blank") is None
    assert meant("//a.test/x", "about:blank") == "https://a.test/x"


@given(st.text(max_size=60), st.sampled_from([HERE, "about:blank", ""]))
def test_only_web_addresses_come_out(asked: str, here: str) -> None:
    whole = meant(asked, here)
    assert whole is None or whole.lower().startswith(("http://", "https://"))
