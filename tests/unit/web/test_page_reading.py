"""Marks, line breaks and search over the text of a page, without a browser."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentlearn.types.trajectory import ToolResult
from agentlearn_web.browser.page_reader import BadPattern, find_pattern, find_text, holds_text
from agentlearn_web.browser.pdf import UnreadablePdf, read_pdf
from agentlearn_web.browser.shown_snapshot import ShownSnapshot
from agentlearn_web.observation import (
    CONTEXT,
    NOT_VISIBLE,
    PARTLY_VISIBLE,
    ElementLine,
    format_line,
    parse_line,
    without_unseen,
)
from agentlearn_web.reading.page_text import PageText, SpanningCell, TextBlock, TextRun
from tests.support.small_pdf import pdf


def block(*runs: str | TextRun, heading: bool = False, pre: int = 0) -> TextBlock:
    return TextBlock(tuple(TextRun(one) if isinstance(one, str) else one for one in runs), heading, pre)


def hidden(text: str) -> TextRun:
    return TextRun(text, hidden=True)


def shown(lines: list[ElementLine], *blocks: TextBlock, cells: tuple[SpanningCell, ...] = ()) -> ShownSnapshot:
    return ShownSnapshot.compose(1, lines, PageText(blocks, cells), 1_000)


def text(words: str, **more: Any) -> ElementLine:
    return ElementLine(role=more.pop("role", "text"), text=words, **more)


# marks


def test_unseen_text_is_marked_unless_its_words_are_also_seen() -> None:
    page = shown(
        [text("evil"), text("open evil"), text("twice"), text("twice")],
        block(hidden("evil")), block("open ", hidden("evil")), block(hidden("twice")), block("twice"),
    )  # fmt: skip
    assert [line.marks for line in page.lines] == [(NOT_VISIBLE,), (PARTLY_VISIBLE,), (), ()]


def test_text_that_is_not_in_the_document_is_marked_unless_it_is_a_short_label() -> None:
    label, long = ElementLine(role="button", name="Close"), ElementLine(role="img", name="x" * 81)
    swapped, value = text("words that were swapped meanwhile"), text("a value that someone typed in", role="textbox")
    page = shown([label, long, swapped, text("→"), value], block("other"))
    assert [line.marks for line in page.lines] == [(), (NOT_VISIBLE,), (NOT_VISIBLE,), (), ()]


def test_marked_lines_are_parsed_again_and_left_out_of_lessons() -> None:
    marked = ElementLine(role="link", name="x", marks=(NOT_VISIBLE,), ref="t1:e1", url="/a")
    assert parse_line(format_line(marked)) == marked
    content = "\n".join(
        ("<page n>", format_line(marked), f"p2 | {format_line(text('y', marks=(PARTLY_VISIBLE,)))}", "- text: z")
    )
    result = ToolResult(call="c", tool="open", content=content, ok=True)

    class Steps:
        steps = (result,)

        def model_copy(self, *, update: dict[str, Any]) -> dict[str, Any]:
            return update

    kept: Any = without_unseen(Steps())  # type: ignore[arg-type]
    assert kept["steps"][0].content == "<page n>\n- text: z"


# preformatted and long text


def test_preformatted_text_keeps_its_lines_and_the_links_in_it() -> None:
    link = ElementLine(depth=1, role="link", name="two", ref="t1:e2")
    page = shown(
        [text("before"), ElementLine(role="code"), text("one", depth=1), link, text("three", depth=1), text("after")],
        block("before"), block("one\n  ", "two", "\n\nthree", pre=1), block("after"),
    )  # fmt: skip
    assert [(line.role, line.text or line.name) for line in page.lines[1:]] == [
        ("code", ""), ("pre", "one"), ("pre", "  two"), ("pre", ""), ("pre", "three"),
        ("link", "two"), ("text", "after"),
    ]  # fmt: skip
    assert format_line(page.lines[3]) == "  - pre:   two"


# search


def lines_of(page: ShownSnapshot, query: str) -> list[list[tuple[str, tuple[str, ...]]]]:
    return [[(one.text or one.name, one.marks) for _, one in match] for match in find_text(page, query)]


def test_a_match_is_shown_with_its_heading_and_neighbours() -> None:
    page = shown(
        [ElementLine(role="heading", name="Top"), text("first"), text("the second one"), text("third")],
        block("Top", heading=True), block("first"), block("the second one"), block("third"),
    )  # fmt: skip
    assert lines_of(page, "SECOND  one") == [
        [("Top", (CONTEXT,)), ("first", (CONTEXT,)), ("the second one", ()), ("third", (CONTEXT,))]
    ]
    assert lines_of(page, "one third") == []  # a match stands in one block
    assert lines_of(page, "secondone")[0][2] == ("the second one", ())
    assert lines_of(page, "nothing") == lines_of(page, " ") == []


APART = (
    "version 3.1", "0 errors", "12 of 3", "400 rows", "7 220 EUR", "8\u00a0220 EUR", "state-of-the- art", "Platz 1",
)  # fmt: skip


def test_a_match_stands_in_one_block_and_joins_no_numbers(subtests: pytest.Subtests) -> None:
    for query, found in [
        *(("3.10", 0), ("3.1 0", 0), ("version3.1", 1), ("3400", 0), ("errors 12", 0), ("12of3", 1), ("123", 0)),
        *(
            ("1220", 1),
            ("7220", 0),
            ("8220", 1),
            ("8220EUR", 1),
            ("8 220", 1),
            ("state-of-the-art", 1),
            ("platz 1", 1),
            ("Platz 1 1220", 1),
        ),
        *(("Platz 11220", 0), ("11220", 0), ("1220 Vienna", 1), ("Vienna EUR", 0)),
    ]:
        with subtests.test(repr((query, found))):
            page = PageText((*map(block, APART), replace(block("1220 Vienna"), joined=True), block("EUR")))
            assert len(list(find_text(ShownSnapshot.of_text(1, page, 6_000), query))) == found
            assert holds_text(page, query) == bool(found)


def test_hostile_patterns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    page = ShownSnapshot.of_text(1, PageText((block("a" * 5_000),)), 1_000)
    assert len(asyncio.run(find_pattern(page, "a{3}"))) == 1
    monkeypatch.setattr("agentlearn_web.browser.page_reader.PATTERN_S", 0.5)
    for pattern in ("(", "", "x" * 501, "(?:a|a)+$b", "x{99999999999}"):
        with pytest.raises(BadPattern):
            asyncio.run(find_pattern(page, pattern))


def test_only_text_that_a_person_sees_is_waited_for() -> None:
    page = PageText((block("Hello ", "world"), block(hidden("secret"))))
    assert holds_text(page, "hello  WORLD")
    assert not holds_text(page, "secret")
    assert not holds_text(page, " ")


# PDF files


def test_the_text_of_a_pdf_file_is_read_page_by_page() -> None:
    pytest.importorskip("pypdf")
    found = asyncio.run(read_pdf(pdf([["one", "two"], ["three"]])))
    assert [one.heading for one in found.blocks] == [True, False, True, False]
    assert [one.words for one in found.blocks] == ["Page 1 of 2", "one two", "Page 2 of 2", "three"]


@pytest.mark.parametrize("file", [b"", b"<html>", b"%PDF-1.7 broken", b"%PDF-" + b"x" * 20_000_001])
def test_other_files_are_refused_with_a_reason(file: bytes) -> None:
    with pytest.raises(UnreadablePdf, match=r"the file (is|has)"):
        asyncio.run(read_pdf(file))
