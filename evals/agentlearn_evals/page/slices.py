"""Differences by domain, cluster and tag, and the learning curve."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from agentlearn.measure.contrast import Contrast
from agentlearn.views import (
    CodeBlock,
    Column,
    Details,
    Dumbbell,
    DumbbellRow,
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
from agentlearn.views.figure import DASH, count, decimal, finite, interval, signed
from agentlearn.views.markup import clipped
from agentlearn_evals.comparison import Comparison, Flip, Slice, TaskLine, VersionPoint
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


FLIPS_SHOWN = 20
"""Largest number of won tasks, and of lost tasks, that is shown for each contrast."""
EXCERPT, PROBLEM = 110, 2_000
"""Largest number of characters of a problem in a list, and in its own paragraph."""
TRACE, TRACES = 12_000, 3_000_000
"""Largest number of characters of one transcript, and of all transcripts on the page."""


def tasks_section(comparison: Comparison) -> Section | None:
    """Return the scores of every task in every arm; None without tasks."""
    if not comparison.tasks:
        return None
    charts = [chart for one in comparison.contrasts if (chart := _dumbbell(comparison, one)) is not None]
    parts: list[PagePart] = []
    if len(charts) == 1:
        parts += charts
    else:
        parts += [Details(summary=one.caption, parts=(one,), unfolded=n == 0) for n, one in enumerate(charts)]
    return Section(title="Tasks", parts=(*parts, _every_task(comparison)))


def flips_section(comparison: Comparison, trace_of: Callable[[str], str] | None) -> Section | None:
    """Return the tasks on which two compared arms differ, each with two rollouts; None without any."""
    if not comparison.flips:
        return None
    transcripts, of_logs = _Transcripts(trace_of), any(one.place for one in comparison.flips)
    parts: list[PagePart] = []
    for contrast in comparison.contrasts:
        for won in (True, False):
            pair = (contrast.arm, contrast.baseline)
            flips = [one for one in comparison.flips if (one.arm, one.baseline) == pair and one.won is won]
            parts += _flips(*pair, won, flips, transcripts)
    return Section(
        title="Flips",
        lede="Flips are tasks on which an arm and its baseline have different scores, largest difference first. Each "
        "has one rollout of either arm that shows the difference"
        + (", and where it is in the logs." if of_logs else ". The commands print every message of a rollout."),
        parts=tuple(parts),
    )


def _dumbbell(comparison: Comparison, contrast: Contrast) -> Dumbbell | None:
    start, end = (comparison.names.index(name) for name in (contrast.baseline, contrast.arm))
    rows = tuple(
        DumbbellRow(label=task.task, sub=clipped(task.problem, EXCERPT), before=before, after=after)
        for task in comparison.tasks
        if (before := _score(task, start)) is not None and (after := _score(task, end)) is not None
    )
    if not rows:
        return None
    caption = f"{contrast.arm} compared with {contrast.baseline}, by task"
    return Dumbbell(caption=caption, before=contrast.baseline, after=contrast.arm, rows=rows)


def _score(task: TaskLine, position: int) -> float | None:
    return finite(task.scores[position]) if position < len(task.scores) else None


def _every_task(comparison: Comparison) -> Details:
    has_groups = any(task.domain or task.cluster for task in comparison.tasks)
    group_column = [Column(name="Domain and cluster")] if has_groups else []
    columns = (Column(name="Task"), *group_column, *(Column(name=arm, kind="number") for arm in comparison.names))
    table = Table(
        caption="Every task in every arm",
        columns=columns,
        rows=tuple(_task_row(task, len(comparison.arms), has_groups) for task in comparison.tasks),
        note="Mean score over the rollouts of a task; a dash when all of them were undecided or left out.",
    )
    return Details(summary="Every task in every arm", aside=f"{len(comparison.tasks)} tasks", parts=(table,))


def _task_row(task: TaskLine, arms: int, has_groups: bool) -> tuple[TableCell, ...]:
    scores = [_score(task, position) for position in range(arms)]
    group = [TableCell(text=" · ".join(filter(None, (task.domain, task.cluster))))] if has_groups else []
    name = TableCell(text=task.task, sub=clipped(task.problem, EXCERPT))
    return (name, *group, *(TableCell(text=decimal(score)) for score in scores))


class _Transcripts:
    """Adds transcripts to the page until their size limit is reached."""

    def __init__(self, trace_of: Callable[[str], str] | None) -> None:
        self._trace_of = trace_of
        self._characters_left = TRACES

    def of(self, rollout: str) -> Iterator[PagePart]:
        if self._trace_of is None or self._characters_left <= 0:
            return
        text = self._trace_of(rollout)
        if text:
            kept = text[: min(TRACE, self._characters_left)]
            self._characters_left -= len(kept)
            cut = f"\n… {len(text) - len(kept):,} more characters" if len(kept) < len(text) else ""
            yield Details(summary=f"Transcript of {rollout}", parts=(CodeBlock(text=kept + cut),))


def _flips(arm: str, baseline: str, won: bool, flips: list[Flip], transcripts: _Transcripts) -> list[PagePart]:
    if not flips:
        return []
    ordered = sorted(flips, key=lambda one: (-abs(one.score - one.baseline_score), one.task))
    word = "better" if won else "worse"
    parts: list[PagePart] = [_flip(one, transcripts) for one in ordered[:FLIPS_SHOWN]]
    if len(ordered) > FLIPS_SHOWN:
        rest = f"{len(ordered) - FLIPS_SHOWN} more are in the JSON of this comparison."
        parts.append(Paragraph(text=rest, quiet=True))
    return [Details(summary=f"{arm} {word} than {baseline}", aside=f"{len(ordered)} tasks", parts=tuple(parts))]


def _flip(flip: Flip, transcripts: _Transcripts) -> Details:
    parts: list[PagePart] = []
    if len(flip.problem) > EXCERPT:  # otherwise the summary line shows all of it
        parts.append(Paragraph(text=clipped(flip.problem, PROBLEM)))
    for name, score, rollout, place in (
        (flip.baseline, flip.baseline_score, flip.baseline_rollout, flip.baseline_place),
        (flip.arm, flip.score, flip.rollout, flip.place),
    ):
        label = f"{name}, mean score {decimal(score)}"
        if place:
            parts.append(CodeBlock(label=label, text=place))
        elif rollout:
            parts.append(CodeBlock(label=label, text=f"agentlearn trace {shlex.quote(rollout)}"))
            parts += transcripts.of(rollout)
        else:
            parts.append(Paragraph(text=f"{label}; its rollouts were not recorded.", quiet=True))
    summary = ": ".join(filter(None, (clipped(flip.task, EXCERPT), clipped(flip.problem, EXCERPT))))
    return Details(summary=summary, aside=signed(flip.score - flip.baseline_score), parts=tuple(parts))
