"""Typed parts become files: a page one HTML file that loads nothing and runs only its own script, a chart an SVG file.

The SVG files have the same marks as the charts of a page, with plain colours, for papers and slides.
"""

import base64
import hashlib
import re
import textwrap
from functools import cache
from importlib.resources import files
from itertools import count

from agentlearn.pages.charts import Bars, Dumbbell, Forest, words_at
from agentlearn.pages.figure import Html, element, fold, joined, marked, named, raw
from agentlearn.pages.lines import LineChart, Scatter
from agentlearn.pages.table import CodeBlock, KeyFigures, Note, Paragraph, Statement, Table
from agentlearn.types.value import Value


class Details(Value):
    """Parts folded under a summary line."""

    summary: str
    aside: str = ""
    """Text at the end of the summary line."""
    parts: "tuple[PagePart, ...]"
    unfolded: bool = False

    def html(self, mark: str) -> Html:
        """The part as HTML."""
        content = joined(*(one.html(mark) for one in self.parts))
        return fold(self.summary, content, aside=self.aside, unfolded=self.unfolded)


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

    def html(self, anchor: str, mark: str) -> Html:
        """The section as HTML, with an anchor for links to it."""
        return element(
            "section",
            element("h2", self.title, id=f"{anchor}-heading"),
            element("p", element("bdi", self.lede), class_="prose") if self.lede else None,
            *(part.html(mark) for part in self.parts),
            id=anchor,
            aria_labelledby=f"{anchor}-heading",
        )


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

    def head(self) -> Html:
        """The head of the file, with the style sheet and a policy that lets it load nothing."""
        title = f"{self.title} ({self.mark})" if self.mark else self.title
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


def render_page(page: HtmlPage) -> str:
    """The whole file as text that UTF-8 can encode."""
    anchors: list[str] = []
    for section in page.sections:
        base = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        names = (base if number == 1 else f"{base}-{number}" for number in count(1))
        anchors.append(next(one for one in names if one != "details" and one not in anchors))
    front = element(
        "header",
        element("p", page.kicker, marked(page.mark), class_="kicker") if page.kicker or page.mark else None,
        element("h1", element("bdi", page.title)),
        *(part.html(page.mark) for part in page.front),
        class_="front",
    )
    placed = list(zip(page.sections, anchors, strict=True))
    sections = [one.html(anchor, page.mark) for one, anchor in placed]
    links = [element("li", element("a", one.title, href=f"#{anchor}")) for one, anchor in placed]
    body = element(
        "body",
        element("a", "Skip to the details", class_="skip", href="#details"),
        element(
            "div",
            front,
            element("nav", element("ul", *links), aria_label="Contents") if len(links) > 1 else None,
            element("main", *sections, id="details", tabindex=-1),
            element("footer", element("p", page.footer, class_="quiet")) if page.footer else None,
            class_="page",
        ),
        raw("script", _asset("page.js")),
    )
    return "<!doctype html>\n" + element("html", page.head(), body, lang="en").text + "\n"


@cache
def _asset(name: str) -> str:
    return files("agentlearn.pages").joinpath(name).read_text(encoding="utf-8").strip()


@cache
def _policy() -> str:
    """A policy that allows nothing but our own style sheet and script, by their hashes."""

    def digest(name: str) -> str:
        return base64.b64encode(hashlib.sha256(_asset(name).encode()).digest()).decode()

    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest('page.css')}'; "
        f"script-src 'sha256-{digest('page.js')}'; base-uri 'none'; form-action 'none'"
    )


CHARTS = (Bars, Forest, LineChart, Scatter)
"""The parts of pages that can be saved as a file."""
WIDTH, _MARGIN, _LINE = 760, 20, 16
"""Width of a drawing in pixels, the margin around it, and the height of a line of text."""
_STYLE = """
text { font: 12px sans-serif; fill: {muted}; } text.strong, text.label { fill: {ink}; }
text.caption { font: bold 14px sans-serif; fill: {ink}; } .x, .axis text { text-anchor: middle; }
.paper { fill: {paper}; } line, .cap { stroke: {rule}; fill: none; } line.grid { stroke: {faint}; }
line.zero { stroke: {muted}; stroke-width: 1.5; } line.leader { stroke: {muted}; }
line.margin { stroke: {accent}; stroke-width: 1.5; stroke-dasharray: 4 4; }
line.whisker, .cap { stroke: {ink}; stroke-width: 2; } .shape { fill: {ink}; stroke: {paper}; stroke-width: 1.5; }
.track { stroke: {faint}; stroke-width: 10; } .bar { stroke: {accent}; stroke-width: 10; }
.stroke { stroke-width: 2; } .series line.whisker { stroke-width: 1.5; opacity: .55; }
"""
_KINDS = {"good": "good", "bad": "bad", "held": "accent", "open": "muted"} | {
    f"s{n}": ("accent", "ink", "muted", "ink")[n % 4] for n in range(8)
}
"""Colours of tones and of the lines of a chart."""
_HOLLOW = {"open", "s4", "s5", "s6", "s7"}


def svg_file(chart: Bars | Forest | LineChart | Scatter, mark: str) -> str:
    """A chart as the text of an SVG file. mark: a label in its caption, such as `simulated`."""
    caption, (drawing, height) = named(chart.caption, mark), chart.picture()
    top = _MARGIN + _LINE
    notes = textwrap.wrap(getattr(chart, "note", ""), 110)
    bottom = top + 12 + height + 24
    whole = bottom + _LINE * len(notes)
    size = WIDTH + 2 * _MARGIN
    picture = element(
        "svg",
        element("title", caption),
        raw("style", _style()),
        element("path", class_="paper", d=f"M0 0H{size}V{whole}H0z"),
        words_at(caption, _MARGIN, top, "caption", most=96),
        element("svg", drawing, x=_MARGIN, y=top + 12, width=WIDTH, height=height, overflow="visible"),
        *(words_at(line, _MARGIN, bottom + _LINE * n, most=120) for n, line in enumerate(notes)),
        xmlns="http://www.w3.org/2000/svg", width=size, height=whole, viewBox=f"0 0 {size} {whole}",
    )  # fmt: skip
    return f"{picture.text}\n"


def _style() -> str:
    """The style sheet, with the colours of a light page."""
    page = files("agentlearn.pages").joinpath("page.css").read_text(encoding="utf-8").partition("@media")[0]
    colours = dict(re.findall(r"--(\w+): (#\w+)", page))
    rules = [_STYLE]
    for kind, colour in _KINDS.items():
        paint = f"{{{colour}}}"
        shape = f"fill: {{paper}}; stroke: {paint}; stroke-width: 2;" if kind in _HOLLOW else f"fill: {paint};"
        rules.append(f".{kind} .shape {{ {shape} }}")
        rules.append(f".{kind} line.whisker, .{kind} .cap, .{kind} .stroke {{ stroke: {paint}; }}")
    return re.sub(r"\{(\w+)\}", lambda found: colours[found[1]], "\n".join(rules))
