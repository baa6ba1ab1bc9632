"""What horizontal charts share: the plot of one row as wide as its column, grid lines, and the axis beneath."""

from agentlearn.html.markup import Html, element
from agentlearn.html.number_format import decimal, signed
from agentlearn.html.scale import Scale, percent


def row_plot(*marks: Html | None, name: str = "") -> Html:
    """A drawing that fills its cell. Coordinates are percents, so that nothing is distorted at any width.

    name: what it shows, for those who do not see it; without one it is decoration beside numbers that say the same.
    """
    if name:
        return element("svg", *marks, role="img", aria_label=name)
    return element("svg", *marks, aria_hidden="true")


def upright(at: float, kind: str) -> Html:
    """A line over the whole height at a percentage of the width; `kind` is its CSS class."""
    x = percent(at)
    return element("line", class_=kind, x1=x, x2=x, y1=0, y2="100%")


def level(start: float, end: float, kind: str, y: str = "50%") -> Html:
    """A horizontal line between two percentages of the width."""
    return element("line", class_=kind, x1=percent(start), x2=percent(end), y1=y, y2=y)


def placed(mark: Html, x: float, y: str = "50%", kind: str | None = None) -> Html:
    """A mark drawn around (0, 0), put at a percentage of the width without scaling it."""
    return element("svg", mark, x=percent(x), y=y, overflow="visible", class_=kind)


def grid(scale: Scale, zero: bool) -> Html:
    """A faint line at every tick; a strong one at 0 when it is asked for and in the scale."""
    lines = [upright(scale.at(tick), "grid") for tick in scale.ticks]
    if zero and scale.holds(0.0):
        lines.append(upright(scale.at(0.0), "zero"))
    return element("g", *lines)


def axis(scale: Scale, *, sign: bool) -> Html:
    """The ticks' numbers, for the row beneath the plots."""
    word = signed if sign else decimal
    digits = max(scale.digits, 1)
    numbers = [element("text", word(tick, digits), x=percent(scale.at(tick)), y=14) for tick in scale.ticks]
    return element("svg", *numbers, class_="axis", aria_hidden="true")
