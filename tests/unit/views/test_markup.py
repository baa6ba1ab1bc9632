"""Whatever text goes into a page comes out as text."""

import re

import pytest
from hypothesis import given

from agentlearn.views.markup import Html, clipped, element, joined, raw, shown
from tests.support.hostile import HOSTILE, texts
from tests.support.markup import Read


@given(texts)
def test_a_text_child_is_read_back_as_it_is_shown(text: str) -> None:
    read = Read(element("p", text).text)
    assert read.names == ["p"]
    assert read.text == shown(text)


@given(texts)
def test_an_attribute_is_read_back_as_it_is_shown(text: str) -> None:
    read = Read(element("p", aria_label=text).text)
    assert read.tags == [("p", {"aria-label": shown(text)})]


@given(texts)
def test_what_is_shown_can_be_written_and_holds_nothing_unseen(text: str) -> None:
    seen = shown(text)
    seen.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", seen)
    assert shown(seen) == seen


def test_unseen_characters_are_named() -> None:
    assert shown("a\x00b\x7f\x9b") == "a⟨U+0000⟩b⟨U+007F⟩⟨U+009B⟩"
    assert shown("a\u202eb\ud800") == "a⟨U+202E⟩b⟨U+D800⟩"
    assert shown("tab\tand\r\nlines\rstay") == "tab\tand\nlines\nstay"
    assert shown("👩‍👧 می‌شود é ∑") == "👩‍👧 می‌شود é ∑"


def test_elements_nest_and_leave_out_what_is_none() -> None:
    inner = element("b", "1 < 2")
    assert element("p", inner, None, " & ", class_="a b", id=None, open=True, tabindex=0, hidden=False) == Html(
        '<p class="a b" open tabindex="0"><b>1 &lt; 2</b> &amp; </p>'
    )
    assert joined("<", inner, None).text == "&lt;<b>1 &lt; 2</b>"
    assert element("line", x1="5%", y1=0).text == '<line x1="5%" y1="0"/>'
    assert element("meta", charset="utf-8").text == '<meta charset="utf-8">'


@pytest.mark.parametrize("text", ["a</script>", "a </", "<!-- a"])
def test_a_script_that_would_end_itself_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the script contains '</' or '<!--'"):
        raw("script", text)


def test_clipping_keeps_what_fits() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abcde…"
    assert clipped("abcd fgh", 6) == "abcd…"


def test_the_hostile_texts_are_hostile() -> None:
    assert any("<script" in text for text in HOSTILE)
    assert max(map(len, HOSTILE)) >= 10_000
