"""The parts of a page: what they say, what they draw, what they fold away."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlearn.views.charts import Bar, BarGroup, Bars, Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.views.lines import LineChart, Point, Scatter, ScatterPoint, Series
from agentlearn.views.markup import Html
from agentlearn.views.table import Column, Statement, Table, TableCell
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


@pytest.mark.parametrize("mean", [None, math.nan])
def test_a_row_without_an_estimate_is_there_and_says_so(mean: float | None) -> None:
    page = read(Forest(caption="c", rows=(ForestRow(label="b", mean=mean),)).html(""))
    assert "b: no estimate" in page.attributes("aria-label")
    assert classes(page, "marker") == 0


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


def test_a_scatter_names_its_points_and_comes_with_its_table() -> None:
    points = (
        ScatterPoint(label="a", x=0.002, x_words="$0.0020", y=0.4, low=0.3, high=0.5),
        ScatterPoint(label="b", x=0.004, x_words="$0.0040", y=0.6, tone="good"),
    )
    page = read(Scatter(caption="Cost", x_name="dollars", y_name="score", points=points).html(""))
    assert "a: 0.40 [0.30, 0.50] at $0.0020" in page.inside["title"]
    assert [text for text in page.inside["text"] if text in ("a", "b")] == ["a", "b"]
    assert "$0.0040" in page.inside["td"]


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
