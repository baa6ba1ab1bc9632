"""Pages: typed parts become one self-contained HTML file that loads nothing and runs only its own script."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import assert_never

from agentlearn.types.value import Value
from agentlearn.views.charts import Bars, Dumbbell, Forest, bar_chart, dumbbell, forest
from agentlearn.views.figure import fold, marked
from agentlearn.views.lines import LineChart, Scatter, line_chart, scatter
from agentlearn.views.markup import Html, element, joined, raw
from agentlearn.views.table import (
    CodeBlock,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    code,
    key_figures,
    note,
    paragraph,
    statement,
    table,
)


class Details(Value):
    """Parts folded under a summary line."""

    summary: str
    aside: str = ""
    """Text at the end of the summary line."""
    parts: "tuple[PagePart, ...]"
    unfolded: bool = False


PagePart = (
    Bars
    | CodeBlock
    | Details
    | Dumbbell
    | Forest
    | KeyFigures
    | LineChart
    | Note
    | Paragraph
    | Scatter
    | Statement
    | Table
)
"""A part of a page."""


class Section(Value):
    """A section with a heading, listed in the table of contents."""

    title: str
    lede: str = ""
    parts: tuple[PagePart, ...]


class HtmlPage(Value):
    """The content of one HTML file."""

    title: str
    kicker: str = ""
    """Kind of page, in small type above the title."""
    mark: str = ""
    """A label in the heading of every figure, such as `simulated`."""
    front: tuple[PagePart, ...]
    """The results, before the sections."""
    sections: tuple[Section, ...] = ()
    footer: str = ""


def render_page(page: HtmlPage) -> str:
    """The whole file as text that UTF-8 can encode."""
    anchors = anchors_of([section.title for section in page.sections])
    front = element(
        "header",
        element("p", page.kicker, marked(page.mark), class_="kicker") if page.kicker or page.mark else None,
        element("h1", element("bdi", page.title)),
        *(render_part(part, page.mark) for part in page.front),
        class_="front",
    )
    sections = [_section(one, anchor, page.mark) for one, anchor in zip(page.sections, anchors, strict=True)]
    body = element(
        "body",
        element("a", "Skip to the details", class_="skip", href="#details"),
        element(
            "div",
            front,
            _contents(page.sections, anchors) if len(page.sections) > 1 else None,
            element("main", *sections, id="details", tabindex=-1),
            element("footer", element("p", page.footer, class_="quiet")) if page.footer else None,
            class_="page",
        ),
        raw("script", _asset("page.js")),
    )
    return "<!doctype html>\n" + element("html", _head(page), body, lang="en").text + "\n"


def anchors_of(titles: Sequence[str]) -> list[str]:
    """A unique anchor for each title."""
    anchors: list[str] = []
    for title in titles:
        base = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        taken = {"details", *anchors}
        anchors.append(
            base if base not in taken else next(a for n in range(2, 10_000) if (a := f"{base}-{n}") not in taken)
        )
    return anchors


def _head(page: HtmlPage) -> Html:
    title = f"{page.title} ({page.mark})" if page.mark else page.title
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("link", rel="icon", href="data:,"),  # without it, browsers request one from the server
        raw("style", _asset("page.css")),
    )


@cache
def _asset(name: str) -> str:
    return files("agentlearn.views").joinpath(name).read_text(encoding="utf-8").strip()


@cache
def _policy() -> str:
    """A policy that allows nothing but our own style sheet and script, by their hashes."""

    def digest(name: str) -> str:
        return base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()

    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest('page.css')}'; "
        f"script-src 'sha256-{digest('page.js')}'; base-uri 'none'; form-action 'none'"
    )


def _contents(sections: Sequence[Section], anchors: Sequence[str]) -> Html:
    links = [
        element("li", element("a", section.title, href=f"#{anchor}"))
        for section, anchor in zip(sections, anchors, strict=True)
    ]
    return element("nav", element("ul", *links), aria_label="Contents")


def _section(section: Section, anchor: str, mark: str) -> Html:
    return element(
        "section",
        element("h2", section.title, id=f"{anchor}-heading"),
        element("p", element("bdi", section.lede), class_="prose") if section.lede else None,
        *(render_part(part, mark) for part in section.parts),
        id=anchor,
        aria_labelledby=f"{anchor}-heading",
    )


def _details(part: Details, mark: str) -> Html:
    content = joined(*(render_part(one, mark) for one in part.parts))
    return fold(part.summary, content, aside=part.aside, unfolded=part.unfolded)


def render_part(part: PagePart, mark: str) -> Html:
    """A part as HTML. mark: the label in the headings of figures, such as `simulated`."""
    match part:
        case Bars():
            return bar_chart(part, mark)
        case CodeBlock():
            return code(part)
        case Details():
            return _details(part, mark)
        case Dumbbell():
            return dumbbell(part, mark)
        case Forest():
            return forest(part, mark)
        case KeyFigures():
            return key_figures(part, mark)
        case LineChart():
            return line_chart(part, mark)
        case Note():
            return note(part)
        case Paragraph():
            return paragraph(part)
        case Scatter():
            return scatter(part, mark)
        case Statement():
            return statement(part)
        case Table():
            return table(part, mark)
        case _:
            assert_never(part)
