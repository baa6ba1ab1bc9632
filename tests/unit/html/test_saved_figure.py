"""Figures as SVG files: valid XML that stands alone and holds the texts of the figure."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlearn.html import (
    Bar,
    BarGroup,
    Bars,
    Dumbbell,
    DumbbellRow,
    Forest,
    ForestRow,
    HtmlPage,
    LineChart,
    PagePart,
    Point,
    Scatter,
    ScatterPoint,
    Series,
    render_page,
)
from agentlearn.html.markup import shown
from agentlearn.html.saved_figure import file_name
from tests.support.hostile import POISON, texts, unseen
from tests.support.markup import Read


def figures(text: str) -> tuple[PagePart, ...]:
    """One figure of each kind, the text wherever a text can stand."""
    points = tuple(Point(x=x, y=0.5, low=0.4, high=0.6, label=text) for x in range(3))
    return (
        Forest(
            caption=text,
            rows=(ForestRow(label=text, sub=text, mean=0.1, low=0.0, high=0.2, words=text, tone="good"),),
            left=text,
            right=text,
        ),
        Dumbbell(caption=text, before=text, after=text, rows=(DumbbellRow(label=text, before=0.1, after=0.9),)),
        LineChart(
            caption=text,
            x_name=text,
            y_name=text,
            series=(Series(label=text, points=points), Series(label=text, points=points[:1], connected=False)),
        ),
        Scatter(caption=text, x_name=text, y_name=text, points=(ScatterPoint(label=text, x=1, x_words=text, y=0.5),)),
        Bars(caption=text, groups=(BarGroup(label=text, bars=(Bar(label=text, value=2.0, words=text),)),)),
    )


def page_with(text: str, mark: str = "simulated") -> Read:
    return Read(render_page(HtmlPage(title="t", mark=mark, front=figures(text))))


@settings(max_examples=30)
@given(st.one_of(texts, st.just(POISON)))
def test_every_figure_is_saved_as_valid_xml_whatever_its_texts_are(text: str) -> None:
    read = page_with(text)
    read.assert_ours()
    saved = read.saved_figures()
    assert len(saved) == len(figures(text))
    for one in saved:
        assert unseen("".join(one.itertext()).replace("\t", "")) == set()


@pytest.mark.parametrize("kind", range(5))
def test_a_saved_figure_stands_alone(kind: int) -> None:
    one = page_with("Some words").saved_figures()[kind]
    assert one.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(one.attrib["width"]) == 720
    assert one.attrib["viewBox"] == f"0 0 720 {one.attrib['height']}"
    style = next(part.text or "" for part in one.iter() if part.tag.endswith("style"))
    assert "var(" not in style
    assert "http" not in style
    words = [part.text or "" for part in one.iter() if part.tag.endswith("}text")]
    assert words[0] == "Some words (simulated)"
    assert words.count("Some words") >= 3


def test_a_saved_figure_has_a_rule_for_every_class_that_it_draws_with() -> None:
    for one in page_with("x").saved_figures():
        style = next(part.text or "" for part in one.iter() if part.tag.endswith("style"))
        drawn = {name for part in one.iter() for name in part.attrib.get("class", "").split()}
        assert {name for name in drawn if f".{name}" not in style} <= {"plain", "y", "marker", "s3"}


def test_the_link_saves_under_a_plain_name() -> None:
    read = page_with("../../Reward\u202e & <b>loss</b>")
    assert set(read.attributes("download")) == {"reward-b-loss-b.svg"}
    assert file_name("\u202e") == "figure"
    assert len(file_name("word " * 100)) <= 60


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6))
def test_bars_are_as_long_as_their_numbers(values: list[float]) -> None:
    bars = tuple(Bar(label=f"b{n}", value=value, words=f"{value:g}") for n, value in enumerate(values))
    read = Read(render_page(HtmlPage(title="t", front=(Bars(caption="c", groups=(BarGroup(label="g", bars=bars),)),))))
    drawn = [float((one["x2"] or "").rstrip("%")) for _, one in read.tags if one.get("class") == "bar"]
    expected = [100 * value / max(values) for value in values if value > 0 and max(values) > 0]
    assert drawn == pytest.approx([round(share, 2) for share in expected if share > 0], abs=0.01)
    assert all(shown(bar.words) in read.text for bar in bars)


def test_points_without_a_line_stay_at_their_place() -> None:
    line = Series(label="all", points=(Point(x=0, y=0.1), Point(x=1, y=0.2)))
    chosen = Series(label="chosen", points=(Point(x=1, y=0.2),), connected=False)
    chart = LineChart(caption="c", x_name="x", y_name="y", series=(line, chosen))
    read = Read(render_page(HtmlPage(title="t", front=(chart,))))
    moved = [
        one["transform"] for _, one in read.tags if "transform" in one and (one["class"] or "").startswith("series s")
    ]
    assert moved == ["translate(0.0 0)", "translate(0.0 0)"]
    assert sum(one.get("class") == "stroke" for _, one in read.tags) == 2  # the line, and its sample in the legend
