"""Bar charts: a few groups of named numbers, each group with its own scale from 0."""

from pydantic import Field

from agentlearn.html.axis import level
from agentlearn.html.figure import figure, named
from agentlearn.html.markup import Html, element, joined
from agentlearn.html.number_format import finite
from agentlearn.html.saved_figure import INNER, Strip, placed_svg, words_at
from agentlearn.types.value import Value


class Bar(Value):
    """A number with its name."""

    label: str
    value: float | None = Field(default=None, ge=0)
    """Length of the bar; None when it is not known."""
    words: str
    """The number as text, such as `12.3k`."""


class BarGroup(Value):
    """Bars on one scale."""

    label: str
    bars: tuple[Bar, ...]


class Bars(Value):
    """A chart of groups of bars. The longest bar of a group takes the whole width."""

    caption: str
    groups: tuple[BarGroup, ...]
    note: str = ""


_ROW, _HEAD = 36, 32
"""Height in pixels of a bar with its name, and of the heading of a group."""


def bar_chart(part: Bars, mark: str) -> Html:
    """`Bars` as HTML: one drawing. The name and the number of a bar stand above it, so that it fits a phone."""
    height = sum(_HEAD + _ROW * len(group.bars) for group in part.groups)
    spoken = "; ".join(f"{group.label}: {', '.join(map(_spoken, group.bars))}" for group in part.groups)
    picture = element(
        "svg",
        *_drawn(part.groups),
        class_="bars",
        height=height,
        role="img",
        aria_label=f"{named(part.caption, mark)}. {spoken}",
    )
    strip = Strip(placed_svg(_drawn(part.groups), 0, 0, INNER, height), height)
    return figure("chart bars", part.caption, picture, mark=mark, note=part.note, saved=[strip])


def _spoken(bar: Bar) -> str:
    return f"{bar.label} {bar.words}"


def _drawn(groups: tuple[BarGroup, ...]) -> list[Html]:
    drawn: list[Html] = []
    y = 0
    for group in groups:
        drawn.append(joined(words_at(group.label, 0, y + 20, "strong", most=60)))
        y += _HEAD
        longest = max((value for bar in group.bars if (value := finite(bar.value)) is not None), default=0.0)
        for bar in group.bars:
            drawn.append(_bar(bar, longest, y))
            y += _ROW
    return drawn


def _bar(bar: Bar, longest: float, y: int) -> Html:
    value = finite(bar.value)
    share = 100 * value / longest if value is not None and longest > 0 else 0.0
    at = f"{y + 22}"
    return joined(
        words_at(bar.label, 0, y + 12, most=32),
        words_at(bar.words, "100%", y + 12, "strong", anchor="end", most=20),
        level(0, 100, "track", at),
        level(0, share, "bar", at) if share > 0 else None,
    )
