"""Bar charts: a few groups of named numbers, each group with its own scale from 0."""

from pydantic import Field

from agentlearn.html.axis import Scale, axis, grid, level, percent, row_plot, scale_of
from agentlearn.html.figure import decimal, figure, finite, fold, named, signed
from agentlearn.html.markup import Html, clipped, element, joined
from agentlearn.html.saved_figure import INNER, Strip, legend_strips, line_of, placed_svg, rows_strip, words_at
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


def dumbbell(part: Dumbbell, mark: str) -> Html:
    """A `Dumbbell` as HTML: a table of the changed rows, largest gain first, and the names of the others."""
    scale = scale_of([end for row in part.rows for end in (row.before, row.after)] or [0.0, 1.0], start=3.0, end=97.0)
    changed = sorted((row for row in part.rows if row.difference), key=lambda row: (-row.difference, row.label))
    same = [row for row in part.rows if not row.difference]
    head, middle, tail = _parted(changed, part.shown)
    name = named(part.caption, mark)
    content = joined(
        element("p", _summary(part, changed, same), class_="prose"),
        _key(part) if changed else None,
        _table(part, head, scale, name, subs=True) if head else None,
        fold(
            f"{len(middle)} more with smaller differences",
            _table(part, middle, scale, f"{name}, continued", subs=False),
        )
        if middle
        else None,
        _table(part, tail, scale, f"{name}, largest losses", subs=True) if tail else None,
        fold(f"{len(same)} with no difference", _names(same)) if same else None,
    )
    saved = _saved(part, [*head, *tail], scale) if changed else None
    return figure("chart dumbbell", part.caption, content, mark=mark, saved=saved)


def _parted(changed: list[DumbbellRow], shown: int) -> tuple[list[DumbbellRow], list[DumbbellRow], list[DumbbellRow]]:
    """The rows shown first, folded, and shown last: gains and losses in proportion, so that the picture does not show
    few of one as if they were as many as the other. Three rows or fewer are not worth a fold."""
    gains = sum(row.difference > 0 for row in changed)
    if len(changed) - 2 * shown <= 3:
        return changed, [], []
    first = min(gains, max(int(gains > 0), round(2 * shown * gains / len(changed))))
    last = min(len(changed) - gains, max(int(gains < len(changed)), 2 * shown - first))
    return changed[:first], changed[first : len(changed) - last], changed[len(changed) - last :]


def _summary(part: Dumbbell, changed: list[DumbbellRow], same: list[DumbbellRow]) -> str:
    gains = sum(row.difference > 0 for row in changed)
    plural = part.row_name if len(part.rows) == 1 else _plural(part.row_name)
    return (
        f"Of {len(part.rows)} {plural}, {part.after} scores higher than {part.before} on {gains}, "
        f"lower on {len(changed) - gains}, the same on {len(same)}."
    )


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def _key(part: Dumbbell) -> Html:
    def dot(kind: str) -> Html:
        mark = element("circle", class_=kind, cx=8, cy=8, r=5)
        return element("svg", mark, class_="glyph", viewBox="0 0 16 16", aria_hidden="true")

    before = element("li", dot("from"), element("bdi", part.before))
    after = element("li", dot("to"), element("bdi", part.after))
    return element("ul", before, after, class_="legend")


def _table(part: Dumbbell, rows: list[DumbbellRow], scale: Scale, name: str, *, subs: bool) -> Html:
    head = element(
        "tr",
        element("th", part.row_name, scope="col"),
        element("th", axis(scale, sign=False), scope="col", class_="plot", aria_label="scores"),
        element("th", "scores", scope="col"),
        element("th", "difference", scope="col"),
    )
    body = [_row(row, scale, subs) for row in rows]
    return element("table", element("thead", head), element("tbody", *body), aria_label=name)


def _row(row: DumbbellRow, scale: Scale, subs: bool) -> Html:
    # folded lists have no grid, to keep the file small
    plot = row_plot(grid(scale, zero=False) if subs else None, *_dots(row, scale))
    sub = element("span", element("bdi", row.sub), class_="sub") if subs and row.sub else None
    return element(
        "tr",
        element("th", element("bdi", row.label), sub, scope="row"),
        element("td", plot, class_="plot"),
        element("td", f"{decimal(row.before)} → {decimal(row.after)}"),
        element("td", signed(row.difference)),
    )


def _dots(row: DumbbellRow, scale: Scale) -> tuple[Html, ...]:
    start, end = scale.at(row.before), scale.at(row.after)
    return (
        level(start, end, "up" if row.difference > 0 else "down"),
        element("circle", class_="from", cx=percent(start), cy="50%", r=5),
        element("circle", class_="to", cx=percent(end), cy="50%", r=5),
    )


def _saved(part: Dumbbell, rows: list[DumbbellRow], scale: Scale) -> list[Strip]:
    """Rows of a saved figure: the label, the drawing and the scores. Folded rows are left out."""
    left, width = round(INNER * 0.34), round(INNER * 0.38)
    samples = [
        (element("circle", class_=kind, cx=0, cy=0, r=5), name)
        for kind, name in (("from", part.before), ("to", part.after))
    ]
    lines = [
        joined(
            words_at(row.label, 0, 18, "strong", most=34),
            placed_svg(_dots(row, scale), left, 0, width, 28),
            words_at(f"{decimal(row.before)} → {decimal(row.after)}, {signed(row.difference)}", left + width + 10, 18),
        )
        for row in rows
    ]
    drawn = rows_strip(lines, 28, grid(scale, zero=False), left, width)
    more = len(part.rows) - len(rows)
    left_out = line_of(f"{more:,} more with smaller differences or none" if more else "")
    ticks = placed_svg([axis(scale, sign=False)], left, 0, width, 20)
    return [*legend_strips(samples), drawn, Strip(ticks, 24), left_out]


def _names(rows: list[DumbbellRow]) -> Html:
    names = [joined(element("bdi", clipped(row.label, 60)), f" {decimal(row.before)}") for row in rows]
    return element("ul", *(element("li", name) for name in names), class_="names")
