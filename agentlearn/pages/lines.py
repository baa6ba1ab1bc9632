"""Line charts of values with intervals. Series differ by shape and dash, not by colour alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

from pydantic import Field

from agentlearn.pages.charts import Picture, Scale, percent, placed, scale_of, words_at
from agentlearn.pages.figure import (
    DASH,
    Html,
    Tone,
    clipped,
    decimal,
    element,
    figure,
    finite,
    fold,
    interval,
    joined,
    named,
    shape,
)
from agentlearn.pages.table import Column, Table, TableCell
from agentlearn.types.value import Value


class Point(Value):
    """A value with its interval at one step."""

    x: float = Field(allow_inf_nan=False)
    y: float | None
    low: float | None = None
    high: float | None = None
    label: str = ""
    """Name of the point for the table below, such as a version."""


class Series(Value):
    """The points of one line."""

    label: str
    points: tuple[Point, ...]
    connected: bool = True
    """Whether a line connects the points. False for points that stand for themselves, such as chosen ones."""

    def html(self, number: int, aside: float, plane: "_Plane") -> Html:
        measured = [(point, y) for point in self.points if (y := finite(point.y)) is not None]
        measured.sort(key=lambda pair: pair[0].x)
        places = [(percent(plane.across.at(point.x)), percent(plane.up.at(y))) for point, y in measured]
        strokes = [
            element("line", class_="stroke", x1=one[0], x2=other[0], y1=one[1], y2=other[1])
            for one, other in pairwise(places if self.connected else [])
        ]
        markers: list[Html] = []
        for point, y in measured:
            words = " ".join(filter(None, (point.label, decimal(point.y), interval(point.low, point.high))))
            marker = _marker(number, element("title", f"{self.label}: {words}"))
            markers.append(placed(marker, plane.across.at(point.x), percent(plane.up.at(y))))
        whiskers = [plane.whisker(point) for point, _ in measured]
        return element("g", *strokes, *whiskers, *markers, class_=_kind(number), transform=f"translate({aside} 0)")

    def sample(self, number: int) -> Html:
        """What the legend shows of the line."""
        stroke = element("line", class_="stroke", x1=-12, x2=12, y1=0, y2=0) if self.connected else None
        return element("g", stroke, _marker(number), class_=_kind(number))


class LineChart(Value):
    """A chart of one or more series."""

    caption: str
    x_name: str
    y_name: str
    series: tuple[Series, ...]
    note: str = ""

    def html(self, mark: str) -> Html:
        """The part as HTML: the drawing, its legend, and a folded table of the values."""
        points = [point for series in self.series for point in series.points]
        legend = [
            element(
                "li",
                element("svg", one.sample(n), class_="glyph wide", viewBox="-14 -8 28 16", aria_hidden="true"),
                element("bdi", one.label),
            )
            for n, one in enumerate(self.series)
        ]
        columns = [Column(name="series"), Column(name=self.x_name, kind="number"), Column(name="point")]
        columns.append(Column(name=self.y_name, kind="number"))
        rows = [
            (
                TableCell(text=series.label),
                TableCell(text=f"{point.x:g}", value=point.x),
                TableCell(text=point.label or DASH),
                TableCell(text=decimal(point.y), sub=interval(point.low, point.high), value=point.y),
            )
            for series in self.series
            for point in series.points
        ]
        if not any(point.label for point in points):
            columns.pop(2)
            rows = [(*row[:2], row[3]) for row in rows]
        content = joined(
            _framed(self._plane(), self, mark),
            element("ul", *legend, class_="legend") if len(legend) > 1 else None,
            _folded(self, tuple(columns), tuple(rows), mark),
        )
        return figure("chart lines", self.caption, content, mark=mark, note=self.note)

    def picture(self) -> Picture:
        """The drawing with the names of its axes and its legend."""
        legend = [
            joined(
                element("svg", one.sample(n), x=14, y=8 + _LEGEND * n, overflow="visible"),
                words_at(one.label, 36, 12 + _LEGEND * n, "strong", most=90),
            )
            for n, one in enumerate(self.series)
        ]
        return _with_names(self._plane(), self, legend if len(legend) > 1 else [])

    def _plane(self) -> Html:
        points = [point for series in self.series for point in series.points]
        plane = _Plane.of([point.x for point in points], points)
        # Lines are moved aside, which keeps their intervals apart. Points without a line stay.
        lines = [n for n, one in enumerate(self.series) if one.connected]
        asides = [round((place - (len(lines) - 1) / 2) * 5, 1) for place in range(len(lines))]
        moved = dict(zip(lines, asides, strict=True))
        return plane.drawn(joined(*(one.html(n, moved.get(n, 0.0), plane) for n, one in enumerate(self.series))))


_SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-4-4h8v8h-8z", "M0-5.5L5.5 4.5H-5.5z", "M0-5.5L5.5 0L0 5.5L-5.5 0z")
_KINDS = 8
"""Number of series that look different: four shapes, full or hollow."""


@dataclass(frozen=True, slots=True)
class _Plane:
    """A drawing as wide as the page, with both scales."""

    across: Scale
    """The numbers of the other axis are left of its start. Whole numbers get whole ticks."""
    up: Scale
    """From the bottom up; the numbers of the other axis are below it."""

    @classmethod
    def of(cls, x: Sequence[float], points: "Sequence[Point | ScatterPoint]") -> Self:
        """The plane for points at these places."""
        steps = all(float(value).is_integer() for value in x)
        y = [value for one in points for end in (one.y, one.low, one.high) if (value := finite(end)) is not None]
        return cls(
            scale_of(x, least_step=1.0 if steps else 0.0, start=11.0, end=92.0), scale_of(y, start=86.0, end=6.0)
        )

    def drawn(self, drawing: Html) -> Html:
        """The drawing in front of the grid, with the numbers of both axes."""
        levels = [
            joined(
                element("line", class_="grid", x1=0, x2="100%", y1=(y := percent(self.up.at(tick))), y2=y),
                element("text", decimal(tick, max(self.up.digits, 1)), class_="y", x=0, y=y, dy=-4),
            )
            for tick in self.up.ticks
        ]
        steps = [
            element("text", decimal(tick, self.across.digits), class_="x", x=percent(self.across.at(tick)), y="97%")
            for tick in self.across.ticks
        ]
        return joined(element("g", *levels, *steps), drawing)

    def whisker(self, point: "Point | ScatterPoint") -> Html | None:
        """The interval of a point as a vertical line; None when an end is missing."""
        low, high = finite(point.low), finite(point.high)
        if low is None or high is None:
            return None
        at, y1, y2 = (percent(one) for one in (self.across.at(point.x), self.up.at(low), self.up.at(high)))
        return element("line", class_="whisker", x1=at, x2=at, y1=y1, y2=y2)


def _framed(plane: Html, part: "LineChart | Scatter", mark: str) -> Html:
    """The drawing of a page, between the names of its axes."""
    name = f"{named(part.caption, mark)}: {part.y_name} by {part.x_name}. A table of the values follows."
    return joined(
        element("p", element("bdi", part.y_name), class_="y-name", aria_hidden="true"),
        element("svg", plane, class_="plane", role="img", aria_label=name),
        element("p", element("bdi", part.x_name), class_="x-name", aria_hidden="true"),
    )


def _with_names(plane: Html, part: "LineChart | Scatter", legend: Sequence[Html]) -> Picture:
    """The drawing of a file, between the names of its axes and above its legend."""
    content = joined(
        words_at(part.y_name, 0, 12, most=60),
        element("svg", plane, y=_LEGEND, width="100%", height=HEIGHT, overflow="visible"),
        words_at(part.x_name, "100%", HEIGHT + 2 * _LEGEND, anchor="end", most=60),
        element("svg", *legend, y=HEIGHT + 2 * _LEGEND, width="100%", overflow="visible"),
    )
    return Picture(content, HEIGHT + (2 + len(legend)) * _LEGEND)


def _kind(number: int) -> str:
    return f"series s{number % _KINDS}"


def _marker(number: int, title: Html | None = None) -> Html:
    return element("path", title, class_="shape", d=_SHAPES[number % len(_SHAPES)])


class ScatterPoint(Value):
    """A labelled point."""

    label: str
    x: float = Field(allow_inf_nan=False)
    x_words: str
    """The x value as text, such as `$0.0042`."""
    y: float = Field(allow_inf_nan=False)
    low: float | None = None
    high: float | None = None
    tone: Tone = "plain"

    def html(self, x: float, y: float, label: "_Label | None") -> Html:
        words = f"{self.label}: {decimal(self.y)} {interval(self.low, self.high)} at {self.x_words}"
        mark = element("g", element("title", words), shape(self.tone), class_=self.tone)
        leader = text = None
        if label is not None:
            text = element("text", label.words, class_="label", dx=label.dx, dy=label.dy, text_anchor=label.anchor)
            if abs(label.dy) > 20:
                leader = element("line", class_="leader", x1=0, y1=0, x2=label.dx, y2=round(label.dy - 4, 1))
        return placed(joined(leader, mark, text), x, percent(y), "marker")


class Scatter(Value):
    """A chart of labelled points; the x axis starts at 0."""

    caption: str
    x_name: str
    y_name: str
    points: tuple[ScatterPoint, ...]
    note: str = ""

    def html(self, mark: str) -> Html:
        """The part as HTML: the drawing, and a folded table of the values."""
        columns = (
            Column(name="point"),
            Column(name=self.x_name, kind="number"),
            Column(name=self.y_name, kind="number"),
        )
        rows = tuple(
            (
                TableCell(text=point.label),
                TableCell(text=point.x_words, value=point.x),
                TableCell(text=decimal(point.y), sub=interval(point.low, point.high), value=point.y),
            )
            for point in self.points
        )
        content = joined(_framed(self._plane(), self, mark), _folded(self, columns, rows, mark))
        return figure("chart scatter", self.caption, content, mark=mark, note=self.note)

    def picture(self) -> Picture:
        """The drawing with the names of its axes."""
        return _with_names(self._plane(), self, [])

    def _plane(self) -> Html:
        plane = _Plane.of([0.0, *(point.x for point in self.points)], self.points)
        places = [(plane.across.at(point.x), plane.up.at(point.y)) for point in self.points]
        labels = labelled([point.label for point in self.points], places)
        return plane.drawn(
            joined(
                *(plane.whisker(point) for point in self.points),
                *(point.html(*place, label) for point, place, label in zip(self.points, places, labels, strict=True)),
            )
        )


HEIGHT, _LEGEND = 300, 20
"""Heights of the drawing and of a line of its legend, in pixels; it is as wide as the page."""
NARROWEST = 300
"""Width in pixels for which labels are placed. Labels that do not overlap here do not overlap on a wider page."""
NUMBERS = 33
"""Width in pixels of the tick numbers at the left."""
_LETTER, _LINE = 7.4, 15
"""Largest width and height of a letter of a label, in pixels."""
_LONGEST = 20
"""Largest number of letters of a label in the drawing; the table has the whole label."""
_Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""


_AROUND = ((10, 4), (10, -10), (10, 18), (10, -24), (10, 32), (10, -38), (-6, -12), (-6, 22))
"""Distances of a label right of its point, in the order in which they are tried."""
_SIDES: tuple[tuple[int, Literal["start", "end"]], ...] = ((1, "start"), (-1, "end"))


@dataclass(frozen=True, slots=True)
class _Label:
    """A label and its distance from its point, in pixels."""

    words: str
    dx: float
    dy: float
    anchor: Literal["start", "end"]

    def box(self, x: float, y: float) -> _Box:
        """Left, top, right and bottom of the label in pixels, for a point at (x, y)."""
        width = len(self.words) * _LETTER
        left = x + self.dx - (width if self.anchor == "end" else 0)
        return left, y + self.dy - _LINE * 0.75, left + width, y + self.dy + _LINE * 0.25


def one_line_chart(
    caption: str, label: str, points: Iterable[Point], names: tuple[str, str], note: str = "", *, connected: bool = True
) -> LineChart:
    """A chart of one series. names: of its axes."""
    series = Series(label=label, points=tuple(points), connected=connected)
    return LineChart(caption=caption, x_name=names[0], y_name=names[1], series=(series,), note=note)


def _folded(
    part: LineChart | Scatter, columns: tuple[Column, ...], rows: tuple[tuple[TableCell, ...], ...], mark: str
) -> Html:
    """The values of a chart as a folded table."""
    values = Table(caption=f"{part.caption}, as a table", columns=columns, rows=rows)
    return fold("The values as a table", values.html(mark))


def labelled(names: list[str], places: list[tuple[float, float]]) -> list[_Label | None]:
    """A label for each point, so that no label overlaps another, covers a point or leaves the drawing.

    places: the points in percent. A label without room is None. Labels are placed greedily in the given order: right of
    the point, then left, then further away.
    """
    dots = [(x / 100 * NARROWEST, y / 100 * HEIGHT) for x, y in places]
    taken = [(x, (x - 6, y - 6, x + 6, y + 6)) for x, y in dots]
    labels: list[_Label | None] = []
    for (x, y), name, own in zip(dots, names, list(taken), strict=True):
        others = [one for one in taken if one != own]
        words = clipped(name, _LONGEST)
        candidates = (_Label(words, dx * side, dy, anchor) for dx, dy in _AROUND for side, anchor in _SIDES)
        label = next((one for one in candidates if _free(x, one.box(x, y), others)), None)
        labels.append(label)
        if label is not None:
            taken.append((x, label.box(x, y)))
    return labels


def _free(x: float, box: _Box, others: list[tuple[float, _Box]]) -> bool:
    """Whether the box of the point at x overlaps no other, on the narrowest page and on every wider one.

    On a wider page two points move apart. Boxes that lie in the order of their points move apart with them; others
    would cross.
    """
    left, top, right, bottom = box
    if left < NUMBERS or right > NARROWEST or top < 0 or bottom > HEIGHT * 0.9:
        return False
    return all(
        bottom <= one[1] or top >= one[3] or (right <= one[0] and x <= at) or (left >= one[2] and x >= at)
        for at, one in others
    )
