"""Charts in rows: bars, scores before and after, and estimates with their intervals; and the scales of all charts."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import Field

from agentlearn.pages.figure import (
    Html,
    Tone,
    clipped,
    decimal,
    element,
    figure,
    finite,
    fold,
    glyph,
    interval,
    joined,
    named,
    shape,
    shown,
    signed,
    small,
)
from agentlearn.types.value import Value

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

    def grid(self, *, zero: bool) -> Html:
        """A faint line at every tick, and with `zero` a strong one at 0 if the scale contains it."""
        lines = [_upright(self.at(tick), "grid") for tick in self.ticks]
        return element("g", *lines, _upright(self.at(0.0), "zero") if zero and self.holds(0.0) else None)

    def axis(self, *, sign: bool) -> Html:
        """The numbers of the ticks, for the row below the plots. sign: show plus and minus."""
        word, digits = signed if sign else decimal, max(self.digits, 1)
        numbers = [element("text", word(tick, digits), x=percent(self.at(tick)), y=14) for tick in self.ticks]
        return element("svg", *numbers, class_="axis", overflow="visible", aria_hidden="true")


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
    while True:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first + 1 <= MOST_TICKS:
            break
        step = _round_step(step * 1.01)
    ticks = tuple(index * step for index in range(first, last + 1))
    return Scale(low=ticks[0], high=ticks[-1], ticks=ticks, start=start, end=end)


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))


def percent(value: float) -> str:
    """A coordinate in percent with at most two decimals: `12.5%`."""
    return f"{round(value, 2):g}%"


def placed(mark: Html, x: float, y: str = "50%", kind: str | None = None) -> Html:
    """A mark drawn around (0, 0), moved to a percentage of the width and not scaled."""
    return element("svg", mark, x=percent(x), y=y, class_=kind, overflow="visible")


def _upright(at: float, kind: str) -> Html:
    """A vertical line over the whole height, at a percentage of the width. kind: its CSS class."""
    return element("line", class_=kind, x1=percent(at), x2=percent(at), y1=0, y2="100%")


def _level(start: float, end: float, kind: str, y: str = "50%") -> Html:
    """A horizontal line between two percentages of the width."""
    return element("line", class_=kind, x1=percent(start), x2=percent(end), y1=y, y2=y)


class Picture(NamedTuple):
    """A drawing as wide as its place, and its height in pixels."""

    content: Html
    height: int


def _rows_drawn(rows: Sequence[Sequence[Html | None]], height: int, axis: Html) -> Picture:
    """Rows of a drawing below each other, each `height` pixels high, with an axis under them."""
    drawn = [element("svg", *row, y=n * height, width="100%", height=height, overflow="visible")
             for n, row in enumerate(rows)]  # fmt: skip
    below = element("svg", axis, x="30%", y=len(rows) * height, width="40%", height=20, overflow="visible")
    return Picture(joined(*drawn, below), len(rows) * height + 24)


def _plotted(*marks: Html | None) -> Html:
    """The plot in the middle of a row of a drawing."""
    return element("svg", *marks, x="30%", width="40%", height="100%", overflow="visible")


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

    def html(self, mark: str) -> Html:
        """The part as HTML: one drawing. The name and the number of a bar stand above it, so that it fits a phone."""
        spoken = [f"{one.label}: {', '.join(f'{bar.label} {bar.words}' for bar in one.bars)}" for one in self.groups]
        name = f"{named(self.caption, mark)}. {'; '.join(spoken)}"
        drawing, height = self.picture()
        picture = element("svg", drawing, class_="bars", height=height, role="img", aria_label=name)
        return figure("chart bars", self.caption, picture, mark=mark, note=self.note)

    def picture(self) -> Picture:
        """The drawing alone."""
        drawn: list[Html | None] = []
        y = 0
        for group in self.groups:
            drawn.append(words_at(group.label, 0, y + 20, "strong", most=60))
            y += _HEAD
            longest = max((value for bar in group.bars if (value := finite(bar.value)) is not None), default=0.0)
            for bar in group.bars:
                share = 100 * value / longest if (value := finite(bar.value)) is not None and longest > 0 else 0.0
                drawn += [
                    words_at(bar.label, 0, y + 12, most=32),
                    words_at(bar.words, "100%", y + 12, "strong", anchor="end", most=20),
                    _level(0, 100, "track", f"{y + 22}"),
                    _level(0, share, "bar", f"{y + 22}") if share > 0 else None,
                ]
                y += _ROW
        return Picture(joined(*drawn), y)


_ROW, _HEAD = 36, 32
"""Height in pixels of a bar with its name, and of the heading of a group."""


def words_at(
    words: str, x: float | str, y: float, kind: str = "", *, anchor: str | None = None, most: int
) -> Html | None:
    """A line of text in a drawing; None for an empty one.

    x, y: the start of its base line. most: characters that are shown.
    """
    if not words:
        return None
    text = clipped(" ".join(shown(words).split()), most)
    return element("text", text, class_=kind or None, x=x or None, y=y, text_anchor=anchor)


class DumbbellRow(Value):
    """A task (or another unit) with its score before and after."""

    label: str
    sub: str = ""
    """A second line under the label; folded rows do not show it."""
    before: float = Field(allow_inf_nan=False)
    after: float = Field(allow_inf_nan=False)

    @property
    def difference(self) -> float:
        """After minus before; exactly 0 when they differ only by rounding."""
        change = self.after - self.before
        return change if abs(change) > 1e-9 else 0.0


class Dumbbell(Value):
    """A chart of scores before and after. The renderer sorts the rows."""

    caption: str
    before: str
    """Meaning of the hollow dot."""
    after: str
    """Meaning of the full dot."""
    rows: tuple[DumbbellRow, ...]
    row_name: str = "task"
    shown: int = Field(default=10, ge=1)
    """Half of the number of rows that are not folded: the largest gains and losses, in proportion to their numbers."""

    def html(self, mark: str) -> Html:
        """The part as HTML: a table of the changed rows, largest gain first, and the names of the others."""
        scale = scale_of(
            [end for row in self.rows for end in (row.before, row.after)] or [0.0, 1.0], start=3.0, end=97.0
        )
        changed = sorted((row for row in self.rows if row.difference), key=lambda row: (-row.difference, row.label))
        same = [row for row in self.rows if not row.difference]
        gains, losses = sum(row.difference > 0 for row in changed), sum(row.difference < 0 for row in changed)
        first, last = len(changed), 0
        if len(changed) - 2 * self.shown > 3:
            # Gains and losses in proportion, so that the picture does not show few of one as if they were as many as
            # the other. Three rows or fewer are not worth a fold.
            first = min(gains, max(int(gains > 0), round(2 * self.shown * gains / len(changed))))
            last = min(losses, max(int(losses > 0), 2 * self.shown - first))
        head, middle, tail = changed[:first], changed[first : len(changed) - last], changed[len(changed) - last :]
        name, plural = named(self.caption, mark), f"{self.row_name}s"
        if len(self.rows) == 1:
            plural = self.row_name
        elif self.row_name.endswith("y"):
            plural = f"{self.row_name[:-1]}ies"
        summary = (
            f"Of {len(self.rows)} {plural}, {self.after} scores higher than {self.before} on {gains}, "
            f"lower on {losses}, the same on {len(same)}."
        )
        folded = self._table(middle, scale, f"{name}, continued", whole=False) if middle else None
        names = [joined(element("bdi", clipped(row.label, 60)), f" {decimal(row.before)}") for row in same]
        content = joined(
            element("p", summary, class_="prose"),
            self._key() if changed else None,
            self._table(head, scale, name, whole=True) if head else None,
            fold(f"{len(middle)} more with smaller differences", folded) if folded else None,
            self._table(tail, scale, f"{name}, largest losses", whole=True) if tail else None,
            fold(
                f"{len(same)} with no difference", element("ul", *(element("li", one) for one in names), class_="names")
            )
            if same
            else None,
        )
        return figure("chart dumbbell", self.caption, content, mark=mark)

    def _key(self) -> Html:
        dots = [
            element(
                "li",
                element(
                    "svg",
                    element("circle", class_=kind, cx=8, cy=8, r=5),
                    class_="glyph",
                    viewBox="0 0 16 16",
                    aria_hidden="true",
                ),
                element("bdi", words),
            )
            for kind, words in (("from", self.before), ("to", self.after))
        ]
        return element("ul", *dots, class_="legend")

    def _table(self, rows: list[DumbbellRow], scale: Scale, name: str, *, whole: bool) -> Html:
        """whole: with the second lines of labels, and with a grid; folded lists have none, to keep the file small."""
        head = element(
            "tr",
            element("th", self.row_name, scope="col"),
            element("th", scale.axis(sign=False), scope="col", class_="plot", aria_label="scores"),
            element("th", "scores", scope="col"),
            element("th", "difference", scope="col"),
        )
        body: list[Html] = []
        for row in rows:
            start, end = scale.at(row.before), scale.at(row.after)
            plot = element(
                "svg",
                scale.grid(zero=False) if whole else None,
                _level(start, end, "up" if row.difference > 0 else "down"),
                element("circle", class_="from", cx=percent(start), cy="50%", r=5),
                element("circle", class_="to", cx=percent(end), cy="50%", r=5),
                aria_hidden="true",
            )
            cells = (
                element("th", element("bdi", row.label), small(row.sub) if whole else None, scope="row"),
                element("td", plot, class_="plot"),
                element("td", f"{decimal(row.before)} → {decimal(row.after)}"),
                element("td", signed(row.difference)),
            )
            body.append(element("tr", *cells))
        return element("table", element("thead", head), element("tbody", *body), aria_label=name)


class ForestRow(Value):
    """One estimate."""

    label: str
    sub: str = ""
    mean: float | None
    low: float | None = None
    high: float | None = None
    margin: float | None = Field(default=None, ge=0)
    """Non-inferiority margin, drawn at minus its value: an interval above that line is not worse."""
    tone: Tone = "plain"
    words: str = ""
    """The verdict, or the reason why there is none."""

    def marks(self, scale: Scale) -> list[Html]:
        """The margin, the interval and the estimate, as far as they are known."""
        mean, marks = finite(self.mean), list[Html]()
        if self.margin is not None:
            marks.append(_upright(scale.at(-self.margin), "margin"))
        if self.low is not None and self.high is not None and not math.isnan(self.low) and not math.isnan(self.high):
            # an end outside the scale is an arrow, any other a cap
            start, end = scale.at(self.low), scale.at(self.high)
            left, right = (
                "M0-5V5" if scale.holds(value) else arrow
                for value, arrow in ((self.low, "M5-5L0 0L5 5"), (self.high, "M-5-5L0 0L-5 5"))
            )
            marks.append(_level(start, end, "whisker"))
            marks += [placed(element("path", class_="cap", d=d), at) for d, at in ((left, start), (right, end))]
        if mean is not None:
            marks.append(placed(shape(self.tone), scale.at(mean), kind="marker"))
        return marks

    def html(self, scale: Scale, verdicts: bool) -> Html:
        spoken = f"{self.label}: no estimate"
        if finite(self.mean) is not None:
            ends = (
                "" if self.low is None or self.high is None else f", interval {signed(self.low)} to {signed(self.high)}"
            )
            margin = "" if self.margin is None else f", margin {signed(-self.margin)}"
            spoken = f"{self.label}: {signed(self.mean)}{ends}{margin}{f', {self.words}' if self.words else ''}"
        plot = element("svg", scale.grid(zero=True), *self.marks(scale), role="img", aria_label=spoken)
        return element(
            "tr",
            element("th", element("bdi", self.label), small(self.sub), scope="row"),
            element("td", plot, class_="plot"),
            element(
                "td", element("b", signed(self.mean)), small(interval(self.low, self.high, sign=True)), class_="num"
            ),
            element("td", glyph(self.tone), element("bdi", self.words), class_="verdict") if verdicts else None,
            class_=self.tone,
        )


class Forest(Value):
    """A chart of estimates, one row each, on one scale."""

    caption: str
    rows: tuple[ForestRow, ...]
    row_name: str = "arm"
    """Heading of the labels."""
    words_name: str = "verdict"
    """Heading of the verdicts."""
    left: str = ""
    """Meaning of the side left of zero, such as `none is better`."""
    right: str = ""
    """Meaning of the side right of zero."""
    limits: tuple[float, float] = (-math.inf, math.inf)
    """Largest extent of the scale; an interval that goes beyond it ends in an arrow."""
    note: str = ""

    def html(self, mark: str) -> Html:
        """The part as HTML: a table with a drawing in its second column."""
        scale = self._scale()
        verdicts = any(row.words for row in self.rows)
        sides = element(
            "div",
            element("span", f"← {self.left}" if self.left else ""),
            element("span", f"{self.right} →" if self.right else ""),
            class_="sides",
        )
        head = element(
            "tr",
            element("th", self.row_name, scope="col"),
            element("th", sides if self.left or self.right else None, scope="col", class_="plot"),
            element("th", "difference", scope="col", class_="num"),
            element("th", self.words_name, scope="col") if verdicts else None,
        )
        rows = [row.html(scale, verdicts) for row in self.rows]
        foot = element(
            "tr",
            element("td"),
            element("td", scale.axis(sign=True), class_="plot"),
            element("td"),
            element("td") if verdicts else None,
            aria_hidden="true",
        )
        content = element(
            "table",
            element("thead", head),
            element("tbody", *rows),
            element("tfoot", foot),
            aria_label=named(self.caption, mark),
        )
        margins = sorted({row.margin for row in self.rows if row.margin is not None})
        drawn = ", ".join(signed(-margin, 3).rstrip("0") for margin in margins)
        note = " ".join(filter(None, (self.note, f"The dashed line is the margin, {drawn}." if margins else "")))
        return figure("chart forest", self.caption, content, mark=mark, note=note)

    def picture(self) -> Picture:
        """The rows as a drawing."""
        scale, rows = self._scale(), list[list[Html | None]]()
        if self.left or self.right:
            sides = (f"← {self.left}", "30%", "start"), (f"{self.right} →", "70%", "end")
            rows.append([words_at(words, x, 24, anchor=anchor, most=40) for words, x, anchor in sides])
        for row in self.rows:
            plot = element("g", _plotted(scale.grid(zero=True), *row.marks(scale)), class_=row.tone)
            between = interval(row.low, row.high, sign=True)
            rows.append([
                words_at(row.label, 0, 16, "strong", most=32), words_at(row.sub, 0, 31, most=36), plot,
                words_at(signed(row.mean), "72%", 16, "strong", most=12), words_at(between, "72%", 31, most=24),
                words_at(row.words, "100%", 24, "strong", anchor="end", most=22),
            ])  # fmt: skip
        return _rows_drawn(rows, 40, scale.axis(sign=True))

    def _scale(self) -> Scale:
        ends = [end for row in self.rows for end in (row.mean, row.low, row.high) if end is not None]
        margins = [-row.margin for row in self.rows if row.margin is not None]
        return scale_of([0.0, *ends, *margins], limits=self.limits, start=4.0, end=96.0)
