"""Pages of a snapshot: their size, that no line is lost, the context at the start of each, and what is new."""

from hypothesis import given
from hypothesis import strategies as st

from agentlearn_web.browser.shown_snapshot import ShownSnapshot, split_pages
from agentlearn_web.observation import ElementLine, format_line
from agentlearn_web.reading.page_text import PageText

LINES = st.lists(
    st.builds(
        ElementLine,
        depth=st.integers(0, 6),
        role=st.sampled_from(["list", "listitem", "link", "generic", "row"]),
        name=st.text(max_size=40),
        ref=st.sampled_from(["", "t1:e1"]),
        url=st.sampled_from(["", "/a", "/" + "x" * 90]),
        text=st.text(max_size=120),
        marks=st.sampled_from([(), (), ("not visible", "closed")]),
    ),
    max_size=40,
)


def size(lines: tuple[ElementLine, ...]) -> int:
    return sum(len(format_line(line)) + 1 for line in lines)


@given(LINES, st.integers(400, 2_000))
def test_each_line_is_on_exactly_one_page_and_pages_keep_to_their_size(lines: list[ElementLine], budget: int) -> None:
    pages = split_pages(lines, budget)
    assert [line for page in pages for line in page.lines] == lines
    assert all(size(page.shown) <= budget for page in pages)
    assert all(page.lines for page in pages) or not lines
    assert pages[0].context == ()


def test_closed_controls_in_a_row_take_one_line_and_keep_their_refs() -> None:
    options = [
        ElementLine(depth=1, role="option", name=f"Town {number}", marks=("not visible", "closed"), ref=f"t1:e{number}")
        for number in range(300)
    ]
    few = [one.model_copy(update={"role": "link"}) for one in options[:4]]
    page = snapshot([ElementLine(role="listbox"), *options, ElementLine(role="button", name="Go", ref="t1:e900"), *few])
    (shown,) = page.pages
    assert [format_line(one) for one in shown.shown[:3]] == [
        "- listbox",
        "  - text [not visible]: 300 options, closed",
        '- button "Go" [t1:e900]',
    ]
    assert [one.marks for one in shown.shown[3:]] == [("not visible",)] * 4
    assert page.refs["t1:e217"].name == "Town 217"


def snapshot(lines: list[ElementLine], page_chars: int = 400) -> ShownSnapshot:
    return ShownSnapshot.compose(0, lines, PageText(), page_chars)


ROWS = [ElementLine(role="listitem", text=f"Row {number} of the list") for number in range(60)]
SURE = [
    ElementLine(role="dialog", name="Sure"),
    ElementLine(depth=1, role="text", text="Fee 12.50"),
    ElementLine(depth=1, role="button", name="Row", ref="t1:e9"),
]


def test_new_lines_are_those_that_the_page_had_less_often() -> None:
    before = snapshot([*ROWS, ElementLine(role="button", name="Row", ref="t1:e1")])
    assert not before.new_since(before)
    again = snapshot([ROWS[0], *ROWS, *SURE, ElementLine(role="button", name="Row", ref="t1:e1")])
    assert again.new_since(before) == {1, 61, 62, 63}
    hidden = [one.model_copy(update={"marks": ("not visible",)}) for one in SURE]
    assert not snapshot([*ROWS, *hidden]).new_since(before)
    assert snapshot([*ROWS, *SURE]).new_since(snapshot([*ROWS, *hidden])) == {60, 61, 62}
    expanded = ElementLine(role="button", name="Row", ref="t1:e1", marks=("expanded",))
    assert not before.is_like(snapshot([*ROWS, expanded]))
    assert before.is_like(before.marked({3}, "new"))


def test_what_is_new_elsewhere_is_shown_or_its_page_is() -> None:
    before, after = snapshot(ROWS), snapshot([*ROWS, *SURE])
    new = after.new_since(before)
    kept, page = after.opened(new, 1, 200)
    assert (list(kept), page) == ([60, 61, 62], 1)
    assert [line.depth for _, line in after.lines_at(kept)] == [0, 1, 1]
    assert [number for number, _ in after.lines_at(kept)] == list(after.page_numbers[60:])
    assert after.opened(new, 1, 50) == ((), after.page_numbers[60])  # too long: its page is shown
    assert after.opened(new, after.page_numbers[60], 20) == (
        (),
        after.page_numbers[60],
    )  # it stands on the page that is shown


@given(LINES, LINES, st.integers(0, 40), st.integers(1, 4), st.integers(0, 2_000))
def test_no_new_line_is_lost(lines: list[ElementLine], more: list[ElementLine], at: int, page: int, most: int) -> None:
    before, after = snapshot(lines), snapshot([*lines[:at], *more, *lines[at:]])
    new = after.new_since(before)
    said, known = (sum(any(one[2:]) and not one[0] for one in view.unmarked) for view in (after, before))
    assert said <= known + len(new)
    if new:
        kept, chosen = after.opened(new, min(page, len(after.pages)), most)
        assert kept or chosen in {after.page_numbers[one] for one in new}
        assert [line.text for _, line in after.lines_at(kept) if "continued" not in line.marks] == [
            after.lines[one].text for one in kept
        ]


def test_what_was_only_covered_for_a_while_is_not_new() -> None:
    hidden = [one.model_copy(update={"marks": ("not visible",)}) for one in ROWS]
    before, covered = snapshot(ROWS), snapshot([*hidden, *SURE])
    assert snapshot(ROWS).new_since(covered) == frozenset(range(60))
    assert not snapshot(ROWS).new_since(covered.after(before))
