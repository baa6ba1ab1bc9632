"""A page as a whole: one file, its own script and no other, whatever texts it shows."""

import base64
import hashlib
import re

from hypothesis import given

from agentlearn.pages.charts import Bar, BarGroup, Bars, Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.pages.figure import shown
from agentlearn.pages.lines import LineChart, Point, Scatter, ScatterPoint, Series
from agentlearn.pages.page import Details, HtmlPage, PagePart, Section, render_page
from agentlearn.pages.table import (
    CodeBlock,
    Column,
    KeyFigure,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    TableCell,
)
from tests.support.hostile import texts
from tests.support.markup import Read


def every_part(text: str) -> tuple[PagePart, ...]:
    """One of each kind, the text wherever a text can stand."""
    point = Point(x=1, y=0.5, low=0.4, high=0.6, label=text)
    return (
        Statement(text=text, tone="good"),
        Paragraph(text=text),
        Note(text=text, title=text, kind="warning"),
        KeyFigures(caption=text, figures=(KeyFigure(label=text, value=text, sub=text),)),
        CodeBlock(text=text, label=text),
        Table(
            caption=text, columns=(Column(name=text),), rows=((TableCell(text=text, sub=text, tone="bad"),),), note=text
        ),
        Forest(
            caption=text,
            rows=(ForestRow(label=text, sub=text, mean=0.1, low=0.0, high=0.2, words=text, tone="open"),),
            left=text,
            right=text,
            note=text,
        ),
        Dumbbell(caption=text, before=text, after=text, rows=(DumbbellRow(label=text, sub=text, before=0, after=1),)),
        LineChart(caption=text, x_name=text, y_name=text, series=(Series(label=text, points=(point,)),) * 2),
        Scatter(caption=text, x_name=text, y_name=text, points=(ScatterPoint(label=text, x=1, x_words=text, y=0.5),)),
        Bars(
            caption=text, groups=(BarGroup(label=text, bars=(Bar(label=text, value=1.0, words=text),) * 2),), note=text
        ),
        Details(summary=text, aside=text, parts=(Paragraph(text=text),)),
    )


def page_of(text: str) -> HtmlPage:
    parts = every_part(text)
    return HtmlPage(
        title=text,
        kicker=text,
        mark=text,
        front=parts,
        sections=(Section(title=text, lede=text, parts=parts),) * 2,
        footer=text,
    )


def bare_names(read: Read) -> list[str]:
    """The elements in order, without the labels of a scatter chart, which stand only where there is room."""
    return [name for name, values in read.tags if values.get("class") != "label"]


PLAIN = bare_names(Read(render_page(page_of("x"))))


@given(texts.filter(lambda text: text != ""))
def test_no_text_changes_what_a_page_is_made_of(text: str) -> None:
    html = render_page(page_of(text))
    html.encode("utf-8")
    read = Read(html)
    read.assert_ours()
    assert bare_names(read) == PLAIN
    assert shown(text) in read.text


def test_the_policy_allows_our_script_and_style_by_their_hashes_and_nothing_else() -> None:
    html = render_page(page_of("x"))
    read = Read(html)
    policy = next(values["content"] for _, values in read.tags if values.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    for kind in ("style", "script"):
        body = html.split(f"<{kind}>")[1].split(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_a_page_names_no_place_to_load_from() -> None:
    html = re.sub(r"(sha256-|base64,)[A-Za-z0-9+/=]+", "", render_page(page_of("x")))
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bfetch\b|XMLHttp|<img|<iframe", html)
    assert " style=" not in html  # the policy would not let it act


def test_every_figure_has_the_mark() -> None:
    parts = every_part("x")
    read = Read(
        render_page(HtmlPage(title="t", mark="simulated", front=parts, sections=(Section(title="s", parts=parts),)))
    )
    captions = read.inside["figcaption"]
    assert len(captions) >= 12
    assert all(caption.endswith(" simulated") for caption in captions)
    assert read.inside["title"][0] == "t (simulated)"
    regions = [values["aria-label"] for _, values in read.tags if values.get("role") in ("region", "img")]
    assert all("simulated" in (name or "") or name == "x: +0.10, interval 0.00 to +0.20, x" for name in regions)


def test_the_contents_lead_to_every_section() -> None:
    sections = tuple(Section(title=title, parts=()) for title in ("Arms", "Arms", "Details", "…"))
    read = Read(render_page(HtmlPage(title="t", front=(), sections=sections)))
    targets = [target[1:] for target in read.attributes("href") if target.startswith("#")]
    assert targets == ["details", "arms", "arms-2", "details-2", "section"]
    assert set(targets) <= set(read.attributes("id"))
