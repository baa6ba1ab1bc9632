"""What a page says in words: statements in large type, paragraphs, notes, key figures, code."""

import re
from typing import Literal

from agentlearn.html.figure import figure
from agentlearn.html.markup import Html, element
from agentlearn.html.tone import Tone, glyph
from agentlearn.types.value import Value

_BRACKET = re.compile(r"\[[^\[\]\n]{1,24}\]")
"""An interval; its ends stay on one line."""


class Statement(Value):
    """A finding in one sentence, in large type."""

    text: str
    tone: Tone = "plain"


class Paragraph(Value):
    """Running text. Line ends in it are kept."""

    text: str
    quiet: bool = False
    """In smaller, paler type: for explanations that a second look needs."""


class Note(Value):
    """A remark set apart; a warning is something that the reader must know before believing the figures."""

    text: str
    kind: Literal["note", "warning"] = "note"
    title: str = ""
    """Empty: `Note` or `Warning`."""


class KeyFigure(Value):
    """One number with its name."""

    label: str
    value: str
    sub: str = ""


class KeyFigures(Value):
    """A few numbers side by side."""

    caption: str
    figures: tuple[KeyFigure, ...]


class CodeBlock(Value):
    """Text as a machine reads or wrote it: commands, transcripts. Keeps its line ends and wraps long lines."""

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
            element("dd", element("bdi", one.value), element("span", one.sub, class_="sub") if one.sub else None),
        )
        for one in part.figures
    ]
    return figure("keys", part.caption, element("dl", *items), mark=mark)


def code(part: CodeBlock) -> Html:
    """`CodeBlock` as HTML."""
    label = element("p", element("bdi", part.label), class_="quiet") if part.label else None
    return element("div", label, element("pre", element("code", part.text), tabindex=0), class_="code")
