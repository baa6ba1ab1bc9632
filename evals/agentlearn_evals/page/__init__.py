"""The comparison page: one self-contained HTML file with the result and the evidence for it, task by task."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentlearn.pages.charts import Dumbbell, DumbbellRow, Forest, ForestRow
from agentlearn.pages.figure import TONES, clipped, count, decimal, duration, finite, money, p_value, signed
from agentlearn.pages.lines import LineChart, Point, Series
from agentlearn.pages.page import Details, HtmlPage, PagePart, Section, render_page
from agentlearn.pages.table import (
    CodeBlock,
    Column,
    KeyFigures,
    Note,
    Paragraph,
    Table,
    TableCell,
    box,
    keys,
    sheet,
)
from agentlearn.pages.terminal import EndPart, labelled_table
from agentlearn_evals.analysis import ComparisonWords, verdict_name
from agentlearn_evals.comparison import Comparison, Flip, Slice, TaskLine
from agentlearn_evals.page.number_sections import EXPLORATORY, NumberSections, number, scale_limits

if TYPE_CHECKING:
    from agentlearn.store import RunRow

__all__ = ["comparison_page"]


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


class _TaskSections(ComparisonWords):
    """The sections of tasks."""

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
        return Section(title="Breakdown", parts=(Paragraph(text=EXPLORATORY, quiet=True), *parts))

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


_TITLE, _MISSING = 200, 200
"""Largest number of characters of the title, and of missing rollouts, that are shown."""


def _each(kind: str, by_arm: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return one row per arm; one row for all arms when they have the same value."""
    if len(by_arm) > 1 and len(set(by_arm.values())) == 1:
        return [(kind, "all arms", next(iter(by_arm.values())))]
    return [(kind, name, value) for name, value in by_arm.items()]


def _texts(caption: str, names: str, rows: Sequence[Sequence[str]], note: str = "") -> Table:
    """Return a table of texts."""
    return sheet(caption, names, (tuple(map(box, row)) for row in rows), note)


