"""Differences by domain, cluster and tag, and the learning curve."""

from collections.abc import Sequence
from typing import Literal

from agentlearn.html import (
    Column,
    Details,
    Forest,
    ForestRow,
    LineChart,
    PagePart,
    Paragraph,
    Point,
    Section,
    Series,
    Table,
    TableCell,
)
from agentlearn.html.number_format import DASH, count, decimal, finite, interval, signed
from agentlearn_evals.comparison import Comparison, Slice, VersionPoint
from agentlearn_evals.page.findings import level_text, scale_limits

EXPLORATORY = (
    "Exploratory: these parts were not chosen beforehand and their intervals are not corrected for their number, so "
    "they get no verdict. Some will differ by chance alone."
)
ENDS = 15
"""Number of parts with the highest differences, and with the lowest, that are shown."""
UNFOLDED = 15
"""Largest number of rows of a forest plot that is shown unfolded."""
_NAMES: dict[Literal["domain", "cluster", "tag"], str] = {"domain": "domain", "cluster": "cluster", "tag": "tag"}


def domains_section(comparison: Comparison) -> Section | None:
    """Return the table of arms by domains; None for a single domain."""
    slices = [one for one in comparison.slices if one.by == "domain"]
    domains = sorted({one.name for one in slices})
    if len(domains) < 2:
        return None
    found = {(one.arm, one.name): one for one in slices}
    rows = tuple(
        (TableCell(text=arm), *(_in_domain(found.get((arm, domain))) for domain in domains)) for arm in comparison.names
    )
    table = Table(
        caption="Score by arm and domain",
        columns=(Column(name="Arm"), *(Column(name=domain, kind="number") for domain in domains)),
        rows=rows,
        note=f"Below each score: the difference from {comparison.baseline} with its interval. {EXPLORATORY}",
    )
    return Section(title="Across domains", parts=(table,))


def breakdown_section(comparison: Comparison) -> Section | None:
    """Return the differences by domain, cluster and tag; None when there are no parts."""
    parts: list[PagePart] = []
    for by, word in _NAMES.items():
        for arm in comparison.names:
            slices = [one for one in comparison.slices if (one.by, one.arm) == (by, arm) and one.mean is not None]
            if len(slices) > 1:
                parts.append(_forest(comparison, arm, word, slices))
    if not parts:
        return None
    return Section(title="Breakdown", parts=(Paragraph(text=EXPLORATORY, quiet=True), *parts))


def curve_section(comparison: Comparison) -> Section | None:
    """Return the learning curve; None without one."""
    arms = list(dict.fromkeys(point.arm for point in comparison.curve))
    if not arms:
        return None
    series = tuple(
        Series(label=arm, points=tuple(_point(one) for one in comparison.curve if one.arm == arm)) for arm in arms
    )
    chart = LineChart(
        caption="Score by version of the library",
        x_name="versions after the first",
        y_name="mean score",
        series=series,
        note=f"Vertical lines: {level_text(comparison)} intervals.",
    )
    return Section(title="Learning curve", parts=(chart,))


def _in_domain(found: Slice | None) -> TableCell:
    if found is None:
        return TableCell(text=DASH)
    difference = " ".join(filter(None, (signed(found.mean), interval(found.low, found.high, sign=True))))
    return TableCell(
        text=decimal(found.score), sub=difference if finite(found.mean) is not None else "", value=found.score
    )


def _forest(comparison: Comparison, arm: str, word: str, slices: Sequence[Slice]) -> PagePart:
    ordered = sorted(slices, key=lambda one: (-(finite(one.mean) or 0.0), one.name))
    kept = ordered if len(ordered) <= 2 * ENDS else ordered[:ENDS] + ordered[-ENDS:]
    left_out = len(ordered) - len(kept)
    forest = Forest(
        caption=f"{arm} compared with {comparison.baseline}, by {word} (exploratory)",
        rows=tuple(
            ForestRow(
                label=one.name,
                sub=f"{count(one.tasks)} tasks · score {decimal(one.score)}",
                mean=one.mean,
                low=one.low,
                high=one.high,
            )
            for one in kept
        ),
        row_name=word,
        left=f"{comparison.baseline} better",
        right=f"{arm} better",
        limits=scale_limits([one.mean for one in kept]),
        note=f"{left_out:,} parts with differences in between are in the JSON of this comparison." if left_out else "",
    )
    if len(comparison.contrasts) == 1 and len(ordered) <= UNFOLDED:
        return forest
    return Details(summary=f"{arm}, by {word}", aside=f"{len(ordered)} parts", parts=(forest,))


def _point(one: VersionPoint) -> Point:
    label = f"{one.version[:12]}, {one.lessons} lessons"
    return Point(x=one.step, y=one.score, low=one.low, high=one.high, label=label)
