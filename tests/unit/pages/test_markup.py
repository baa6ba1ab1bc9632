"""Whatever text goes into a page comes out as text."""

import re

import pytest
from hypothesis import given

from agentlearn.pages.figure import clipped, element, markdown, prose, raw, shown
from tests.support.hostile import texts
from tests.support.markup import Read


@given(texts)
def test_a_text_child_is_read_back_as_it_is_shown(text: str) -> None:
    read = Read(element("p", text).text)
    assert read.names == ["p"]
    assert read.text == shown(prose(text))


@given(texts)
def test_an_attribute_is_read_back_as_it_is_shown(text: str) -> None:
    read = Read(element("p", aria_label=text).text)
    assert read.tags == [("p", {"aria-label": shown(prose(text))})]


@given(texts)
def test_what_is_shown_can_be_written_and_holds_nothing_unseen(text: str) -> None:
    seen = shown(text)
    seen.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]", seen)
    assert shown(seen) == seen


@pytest.mark.parametrize("text", ["a</script>", "a </", "<!-- a"])
def test_a_script_that_would_end_itself_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the script contains '</' or '<!--'"):
        raw("script", text)


def test_clipping_keeps_what_fits() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abcde…"
    assert clipped("abcd fgh", 6) == "abcd…"


def test_markdown_keeps_its_form_and_nothing_that_could_act() -> None:
    table = "| a | b |\n|---|---|\n| <script>x</script> | [go](javascript:x) ![p](http://x/y.png) |"
    hostile = f"## Head\n\n{table}\n\n<img src=x>"
    page = str(markdown(hostile).text)
    assert "<h2>Head</h2>" in page
    assert "<td>&lt;script&gt;x&lt;/script&gt;</td>" in page
    assert not any(part in page for part in ("<script", "<img", "<a ", "href"))


def test_mathematics_is_plain_in_prose_and_as_written_in_what_a_model_wrote() -> None:
    text = r"so $\frac{a}{b}$"
    assert element("li", text, title=text).text == '<li title="so a/b">so a/b</li>'
    assert element("pre", text).text == f"<pre>{text}</pre>"
    assert clipped(f"{text} and more", 8) == "so a/b…"
