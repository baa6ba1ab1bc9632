"""Parts of horizontal charts: the plot of one row, grid lines, and the axis below."""

from agentlearn.html.markup import Html, element
from agentlearn.html.number_format import decimal, signed
from agentlearn.html.scale import Scale, percent


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
