"""Line charts of values with intervals. Series differ by shape and dash, not by colour alone."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pydantic import Field

from agentlearn.html.axis import Scale, across_of, percent, placed, plane, saved_plane, up_of, values_fold, whisker
from agentlearn.html.figure import DASH, Tone, decimal, figure, finite, interval, named, shape
from agentlearn.html.markup import Html, clipped, element, joined
from agentlearn.html.saved_figure import legend_strips
from agentlearn.html.table import Column, Table, TableCell, table
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


class LineChart(Value):
    """A chart of one or more series."""

    caption: str
    x_name: str
    y_name: str
    series: tuple[Series, ...]
    note: str = ""


_SHAPES = ("M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "M-4-4h8v8h-8z", "M0-5.5L5.5 4.5H-5.5z", "M0-5.5L5.5 0L0 5.5L-5.5 0z")
KINDS = 8
"""Number of series that look different: four shapes, full or hollow."""


def line_chart(part: LineChart, mark: str) -> Html:
    """A `LineChart` as HTML: the drawing, its legend, and a folded table of the values."""
    points = [point for series in part.series for point in series.points]
    across = across_of([point.x for point in points])
    up = up_of([end for point in points for end in (point.y, point.low, point.high)])
    asides = _asides(part.series)
    drawing = joined(*(_series(one, n, asides[n], across, up) for n, one in enumerate(part.series)))
    name = f"{named(part.caption, mark)}: {part.y_name} by {part.x_name}. A table of the values follows."
    content = joined(
        plane(drawing, across, up, name=name, x_name=part.x_name, y_name=part.y_name),
        _key(part.series) if len(part.series) > 1 else None,
        values_fold(table(_as_table(part), mark)),
    )
    saved = saved_plane(drawing, across, up, x_name=part.x_name, y_name=part.y_name)
    if len(part.series) > 1:
        saved += legend_strips([(_sample(n, one), one.label) for n, one in enumerate(part.series)])
    return figure("chart lines", part.caption, content, mark=mark, note=part.note, saved=saved)


def _asides(series: tuple[Series, ...]) -> list[float]:
    """How far each series is moved aside, which keeps the intervals of lines apart. Points without a line stay."""
    lines = [n for n, one in enumerate(series) if one.connected]
    return [
        round((lines.index(n) - (len(lines) - 1) / 2) * 5, 1) if one.connected else 0.0 for n, one in enumerate(series)
    ]


def _series(series: Series, number: int, aside: float, across: Scale, up: Scale) -> Html:
    measured = [(point, y) for point in series.points if (y := finite(point.y)) is not None]
    measured.sort(key=lambda pair: pair[0].x)
    strokes = [
        element(
            "line",
            class_="stroke",
            x1=percent(across.at(one.x)),
            x2=percent(across.at(other.x)),
            y1=percent(up.at(y_one)),
            y2=percent(up.at(y_other)),
        )
        for (one, y_one), (other, y_other) in pairwise(measured if series.connected else [])
    ]
    whiskers = [whisker(point.x, point.low, point.high, across, up) for point, _ in measured]
    markers = [
        placed(_marker(number, f"{series.label}: {_description(point)}"), across.at(point.x), percent(up.at(y)))
        for point, y in measured
    ]
    return element("g", *strokes, *whiskers, *markers, class_=_kind(number), transform=f"translate({aside} 0)")


def _kind(number: int) -> str:
    return f"series s{number % KINDS}"


def _marker(number: int, words: str = "") -> Html:
    title = element("title", words) if words else None
    return element("path", title, class_="shape", d=_SHAPES[number % len(_SHAPES)])


def _key(series: tuple[Series, ...]) -> Html:
    def sample(number: int, one: Series) -> Html:
        return element("svg", _sample(number, one), class_="glyph wide", viewBox="-14 -8 28 16", aria_hidden="true")

    items = [element("li", sample(n, one), element("bdi", one.label)) for n, one in enumerate(series)]
    return element("ul", *items, class_="legend")


def _sample(number: int, series: Series) -> Html:
    stroke = element("line", class_="stroke", x1=-12, x2=12, y1=0, y2=0) if series.connected else None
    return element("g", stroke, _marker(number), class_=_kind(number))


def _description(point: Point) -> str:
    return " ".join(filter(None, (point.label, decimal(point.y), interval(point.low, point.high))))


def _as_table(part: LineChart) -> Table:
    labelled = any(point.label for series in part.series for point in series.points)
    columns = [Column(name="series"), Column(name=part.x_name, kind="number"), Column(name="point")]
    columns.append(Column(name=part.y_name, kind="number"))
    rows = [
        (
            TableCell(text=series.label),
            TableCell(text=f"{point.x:g}", value=point.x),
            TableCell(text=point.label or DASH),
            TableCell(text=decimal(point.y), sub=interval(point.low, point.high), value=point.y),
        )
        for series in part.series
        for point in series.points
    ]
    if not labelled:
        columns.pop(2)
        rows = [(*row[:2], row[3]) for row in rows]
    return Table(caption=f"{part.caption}, as a table", columns=tuple(columns), rows=tuple(rows))


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


class Scatter(Value):
    """A chart of labelled points; the x axis starts at 0."""

    caption: str
    x_name: str
    y_name: str
    points: tuple[ScatterPoint, ...]
    note: str = ""


HEIGHT = 300
"""Height of the drawing in pixels; it is as wide as the page."""
NARROWEST = 300
"""Width in pixels for which labels are placed. Labels that do not overlap here do not overlap on a wider page."""
NUMBERS = 33
"""Width in pixels of the tick numbers at the left."""
LETTER, LINE = 7.4, 15
"""Largest width and height of a letter of a label, in pixels."""
LONGEST = 20
"""Largest number of letters of a label in the drawing; the table has the whole label."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label and its distance from its point, in pixels."""

    words: str
    dx: float
    dy: float
    anchor: Literal["start", "end"]

    def box(self, x: float, y: float) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the label in pixels, for a point at (x, y)."""
        width = len(self.words) * LETTER
        left = x + self.dx - (width if self.anchor == "end" else 0)
        return left, y + self.dy - LINE * 0.75, left + width, y + self.dy + LINE * 0.25


def scatter(part: Scatter, mark: str) -> Html:
    """A `Scatter` as HTML: the drawing, and a folded table of the values."""
    across = across_of([0.0, *(point.x for point in part.points)])
    up = up_of([end for point in part.points for end in (point.y, point.low, point.high)])
    places = [(across.at(point.x), up.at(point.y)) for point in part.points]
    labels = labelled([point.label for point in part.points], places)
    drawing = joined(
        *(whisker(point.x, point.low, point.high, across, up) for point in part.points),
        *(_point(point, *place, label) for point, place, label in zip(part.points, places, labels, strict=True)),
    )
    name = f"{named(part.caption, mark)}: {part.y_name} by {part.x_name}. A table of the values follows."
    content = joined(
        plane(drawing, across, up, name=name, x_name=part.x_name, y_name=part.y_name),
        values_fold(table(_scatter_as_table(part), mark)),
    )
    saved = saved_plane(drawing, across, up, x_name=part.x_name, y_name=part.y_name)
    return figure("chart scatter", part.caption, content, mark=mark, note=part.note, saved=saved)


def labelled(names: list[str], places: list[tuple[float, float]]) -> list[Label | None]:
    """A label for each point, so that no label overlaps another, covers a point or leaves the drawing.

    places: the points in percent. A label without room is None. Labels are placed greedily in the given order: right of
    the point, then left, then further away.
    """
    dots = [(x / 100 * NARROWEST, y / 100 * HEIGHT) for x, y in places]
    taken = [(x, (x - 6, y - 6, x + 6, y + 6)) for x, y in dots]
    labels: list[Label | None] = []
    for (x, y), name, own in zip(dots, names, list(taken), strict=True):
        others = [one for one in taken if one != own]
        label = next((one for one in _candidates(clipped(name, LONGEST)) if _free(x, one.box(x, y), others)), None)
        labels.append(label)
        if label is not None:
            taken.append((x, label.box(x, y)))
    return labels


def _candidates(words: str) -> list[Label]:
    away = (4, -10, 18, -24, 32, -38)
    return [
        Label(words, 10 if anchor == "start" else -10, dy, anchor) for dy in away for anchor in ("start", "end")
    ] + [Label(words, -6 if anchor == "start" else 6, dy, anchor) for dy in (-12, 22) for anchor in ("start", "end")]


def _free(x: float, box: Box, others: list[tuple[float, Box]]) -> bool:
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


def _point(point: ScatterPoint, x: float, y: float, label: Label | None) -> Html:
    words = f"{point.label}: {decimal(point.y)} {interval(point.low, point.high)} at {point.x_words}"
    mark = element("g", element("title", words), shape(point.tone), class_=point.tone)
    far = label is not None and abs(label.dy) > 20
    leader = None
    if label is not None and far:
        leader = element("line", class_="leader", x1=0, y1=0, x2=label.dx, y2=round(label.dy - 4, 1))
    text = None
    if label is not None:
        text = element("text", label.words, class_="label", dx=label.dx, dy=label.dy, text_anchor=label.anchor)
    return placed(joined(leader, mark, text), x, percent(y), "marker")


def _scatter_as_table(part: Scatter) -> Table:
    columns = (Column(name="point"), Column(name=part.x_name, kind="number"), Column(name=part.y_name, kind="number"))
    rows = tuple(
        (
            TableCell(text=point.label),
            TableCell(text=point.x_words, value=point.x),
            TableCell(text=decimal(point.y), sub=interval(point.low, point.high), value=point.y),
        )
        for point in part.points
    )
    return Table(caption=f"{part.caption}, as a table", columns=columns, rows=rows)
