"""The parts of a page: what they say, what they draw, what they fold away."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.pages.charts import Bar, BarGroup, Bars, Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.pages.figure import Html
from agentlearn.pages.lines import (
    HEIGHT,
    NARROWEST,
    NUMBERS,
    LineChart,
    Point,
    Scatter,
    ScatterPoint,
    Series,
    labelled,
)
from agentlearn.pages.table import Column, Statement, Table, TableCell, lesson_box
from tests.support.markup import Read


def read(html: Html) -> Read:
    return Read(html.text)


def classes(page: Read, name: str) -> int:
    """How many elements have the class."""
    return sum(name in (values.get("class") or "").split() for _, values in page.tags)


def rows(changes: list[float]) -> tuple[DumbbellRow, ...]:
    return tuple(DumbbellRow(label=f"t{n}", before=0.5, after=0.5 + change) for n, change in enumerate(changes))


def test_a_forest_says_each_row_in_words_and_numbers() -> None:
    row = ForestRow(label="b", mean=0.45, low=0.37, high=0.53, margin=0.05, tone="good", words="better")
    page = read(Forest(caption="Difference", rows=(row,), left="a better", right="b better").html("simulated"))
    assert "b: +0.45, interval +0.37 to +0.53, margin −0.05, better" in page.attributes("aria-label")
    assert "Difference (simulated)" in page.attributes("aria-label")
    assert page.inside["figcaption"] == ["Difference simulated"]
    for words in (
        "+0.45",
        "[+0.37, +0.53]",
        "better",
        "← a better",
        "b better →",
        "The dashed line is the margin, −0.05.",
    ):
        assert words in page.text
    assert classes(page, "zero") == classes(page, "margin") == classes(page, "whisker") == 1


def test_an_estimate_is_at_the_position_of_its_scale() -> None:
    low, high = (ForestRow(label=name, mean=mean) for name, mean in (("low", 0.0), ("high", 1.0)))
    page = read(Forest(caption="c", rows=(low, high)).html(""))
    places = [values["x"] for name, values in page.tags if name == "svg" and values.get("class") == "marker"]
    assert places == ["4%", "96%"]


@pytest.mark.parametrize("mean", [None, math.nan])
def test_a_row_without_an_estimate_is_there_and_says_so(mean: float | None) -> None:
    page = read(Forest(caption="c", rows=(ForestRow(label="b", mean=mean),)).html(""))
    assert "b: no estimate" in page.attributes("aria-label")
    assert classes(page, "marker") == 0


def test_a_dumbbell_shows_gains_and_losses_in_proportion() -> None:
    """Nine gains among ninety losses are two rows of twenty, and not nine beside ten."""
    changes = [*(0.1 + n / 100 for n in range(9)), *(-0.1 - n / 200 for n in range(90))]
    page = read(Dumbbell(caption="c", before="a", after="b", rows=rows(changes)).html(""))
    drawn = [int(name[1:]) for name in page.inside["th"] if name.startswith("t") and name != "task"]
    assert page.inside["summary"] == ["79 more with smaller differences"]
    assert (drawn[:2], sum(n < 9 for n in drawn[:2] + drawn[-18:])) == ([8, 7], 2)


@given(st.lists(st.sampled_from([-0.5, -0.25, 0.0, 0.25, 0.5, 1e-15]), max_size=40), st.integers(1, 12))
def test_a_dumbbell_shows_every_row_once(changes: list[float], shown: int) -> None:
    page = read(Dumbbell(caption="c", before="a", after="b", rows=rows(changes), shown=shown).html(""))
    changed = [text for text in page.inside.get("th", []) if text not in ("task", "scores", "difference", "")]
    drawn = [name for name in changed if name.startswith("t")]
    same = [text.split()[0] for text in page.inside.get("li", []) if text.startswith("t")]
    assert sorted(drawn + same) == sorted(f"t{n}" for n in range(len(changes)))
    assert len(drawn) == sum(abs(change) > 1e-9 for change in changes)


def test_lines_differ_by_more_than_colour_and_come_with_their_table() -> None:
    series = tuple(
        Series(label=name, points=tuple(Point(x=x, y=y, low=y - 0.1, high=y + 0.1, label=f"v{x}") for x in range(3)))
        for name, y in (("one", 0.3), ("two", 0.6))
    )
    page = read(LineChart(caption="Curve", x_name="step", y_name="score", series=series).html("simulated"))
    shapes = {values["d"] for name, values in page.tags if name == "path"}
    assert len(shapes) == 2
    assert classes(page, "stroke") == 2 * 2 + 2  # two strokes a series, and two samples in the key
    assert classes(page, "whisker") == 6
    assert page.inside["summary"] == ["The values as a table"]
    assert "one: v0 0.30 [0.20, 0.40]" in page.inside["title"]
    assert page.text.count("[0.50, 0.70]") == 3 + 3


def test_a_point_that_was_not_measured_leaves_a_gap() -> None:
    points = (Point(x=0, y=0.1), Point(x=1, y=None), Point(x=2, y=0.3))
    page = read(LineChart(caption="c", x_name="x", y_name="y", series=(Series(label="s", points=points),)).html(""))
    assert classes(page, "shape") == 2
    assert "–" in page.inside["td"]


places = st.tuples(st.floats(11, 92), st.floats(6, 86))


@given(st.lists(places, max_size=10), st.lists(st.text("mW @", min_size=1, max_size=30), min_size=10, max_size=10))
def test_labels_overlap_neither_each_other_nor_a_point(spots: list[tuple[float, float]], names: list[str]) -> None:
    labels = labelled(names[: len(spots)], spots)
    dots = [(x / 100 * NARROWEST, y / 100 * HEIGHT) for x, y in spots]
    boxes = [label.box(*dot) for label, dot in zip(labels, dots, strict=True) if label is not None]
    for n, (left, top, right, bottom) in enumerate(boxes):
        assert NUMBERS <= left <= right <= NARROWEST
        assert 0 <= top <= bottom <= HEIGHT
        for other in boxes[:n]:
            assert right <= other[0] or left >= other[2] or bottom <= other[1] or top >= other[3]


def test_a_scatter_names_its_points_and_comes_with_its_table() -> None:
    points = (
        ScatterPoint(label="a", x=0.002, x_words="$0.0020", y=0.4, low=0.3, high=0.5),
        ScatterPoint(label="b", x=0.004, x_words="$0.0040", y=0.6, tone="good"),
    )
    page = read(Scatter(caption="Cost", x_name="dollars", y_name="score", points=points).html(""))
    assert "a: 0.40 [0.30, 0.50] at $0.0020" in page.inside["title"]
    assert [text for text in page.inside["text"] if text in ("a", "b")] == ["a", "b"]
    assert "$0.0040" in page.inside["td"]


def test_a_section_unfolds_under_its_first_line_as_it_was_written() -> None:
    section = "\n## Reading\n\n```sh\nread \\\\alpha $x$ <b>\n```\n"
    page = read(lesson_box(section, "g1", "/lesson").html(Column(name="Lesson"), 0))
    assert page.inside["summary"] == ["## Reading …"]
    assert page.inside["pre"] == [section.strip("\n")]
    assert page.attributes("href") == ["/lesson"]
    assert "details" not in read(lesson_box("When lost, draw.", "").html(Column(name="Lesson"), 0)).inside


def test_tables_align_numbers_and_carry_what_they_are_sorted_by() -> None:
    columns = (Column(name="Arm"), Column(name="Score", kind="number"))
    body = (
        (TableCell(text="a"), TableCell(text="−0.50", sub="[−1, 0]", value=-0.5)),
        (TableCell(text="b"), TableCell(text="–", value=math.nan)),
    )
    page = read(Table(caption="Scores", columns=columns, rows=body, note="A note.").html("simulated"))
    assert page.attributes("data-value") == ["-0.5"]
    assert classes(page, "num") == 3
    assert [values.get("scope") for name, values in page.tags if name == "th"] == ["col", "col", "row", "row"]
    region = next(values for _, values in page.tags if values.get("role") == "region")
    assert region == {"class": "scroll", "role": "region", "aria-label": "Scores (simulated)", "tabindex": "0"}
    assert "A note." in page.text


def test_a_statement_keeps_an_interval_on_one_line_and_shows_its_tone_as_a_shape() -> None:
    page = read(Statement(text="b is better: +0.1 [+0.05, +0.15]", tone="good").html())
    assert page.text == "b is better: +0.1 [+0.05,\u00a0+0.15]"
    assert page.names == ["p", "svg", "path", "bdi"]
    assert read(Statement(text="b").html()).names == ["p", "bdi"]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6))
def test_bars_are_as_long_as_their_numbers(values: list[float]) -> None:
    bars = tuple(Bar(label=f"b{n}", value=value, words=f"{value:g}") for n, value in enumerate(values))
    page = read(Bars(caption="c", groups=(BarGroup(label="g", bars=bars),)).html(""))
    drawn = [float((one["x2"] or "").rstrip("%")) for _, one in page.tags if one.get("class") == "bar"]
    expected = [100 * value / max(values) for value in values if value > 0 and max(values) > 0]
    assert drawn == pytest.approx([round(share, 2) for share in expected if share > 0], abs=0.01)
    assert all(bar.words in page.text for bar in bars)
