"""Line charts of values with intervals. Series differ by shape and dash, not by colour alone."""

from itertools import pairwise

from pydantic import Field

from agentlearn.html.axis import placed
from agentlearn.html.figure import figure, named
from agentlearn.html.markup import Html, element, joined
from agentlearn.html.number_format import DASH, decimal, finite, interval
from agentlearn.html.plane import across_of, plane, saved_plane, up_of, values_fold, whisker
from agentlearn.html.saved_figure import legend_strips
from agentlearn.html.scale import Scale, percent
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
