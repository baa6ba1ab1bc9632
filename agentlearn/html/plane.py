"""The frame of charts with two axes: grid lines, tick numbers, axis names, and a folded table."""

from collections.abc import Sequence

from agentlearn.html.figure import fold
from agentlearn.html.markup import Html, element, joined
from agentlearn.html.number_format import decimal, finite
from agentlearn.html.saved_figure import INNER, Strip, line_of, placed_svg, words_at
from agentlearn.html.scale import Scale, percent, scale_of

_HEIGHT = 300
"""Height of the drawing in pixels, as in the style sheet."""


def across_of(values: Sequence[float]) -> Scale:
    """The horizontal scale; the numbers of the other axis are left of its start. Whole numbers get whole ticks."""
    steps = all(float(value).is_integer() for value in values)
    return scale_of(values, least_step=1.0 if steps else 0.0, start=11.0, end=92.0)


def up_of(values: Sequence[float | None]) -> Scale:
    """The vertical scale, from the bottom up; the numbers of the other axis are below it."""
    return scale_of([value for one in values if (value := finite(one)) is not None], start=86.0, end=6.0)


def plane(drawing: Html, across: Scale, up: Scale, *, name: str, x_name: str, y_name: str) -> Html:
    """A drawing in a frame with both scales, as wide as the page. name: its description for screen readers."""
    picture = element("svg", _frame(across, up), drawing, class_="plane", role="img", aria_label=name)
    return joined(
        element("p", element("bdi", y_name), class_="y-name", aria_hidden="true"),
        picture,
        element("p", element("bdi", x_name), class_="x-name", aria_hidden="true"),
    )


def saved_plane(drawing: Html, across: Scale, up: Scale, *, x_name: str, y_name: str) -> list[Strip]:
    """The same drawing in its frame, for the file that a figure is saved as."""
    picture = placed_svg([_frame(across, up), drawing], 0, 0, INNER, _HEIGHT)
    return [
        line_of(y_name),
        Strip(picture, _HEIGHT),
        Strip(joined(words_at(x_name, INNER / 2, 14, anchor="middle")), 24),
    ]


def whisker(x: float, low: float | None, high: float | None, across: Scale, up: Scale) -> Html | None:
    """An interval as a vertical line; None when an end is missing."""
    low, high = finite(low), finite(high)
    if low is None or high is None:
        return None
    at = percent(across.at(x))
    return element("line", class_="whisker", x1=at, x2=at, y1=percent(up.at(low)), y2=percent(up.at(high)))


def values_fold(table: Html) -> Html:
    """The values of a chart as a folded table."""
    return fold("The values as a table", table)


def _frame(across: Scale, up: Scale) -> Html:
    levels = [
        joined(
            element("line", class_="grid", x1=0, x2="100%", y1=percent(up.at(tick)), y2=percent(up.at(tick))),
            element("text", decimal(tick, max(up.digits, 1)), class_="y", x=0, y=percent(up.at(tick)), dy=-4),
        )
        for tick in up.ticks
    ]
    steps = [
        element("text", decimal(tick, across.digits), class_="x", x=percent(across.at(tick)), y="97%")
        for tick in across.ticks
    ]
    return element("g", *levels, *steps)
