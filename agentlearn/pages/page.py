"""Pages: typed parts become one self-contained HTML file that loads nothing and runs only its own script."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from itertools import count

from agentlearn.pages.charts import Bars, Dumbbell, Forest
from agentlearn.pages.figure import fold, marked
from agentlearn.pages.lines import LineChart, Scatter
from agentlearn.pages.markup import Html, element, joined, raw
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