class _Page(ComparisonWords):
    """The parts of the page besides numbers and tasks."""

    def findings(self) -> list[PagePart]:
        """Return what was lost, one sentence per contrast, what is compared, and the forest plot."""
        with_what = f"Every arm is compared with the baseline, {self.found.baseline}, on the same tasks."
        if self.found.pairwise:
            with_what = f"These {len(self.found.contrasts)} pairs of arms are compared, on the same tasks."
        what = (
            f"Each arm is one variant of the agent, such as a library of lessons, a model or instructions. {with_what}"
        )
        return [*self.verdicts(), Paragraph(text=what, quiet=True), *self._forest()]

    def _forest(self) -> list[PagePart]:
        rows = tuple(
            ForestRow(
                label=self.found.label(one),
                sub=f"{count(one.tasks)} tasks · {count(one.pairs)} pairs",
                mean=one.mean,
                low=one.low,
                high=one.high,
                margin=one.margin.margin if one.margin else None,
                tone=TONES[one.verdict],
                words=verdict_name(one),
            )
            for one in self.found.contrasts
        )
        if not rows:
            return []
        base = self.found.baseline
        caption, left, right = f"Difference in mean score from {base}", base, rows[0].label if len(rows) == 1 else "arm"
        if self.found.pairwise:
            caption, left, right = "Difference in mean score, first arm minus second", "second", "first"
        figure = Forest(
            caption=caption,
            rows=rows,
            left=f"{left} better",
            right=f"{right} better",
            limits=scale_limits(row.mean for row in rows),
            note=f"Mean over tasks with its {self.level} interval, on the same tasks and rollout indexes.",
        )
        return [figure]

    def key_figures(self) -> KeyFigures:
        arms, costs = self.found.arms, [arm.cost_usd for arm in self.found.arms]
        rollouts, reused = sum(arm.rollouts for arm in arms), sum(arm.reused for arm in arms)
        figures = [
            ("Tasks", count(max((arm.tasks for arm in arms), default=0)), ""),
            ("Rollouts per task", count(self.found.k), ""),
            ("Rollouts in total", count(rollouts), f"{count(reused)} reused" if reused else ""),
        ]
        if not self.found.reproducibility.sources:
            figures.append(("Spent", money(self.found.cost_usd), ""))
        elif costs and None not in costs:  # logs cost nothing to compare; their rollouts did
            figures.append(("Cost of the rollouts", money(sum(cost or 0.0 for cost in costs)), ""))
        figures.append(("Time", duration(self.found.wall_s), ""))
        detectable = self.found.contrasts[0].detectable if len(self.found.contrasts) == 1 else None
        if detectable is not None:
            figures.append(("Detectable difference", signed(detectable).lstrip("+"), "or more, at 80 % power"))
        return keys("At a glance", *figures)

    def checks(self) -> Section | None:
        """Return the section with notes, flags, missing rollouts and earlier looks; None when there is nothing."""
        parts: list[PagePart] = [Note(text=text) for text in self.found.notes]
        if self.found.flags:
            rows = [(one.arm, one.code, one.words) for one in self.found.flags]
            parts.append(_texts("Flags: reasons not to trust a score", "Arm, Code, Why", rows))
        if self.found.missing:
            more = len(self.found.missing) - _MISSING
            note = f"{more:,} more are in the JSON of this comparison." if more > 0 else ""
            rows = [(one.task, one.arm, one.reason) for one in self.found.missing[:_MISSING]]
            caption = f"Missing rollouts: {len(self.found.missing):,}"
            parts.append(_texts(caption, "Task, Arm, Reason", rows, note))
        if self.found.looks:
            looks = self.found.looks
            rows = ((box(one.run), box(one.at), number(one.pairs, count), number(one.p, p_value)) for one in looks)
            caption = f"Earlier looks at these arms (this is look {self.found.look})"
            note = "Each further look at the same arms raises the chance of a false finding."
            note += " The corrected p allows for it."
            parts.append(sheet(caption, "Run, When, #Pairs, #p", rows, note))
        return Section(title="Checks", parts=tuple(parts)) if parts else None

    def reproducing(self) -> Section | None:
        """Return the section with everything to repeat the comparison; None when nothing is known."""
        facts = self.found.reproducibility
        named = (
            ("Run", "", self.found.run),
            ("Seed", "", "" if facts.seed is None else str(facts.seed)),
            ("Tasks with their answers", "", facts.data),
            *_each("Library", facts.libraries),
            *_each("Model", facts.models),
            *(("Sampling", name, value) for name, value in facts.sampling.items()),
            *(("Prompt", name, value) for name, value in facts.prompts.items()),
            ("Isolation", "", facts.isolation),
            *(("Version", name, value) for name, value in facts.versions.items()),
            *(("Log", name, value) for name, value in facts.sources.items()),
        )
        parts: list[PagePart] = [CodeBlock(text=facts.command)] if facts.command else []
        if rows := [one for one in named if one[-1]]:
            parts.append(_texts("Inputs of the comparison", "Item, Name, Value", rows))
        return Section(title="Reproduce", parts=tuple(parts)) if parts else None


def comparison_page(comparison: Comparison, *, trace_of: Callable[[str], str] | None = None) -> str:
    """Return the comparison as one HTML file that loads nothing. Empty sections are left out.

    trace_of: returns the transcript of a rollout, or empty text. With it, the page includes transcripts of the flips
    that it shows; each transcript, and all together, are limited in size.
    """
    return render_page(_content(comparison, trace_of))


class _StoredContent:
    """What is shown of a stored comparison: called, the content of its page, without transcripts."""

    def __call__(self, row: "RunRow") -> HtmlPage:
        return _content(Comparison.model_validate_json(row.report), None)

    def end(self, row: "RunRow", store: Path) -> Iterator[EndPart]:
        """Yield what its command printed last."""
        from agentlearn_evals.terminal import comparison_end

        return comparison_end(Comparison.model_validate_json(row.report), store)


stored_content = _StoredContent()


def _content(comparison: Comparison, trace_of: Callable[[str], str] | None) -> HtmlPage:
    page, numbers, tasks = _Page(comparison), NumberSections(comparison), _TaskSections(comparison)
    sections = (
        *(numbers.differences(), numbers.controlled(), numbers.arms(), numbers.passes(), numbers.cost()),
        *(numbers.domains(), tasks.breakdown(), tasks.curve(), tasks.tasks(), tasks.flips(trace_of)),
        *(page.checks(), page.reproducing()),
    )
    return HtmlPage(
        title=clipped(comparison.title, _TITLE),
        kicker="Comparison of agents on the same tasks",
        mark="simulated" if comparison.simulated else "lab model" if comparison.of_lab_models else "",
        front=(*page.findings(), *labelled_table("Before you trust this", page.cautions()), page.key_figures()),
        sections=tuple(section for section in sections if section is not None),
        footer="This page is one file. It loads nothing and sends nothing.",
    )
