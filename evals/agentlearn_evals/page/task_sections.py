"""The page's parts of tasks: differences by domain, cluster and tag, the learning curve, every task, and flips."""

import shlex
from collections.abc import Callable, Sequence

from agentlearn.views.charts import Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.views.figure import DASH, count, decimal, finite, interval, signed
from agentlearn.views.lines import LineChart, Point, Series
from agentlearn.views.markup import clipped
from agentlearn.views.page import Details, PagePart, Section
from agentlearn.views.table import CodeBlock, Column, Paragraph, Table, TableCell
from agentlearn_evals.comparison import Flip, Slice, TaskLine
from agentlearn_evals.comparison_words import ComparisonWords
from agentlearn_evals.page.number_sections import number, scale_limits

_EXPLORATORY = (
    "Exploratory: these parts were not chosen beforehand and their intervals are not corrected for their number, so "
    "they get no verdict. Some will differ by chance alone."
)
_ENDS = 15
"""Number of parts with the highest differences, and with the lowest, that are shown."""
_UNFOLDED = 15
"""Largest number of rows of a forest plot that is shown unfolded."""
FLIPS_SHOWN = 20
"""Largest number of won tasks, and of lost tasks, that is shown for each contrast."""
_EXCERPT, _PROBLEM = 110, 2_000
"""Largest number of characters of a problem in a list, and in its own paragraph."""
TRACE, TRACES = 12_000, 3_000_000
"""Largest number of characters of one transcript, and of all transcripts on the page."""


def _score(task: TaskLine, position: int) -> float | None:
    return finite(task.scores[position]) if position < len(task.scores) else None


class _Transcripts:
    """Adds transcripts to the page until their size limit is reached."""

    def __init__(self, trace_of: Callable[[str], str] | None) -> None:
        self._trace_of, self._characters_left = trace_of, TRACES

    def of(self, rollout: str) -> list[PagePart]:
        text = self._trace_of(rollout) if self._trace_of is not None and self._characters_left > 0 else ""
        if not text:
            return []
        kept = text[: min(TRACE, self._characters_left)]
        self._characters_left -= len(kept)
        cut = f"\n… {len(text) - len(kept):,} more characters" if len(kept) < len(text) else ""
        return [Details(summary=f"Transcript of {rollout}", parts=(CodeBlock(text=kept + cut),))]


def _flip(flip: Flip, transcripts: _Transcripts) -> Details:
    parts: list[PagePart] = []
    if len(flip.problem) > _EXCERPT:  # otherwise the summary line shows all of it
        parts.append(Paragraph(text=clipped(flip.problem, _PROBLEM)))
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
    summary = ": ".join(filter(None, (clipped(flip.task, _EXCERPT), clipped(flip.problem, _EXCERPT))))
    return Details(summary=summary, aside=signed(flip.score - flip.baseline_score), parts=tuple(parts))


