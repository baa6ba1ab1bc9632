"""Figures as SVG files: each chart has a link that saves a copy with its own style, without a network or a script.

On the page a chart takes its colours and its width from the style sheet of the page. The copy holds the same marks,
its caption, its labels and a style of its own, in the light colours and with a fixed width.
"""

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from agentlearn.html.markup import Html, clipped, element, joined, raw, shown

WIDTH = 720
"""Width of a saved figure in pixels."""
EDGE = 16
"""Empty space around it."""
INNER = WIDTH - 2 * EDGE
"""Width of the strips of a saved figure."""
LONGEST = 110
"""Largest number of characters of a line of text in a saved figure."""
_CLASSES = re.compile(' class="([^"]*)"')
_NAMED = re.compile(r"\.([a-z]\w*)")
_NAME = 60
"""Largest number of characters of a file name, without its ending."""


@dataclass(frozen=True, slots=True)
class Strip:
    """A part of a saved figure, as wide as the figure. The strips stand below each other. Lengths are in pixels."""

    marks: Html
    height: int


def words_at(
    words: str, x: float | str, y: int, kind: str = "", *, anchor: str = "start", most: int = LONGEST
) -> Html | None:
    """A line of text; None for an empty one. x, y: the start of its base line. most: characters that are shown."""
    if not words:
        return None
    text = clipped(" ".join(shown(words).split()), most)
    at = x if isinstance(x, str) else f"{x:g}" if x else None
    return element("text", text, class_=kind or None, x=at, y=y, text_anchor=None if anchor == "start" else anchor)


def line_of(words: str, kind: str = "") -> Strip:
    """A strip with one line of text."""
    return Strip(joined(words_at(words, 0, 14, kind)), 20 if words else 0)


def placed_svg(marks: Iterable[Html | None], x: float, y: float, width: float, height: int) -> Html:
    """Marks in percent coordinates, in a box of a fixed size."""
    return element(
        "svg", *marks, x=f"{x:g}" if x else None, y=f"{y:g}" if y else None, width=f"{width:g}", height=height
    )


def rows_strip(rows: Sequence[Html], height: int, behind: Html, left: float, width: float) -> Strip:
    """Rows of equal height. behind: marks in percent coordinates behind all rows, from `left` on and so wide."""
    total = height * len(rows)
    placed = (element("g", row, transform=f"translate(0 {n * height})") for n, row in enumerate(rows))
    return Strip(joined(placed_svg([behind], left, 0, width, total), *placed), total)


def legend_strips(samples: Sequence[tuple[Html, str]]) -> list[Strip]:
    """A strip for each entry of a legend. samples: drawings around (0, 0), each with its name."""
    return [
        Strip(
            joined(
                element("svg", sample, x=0, y=0, width=28, height=16, viewBox="-14 -8 28 16"),
                words_at(name, 36, 13, "strong"),
            ),
            20,
        )
        for sample, name in samples
    ]


def svg_file(caption: str, mark: str, strips: Iterable[Strip]) -> str:
    """A whole SVG file: the caption with the mark, then the strips."""
    head = f"{clipped(shown(caption), LONGEST)} ({mark})" if mark else caption
    placed: list[Html] = []
    y = EDGE
    for strip in (Strip(joined(words_at(head, 0, 15, "caption")), 30), *strips):
        placed.append(element("g", strip.marks, transform=f"translate({EDGE} {y})"))
        y += strip.height
    height = y + EDGE
    marks = joined(*placed)
    return element(
        "svg",
        element("title", head),
        raw("style", _style_for(marks)),
        element("path", class_="paper", d=f"M0 0H{WIDTH}V{height}H0z"),
        marks,
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=height,
        viewBox=f"0 0 {WIDTH} {height}",
    ).text


def save_link(caption: str, mark: str, strips: Iterable[Strip]) -> Html:
    """A link that saves the figure as an SVG file. The file is in the link, so it needs no network and no script."""
    data = base64.b64encode(svg_file(caption, mark, strips).encode()).decode()
    return element(
        "p",
        element(
            "a",
            "Save as SVG",
            href=f"data:image/svg+xml;base64,{data}",
            download=f"{file_name(caption)}.svg",
            aria_label=f"Save as SVG: {caption}",
        ),
        class_="save",
    )


def file_name(caption: str) -> str:
    """A file name from a caption: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", caption.lower())[:_NAME].strip("-") or "figure"


def _style_for(marks: Html) -> str:
    """The rules of the style sheet that the marks need. A rule stands on one line."""
    used = {"caption", "paper", *(name for names in _CLASSES.findall(marks.text) for name in names.split())}
    return "".join(rule for rule, selectors in _rules() if any(classes <= used for classes in selectors))


@cache
def _rules() -> tuple[tuple[str, tuple[frozenset[str], ...]], ...]:
    """The rules, each with the classes of each of its selectors."""
    style = files("agentlearn.html").joinpath("saved_figure.css").read_text(encoding="utf-8")
    return tuple((rule, _selectors(rule.partition("{")[0])) for rule in style.splitlines())


def _selectors(text: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(_NAMED.findall(selector)) for selector in text.split(","))
