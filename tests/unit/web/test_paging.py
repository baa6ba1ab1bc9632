"""Pages of a snapshot: their size, that no line is lost, and the context at the start of each."""

from hypothesis import given
from hypothesis import strategies as st

from agentlearn_web.browser.shown_snapshot import _split_pages
from agentlearn_web.observation import ElementLine, format_line

LINES = st.lists(
    st.builds(
        ElementLine,
        depth=st.integers(0, 6),
        role=st.sampled_from(["list", "listitem", "link", "generic", "row"]),
        name=st.text(max_size=40),
        ref=st.sampled_from(["", "t1:e1"]),
        url=st.sampled_from(["", "/a", "/" + "x" * 90]),
        text=st.text(max_size=120),
    ),
    max_size=40,
)


def size(lines: tuple[ElementLine, ...]) -> int:
    return sum(len(format_line(line)) + 1 for line in lines)


@given(LINES, st.integers(400, 2_000))
def test_each_line_is_on_exactly_one_page_and_pages_keep_to_their_size(lines: list[ElementLine], budget: int) -> None:
    pages = _split_pages(lines, budget)
    assert [line for page in pages for line in page.lines] == lines
    assert all(size(page.shown) <= budget for page in pages)
    assert all(page.lines for page in pages) or not lines
    assert pages[0].context == ()
