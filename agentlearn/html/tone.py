"""Tones of results, each with a colour and a shape, so that colour alone carries no meaning."""

from typing import Literal

from agentlearn.html.markup import Html, element

Tone = Literal["plain", "good", "bad", "held", "open"]
"""`good`: better, `bad`: worse, `held`: not worse than a margin, `open`: not decided, `plain`: no claim."""

_SHAPES: dict[Tone, str] = {
    "plain": "M-4.5-4.5h9v9h-9z",
    "good": "M0-6L6 5H-6z",
    "bad": "M0 6L6-5H-6z",
    "held": "M0-6.5L6.5 0L0 6.5L-6.5 0z",
    "open": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z",
}


def shape(tone: Tone) -> Html:
    """The marker of a tone around (0, 0), about 12 pixels wide."""
    return element("path", class_="shape", d=_SHAPES[tone])


def glyph(tone: Tone) -> Html | None:
    """The marker of a tone for running text; None for `plain`."""
    if tone == "plain":
        return None
    return element("svg", shape(tone), class_="glyph", viewBox="-8 -8 16 16", aria_hidden="true")
