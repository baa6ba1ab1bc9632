"""Text parts of a page: statements, paragraphs, notes, key figures and code."""

import re
from typing import Literal

from agentlearn.html.figure import figure
from agentlearn.html.markup import Html, element
from agentlearn.html.tone import Tone, glyph
from agentlearn.types.value import Value

_BRACKET = re.compile(r"\[[^\[\]\n]{1,24}\]")
"""An interval, which is not broken over two lines."""


class Statement(Value):
    """A result in one sentence, in large type."""

    text: str
    tone: Tone = "plain"


class Paragraph(Value):
    """Running text. Its line ends are kept."""

    text: str
    quiet: bool = False
    """Use smaller, paler type, for explanations."""


class Note(Value):
    """A remark in a box. A warning is something to know before trusting the figures."""

    text: str
    kind: Literal["note", "warning"] = "note"
    title: str = ""
    """Heading of the box. Empty: `Note` or `Warning`."""


class KeyFigure(Value):
    """A number with its name."""

    label: str
    value: str
    sub: str = ""


class KeyFigures(Value):
    """A few numbers side by side."""

    caption: str
    figures: tuple[KeyFigure, ...]


class CodeBlock(Value):
    """Commands, transcripts or settings. Line ends are kept and long lines are wrapped."""

    text: str
    label: str = ""


def statement(part: Statement) -> Html:
    """A `Statement` as HTML."""
    unbroken = _BRACKET.sub(lambda found: found.group().replace(" ", "\u00a0"), part.text)
    return element("p", glyph(part.tone), element("bdi", unbroken), class_=f"statement {part.tone}")


def paragraph(part: Paragraph) -> Html:
    """A `Paragraph` as HTML."""
    return element("p", element("bdi", part.text), class_="quiet" if part.quiet else "prose")


def note(part: Note) -> Html:
    """A `Note` as HTML."""
    title = part.title or part.kind.capitalize()
    return element(
        "div",
        element("p", title, class_="title"),
        element("p", element("bdi", part.text), class_="prose"),
        class_=part.kind,
        role="note",
    )


def key_figures(part: KeyFigures, mark: str) -> Html:
    """`KeyFigures` as HTML."""
    items = [
        element(
            "div",
            element("dt", element("bdi", one.label)),
            element(
                "dd",
                element("bdi", one.value),
                element("span", element("bdi", one.sub), class_="sub") if one.sub else None,
            ),
        )
        for one in part.figures
    ]
    return figure("keys", part.caption, element("dl", *items), mark=mark)


def code(part: CodeBlock) -> Html:
    """A `CodeBlock` as HTML."""
    label = element("p", element("bdi", part.label), class_="quiet") if part.label else None
    return element("div", label, element("pre", element("code", part.text), tabindex=0), class_="code")
