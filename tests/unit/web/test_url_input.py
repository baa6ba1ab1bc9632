"""Addresses from the texts that a model gives to `open`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn_web.browser.acts.navigation import resolve_url
from tests.support.cases import cases

HERE = "http://uni.test/people/list?page=2"


def test_an_address_is_completed_as_a_browser_would(subtests: pytest.Subtests) -> None:
    for text, whole in cases(__file__, "an_address_is_completed_as_a_browser_would"):
        with subtests.test(repr((text, whole))):
            assert resolve_url(text, HERE) == whole


def test_other_texts_are_not_addresses(subtests: pytest.Subtests) -> None:
    for text in [
        "", " ", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "blob:http://a/b", "about:blank",
        "view-source:http://a.test", "chrome://version", "ftp://a.test/", "mailto:a@b.c", "http://", "https:///x",
        "http://a:99999/", "http://[::1", "x" * 9_000, "FILE:/etc/passwd", "ws://a.test",
    ]:  # fmt: skip
        with subtests.test(repr(text)):
            assert resolve_url(text, HERE) is None


@given(st.text(max_size=60), st.sampled_from([HERE, "about:blank", ""]))
def test_only_web_addresses_come_out(text: str, current_url: str) -> None:
    whole = resolve_url(text, current_url)
    assert whole is None or whole.lower().startswith(("http://", "https://"))
