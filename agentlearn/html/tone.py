"""Tones: what a statement or a row says of an arm. Each has a colour, a shape and a word, so that none stands alone."""

from typing import Literal

from agentlearn.html.markup import Html, element

Tone = Literal["plain", "good", "bad", "held", "open"]
"""`good` and `bad` are findings, `held` is one that a margin was kept, `open` is none, `plain` makes no claim."""

_SHAPES: dict[Tone, str] = {
    "plain": "M-4.5-4.5h9v9h-9z",
    "good": "M0-6L6 5H-6z",
    "bad": "M0 6L6-5H-6z",
    "held": "M0-6.5L6.5 0L0 6.5L-6.5 0z",
    "open": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
}


def shape(tone: Tone) -> Html:
    """The tone's marker around (0, 0), about 12 pixels wide."""
    return element("path", class_="shape", d=_SHAPES[tone])


def glyph(tone: Tone) -> Html | None:
    """The tone's marker as a sign in running text; nothing for `plain`."""
    if tone == "plain":
        return None
    return element("svg", shape(tone), class_="glyph", viewBox="-8 -8 16 16", aria_hidden="true")
