"""Forest plots: estimates with their intervals on one scale, with a zero line and margins."""

import math

from pydantic import Field

from agentlearn.html.axis import Scale, axis, grid, level, placed, row_plot, scale_of, upright
from agentlearn.html.figure import Tone, figure, finite, glyph, interval, named, shape, signed
from agentlearn.html.markup import Html, element, joined
from agentlearn.html.saved_figure import INNER, Strip, placed_svg, rows_strip, words_at
from agentlearn.types.value import Value


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


def forest(part: Forest, mark: str) -> Html:
    """A `Forest` as HTML: a table with a drawing in its second column."""
    scale = _scale(part)
    verdicts = any(row.words for row in part.rows)
    head = element(
        "tr",
        element("th", part.row_name, scope="col"),
        element("th", _sides(part), scope="col", class_="plot"),
        element("th", "difference", scope="col", class_="num"),
        element("th", part.words_name, scope="col") if verdicts else None,
    )
    rows = [_row(row, scale, verdicts) for row in part.rows]
    foot = element(
        "tr",
        element("td"),
        element("td", axis(scale, sign=True), class_="plot"),
        element("td"),
        element("td") if verdicts else None,
        aria_hidden="true",
    )
    content = element(
        "table",
        element("thead", head),
        element("tbody", *rows),
        element("tfoot", foot),
        aria_label=named(part.caption, mark),
    )
    return figure("chart forest", part.caption, content, mark=mark, note=_note(part), saved=_saved(part, scale))


def _scale(part: Forest) -> Scale:
    ends = [0.0]
    for row in part.rows:
        ends += [value for value in (row.mean, row.low, row.high) if value is not None]
        ends += [-row.margin] if row.margin is not None else []
    return scale_of(ends, limits=part.limits, start=4.0, end=96.0)


def _sides(part: Forest) -> Html | None:
    if not (part.left or part.right):
        return None
    return element(
        "div",
        element("span", f"← {part.left}" if part.left else ""),
        element("span", f"{part.right} →" if part.right else ""),
        class_="sides",
    )


def _row(row: ForestRow, scale: Scale, verdicts: bool) -> Html:
    ends = interval(row.low, row.high, sign=True)
    label = element("th", element("bdi", row.label), _sub(row.sub), scope="row")
    plot = element("td", row_plot(grid(scale, zero=True), *_marks(row, scale), name=_description(row)), class_="plot")
    number = element("td", element("b", signed(row.mean)), _sub(ends), class_="num")
    verdict = element("td", glyph(row.tone), element("bdi", row.words), class_="verdict") if verdicts else None
    return element("tr", label, plot, number, verdict, class_=row.tone)


def _saved(part: Forest, scale: Scale) -> list[Strip]:
    """Rows of a saved figure: the label, the drawing, the numbers and the verdict."""
    left, width = round(INNER * 0.27), round(INNER * 0.4)
    right = left + width
    sides = joined(
        words_at(f"← {part.left}" if part.left else "", left, 12, most=22),
        words_at(f"{part.right} →" if part.right else "", right, 12, anchor="end", most=22),
    )
    rows = [
        joined(
            words_at(row.label, 0, 20, "strong", most=28),
            words_at(row.sub, 0, 36, most=30),
            element("g", placed_svg(_marks(row, scale), left, 0, width, 44), class_=row.tone),
            words_at(f"{signed(row.mean)} {interval(row.low, row.high, sign=True)}", right + 10, 20, "strong"),
            words_at(row.words, right + 10, 36, most=36),
        )
        for row in part.rows
    ]
    ticks = element("g", placed_svg([axis(scale, sign=True)], left, 0, width, 20))
    behind = grid(scale, zero=True)
    return [Strip(sides, 20), rows_strip(rows, 44, behind, left, width), Strip(ticks, 24)]


def _sub(text: str) -> Html | None:
    return element("span", element("bdi", text), class_="sub") if text else None


def _marks(row: ForestRow, scale: Scale) -> tuple[Html | None, ...]:
    mean = finite(row.mean)
    margin = None if row.margin is None else upright(scale.at(-row.margin), "margin")
    return (
        margin,
        *_whiskers(row, scale),
        None if mean is None else placed(shape(row.tone), scale.at(mean), kind="marker"),
    )


def _whiskers(row: ForestRow, scale: Scale) -> tuple[Html, ...]:
    """The interval as a line; an end outside the scale is an arrow, any other a cap."""
    if row.low is None or row.high is None or math.isnan(row.low) or math.isnan(row.high):
        return ()
    start, end = scale.at(row.low), scale.at(row.high)
    cap = element("path", class_="cap", d="M0-5V5")
    left = cap if scale.holds(row.low) else element("path", class_="cap", d="M5-5L0 0L5 5")
    right = cap if scale.holds(row.high) else element("path", class_="cap", d="M-5-5L0 0L-5 5")
    return level(start, end, "whisker"), placed(left, start), placed(right, end)


def _description(row: ForestRow) -> str:
    if finite(row.mean) is None:
        return f"{row.label}: no estimate"
    ends = f", interval {signed(row.low)} to {signed(row.high)}" if row.low is not None and row.high is not None else ""
    margin = f", margin {signed(-row.margin)}" if row.margin is not None else ""
    return f"{row.label}: {signed(row.mean)}{ends}{margin}{f', {row.words}' if row.words else ''}"


def _note(part: Forest) -> str:
    margins = sorted({row.margin for row in part.rows if row.margin is not None})
    drawn = ", ".join(signed(-margin, 3).rstrip("0") for margin in margins)
    words = f"The dashed line is the margin, {drawn}." if margins else ""
    return " ".join(filter(None, (part.note, words)))