class TaskSections(ComparisonWords):
    """The sections of tasks."""

    def domains(self) -> Section | None:
        """Return the table of arms by domains; None for a single domain."""
        found = {(one.arm, one.name): one for one in self.found.slices if one.by == "domain"}
        domains = sorted({name for _, name in found})
        if len(domains) < 2:
            return None

        def cell(one: Slice | None) -> TableCell:
            if one is None:
                return TableCell(text=DASH)
            difference = " ".join(filter(None, (signed(one.mean), interval(one.low, one.high, sign=True))))
            return number(one.score, decimal, difference if finite(one.mean) is not None else "")

        table = Table(
            caption="Score by arm and domain",
            columns=(Column(name="Arm"), *(Column(name=domain, kind="number") for domain in domains)),
            rows=tuple(
                (TableCell(text=arm), *(cell(found.get((arm, domain))) for domain in domains))
                for arm in self.found.names
            ),
            note=f"Below each score: the difference from {self.found.baseline} with its interval. {_EXPLORATORY}",
        )
        return Section(title="Across domains", parts=(table,))

    def breakdown(self) -> Section | None:
        """Return the differences by domain, cluster and tag; None when there are no parts."""
        parts: list[PagePart] = []
        for by in ("domain", "cluster", "tag"):
            for arm in self.found.names:
                slices = [one for one in self.found.slices if (one.by, one.arm) == (by, arm) and one.mean is not None]
                if len(slices) > 1:
                    parts.append(self._forest(arm, by, slices))
        if not parts:
            return None
        return Section(title="Breakdown", parts=(Paragraph(text=_EXPLORATORY, quiet=True), *parts))

    def _forest(self, arm: str, by: str, slices: Sequence[Slice]) -> PagePart:
        ordered = sorted(slices, key=lambda one: (-(finite(one.mean) or 0.0), one.name))
        kept = ordered if len(ordered) <= 2 * _ENDS else ordered[:_ENDS] + ordered[-_ENDS:]
        left_out = len(ordered) - len(kept)
        rows = tuple(
            ForestRow(
                label=one.name,
                sub=f"{count(one.tasks)} tasks · score {decimal(one.score)}",
                mean=one.mean,
                low=one.low,
                high=one.high,
            )
            for one in kept
        )
        forest = Forest(
            caption=f"{arm} compared with {self.found.baseline}, by {by} (exploratory)",
            rows=rows,
            row_name=by,
            left=f"{self.found.baseline} better",
            right=f"{arm} better",
            limits=scale_limits(one.mean for one in kept),
            note=f"{left_out:,} parts with differences in between are in the JSON of this comparison."
            if left_out
            else "",
        )
        if len(self.found.contrasts) == 1 and len(ordered) <= _UNFOLDED:
            return forest
        return Details(summary=f"{arm}, by {by}", aside=f"{len(ordered)} parts", parts=(forest,))

    def curve(self) -> Section | None:
        """Return the learning curve; None without one."""
        by_arm: dict[str, list[Point]] = {}
        for one in self.found.curve:
            label = f"{one.version[:12]}, {one.lessons} lessons"
            point = Point(x=one.step, y=one.score, low=one.low, high=one.high, label=label)
            by_arm.setdefault(one.arm, []).append(point)
        if not by_arm:
            return None
        chart = LineChart(
            caption="Score by version of the library",
            x_name="versions after the first",
            y_name="mean score",
            series=tuple(Series(label=arm, points=tuple(points)) for arm, points in by_arm.items()),
            note=f"Vertical lines: {self.level} intervals.",
        )
        return Section(title="Learning curve", parts=(chart,))

    def tasks(self) -> Section | None:
        """Return the scores of every task in every arm; None without tasks."""
        if not self.found.tasks:
            return None
        charts: list[Dumbbell] = []
        for one in self.found.contrasts:
            start, end = (self.found.names.index(name) for name in (one.baseline, one.arm))
            rows = tuple(
                DumbbellRow(label=task.task, sub=clipped(task.problem, _EXCERPT), before=before, after=after)
                for task in self.found.tasks
                if (before := _score(task, start)) is not None and (after := _score(task, end)) is not None
            )
            if rows:
                caption = f"{one.arm} compared with {one.baseline}, by task"
                charts.append(Dumbbell(caption=caption, before=one.baseline, after=one.arm, rows=rows))
        parts: list[PagePart] = [*charts]
        if len(charts) > 1:
            parts = [Details(summary=one.caption, parts=(one,), unfolded=n == 0) for n, one in enumerate(charts)]
        return Section(title="Tasks", parts=(*parts, self._every_task()))

    def _every_task(self) -> Details:
        arms = self.found.names
        grouped = any(task.domain or task.cluster for task in self.found.tasks)
        rows: list[tuple[TableCell, ...]] = []
        for task in self.found.tasks:
            group = " · ".join(filter(None, (task.domain, task.cluster)))
            rows.append(
                (
                    TableCell(text=task.task, sub=clipped(task.problem, _EXCERPT)),
                    *([TableCell(text=group)] if grouped else []),
                    *(TableCell(text=decimal(_score(task, position))) for position in range(len(arms))),
                )
            )
        names = ("Task", "Domain and cluster") if grouped else ("Task",)
        table = Table(
            caption="Every task in every arm",
            columns=(*(Column(name=name) for name in names), *(Column(name=arm, kind="number") for arm in arms)),
            rows=tuple(rows),
            note="Mean score over the rollouts of a task; a dash when all of them were undecided or left out.",
        )
        return Details(summary="Every task in every arm", aside=f"{len(self.found.tasks)} tasks", parts=(table,))

    def flips(self, trace_of: Callable[[str], str] | None) -> Section | None:
        """Return the tasks on which two compared arms differ, each with two rollouts; None without any."""
        if not self.found.flips:
            return None
        transcripts, of_logs = _Transcripts(trace_of), any(one.place for one in self.found.flips)
        parts: list[PagePart] = []
        for contrast in self.found.contrasts:
            arm, baseline = contrast.arm, contrast.baseline
            for won, word in ((True, "better"), (False, "worse")):
                flips = [one for one in self.found.flips if (one.arm, one.baseline, one.won) == (arm, baseline, won)]
                if flips:
                    flips.sort(key=lambda one: (-abs(one.score - one.baseline_score), one.task))
                    shown: list[PagePart] = [_flip(one, transcripts) for one in flips[:FLIPS_SHOWN]]
                    if len(flips) > FLIPS_SHOWN:
                        rest = f"{len(flips) - FLIPS_SHOWN} more are in the JSON of this comparison."
                        shown.append(Paragraph(text=rest, quiet=True))
                    summary, aside = f"{arm} {word} than {baseline}", f"{len(flips)} tasks"
                    parts.append(Details(summary=summary, aside=aside, parts=tuple(shown)))
        return Section(
            title="Flips",
            lede="Flips are tasks on which an arm and its baseline have different scores, largest difference first. "
            "Each has one rollout of either arm that shows the difference"
            + (", and where it is in the logs." if of_logs else ". The commands print every message of a rollout."),
            parts=tuple(parts),
        )
