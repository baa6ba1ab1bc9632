"""Parts of horizontal charts: the plot of one row, grid lines, and the axis below."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentlearn.html.figure import decimal, finite, fold, signed
from agentlearn.html.markup import Html, element, joined
from agentlearn.html.saved_figure import INNER, Strip, line_of, placed_svg, words_at

MOST_TICKS = 5
"""Number of ticks that fit below a chart on a phone."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps [low, high] to [start, end] in percent. Values outside are moved to the ends."""

    low: float
    high: float
    ticks: tuple[float, ...]
    start: float = 0.0
    end: float = 100.0

    def at(self, value: float) -> float:
        """The position of a value, in percent."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether the value is inside the scale."""
        return self.low <= value <= self.high

    @property
    def digits(self) -> int:
        """Decimals needed to distinguish the ticks."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return next((digits for digits in range(9) if abs(round(step, digits) - step) < step * 1e-6), 9)


def scale_of(
    values: Iterable[float],
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
    least_step: float = 0.0,
    start: float = 0.0,
    end: float = 100.0,
) -> Scale:
    """A scale that contains all finite values and ends at round numbers.

    limits: largest extent of the scale. least_step: smallest distance of two ticks. When all values are equal, the
    scale extends to both sides of them; without values, of 0.
    """
    inside = [min(max(value, limits[0]), limits[1]) for value in values if math.isfinite(value)] or [0.0]
    low, high = min(inside), max(inside)
    if high - low < max(abs(high), abs(low), 1e-9) * 1e-9:
        widen = abs(high) / 2 or 0.5
        low, high = low - widen, high + widen
    step = _round_step(max((high - low) / (MOST_TICKS - 1), least_step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    while last - first + 1 > MOST_TICKS:
        step = _round_step(step * 1.01)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(index * step for index in range(first, last + 1))
    return Scale(low=ticks[0], high=ticks[-1], ticks=ticks, start=start, end=end)


def percent(value: float) -> str:
    """A coordinate in percent with at most two decimals: `12.5%`."""
    return f"{round(value, 2):g}%"


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def row_plot(*marks: Html | None, name: str = "") -> Html:
    """A drawing that fills its table cell, in percent coordinates, so that it fits any width.

    name: description for screen readers; without it they skip the drawing; the next cells hold its values.
    """
    if name:
        return element("svg", *marks, role="img", aria_label=name)
    return element("svg", *marks, aria_hidden="true")


def upright(at: float, kind: str) -> Html:
    """A vertical line over the whole height, at a percentage of the width. kind: its CSS class."""
    x = percent(at)
    return element("line", class_=kind, x1=x, x2=x, y1=0, y2="100%")


def level(start: float, end: float, kind: str, y: str = "50%") -> Html:
    """A horizontal line between two percentages of the width."""
    return element("line", class_=kind, x1=percent(start), x2=percent(end), y1=y, y2=y)


def placed(mark: Html, x: float, y: str = "50%", kind: str | None = None) -> Html:
    """A mark drawn around (0, 0), moved to a percentage of the width and not scaled."""
    return element("svg", mark, x=percent(x), y=y, class_=kind)


def grid(scale: Scale, zero: bool) -> Html:
    """A faint line at every tick, and with `zero` a strong one at 0 if the scale contains it."""
    lines = [upright(scale.at(tick), "grid") for tick in scale.ticks]
    if zero and scale.holds(0.0):
        lines.append(upright(scale.at(0.0), "zero"))
    return element("g", *lines)


def axis(scale: Scale, *, sign: bool) -> Html:
    """The numbers of the ticks, for the row below the plots. sign: show plus and minus."""
    word = signed if sign else decimal
    digits = max(scale.digits, 1)
    numbers = [element("text", word(tick, digits), x=percent(scale.at(tick)), y=14) for tick in scale.ticks]
    return element("svg", *numbers, class_="axis", aria_hidden="true")


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
