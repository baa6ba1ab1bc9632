"""The comparison page: one self-contained HTML file with the result and the evidence for it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentlearn.views.charts import Forest, ForestRow
from agentlearn.views.figure import count, duration, money, p_value, signed
from agentlearn.views.markup import clipped
from agentlearn.views.page import HtmlPage, PagePart, Section, render_page
from agentlearn.views.table import (
    CodeBlock,
    Column,
    KeyFigure,
    KeyFigures,
    Note,
    Paragraph,
    Statement,
    Table,
    TableCell,
)
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.comparison_words import TONES, VERDICTS, ComparisonWords, full_sentence, worst_first
from agentlearn_evals.page.number_sections import NumberSections, number, scale_limits
from agentlearn_evals.page.task_sections import TaskSections

if TYPE_CHECKING:
    from agentlearn.store import RunRow

__all__ = ["comparison_page"]

_TITLE, _SENTENCE = 200, 500
"""Largest number of characters of the title, and of a sentence, that are shown."""
_FLAGS, _MISSING = 5, 200
"""Largest number of flags at the top, and of missing rollouts, that are shown."""


def _each(kind: str, by_arm: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return one row per arm; one row for all arms when they have the same value."""
    if len(by_arm) > 1 and len(set(by_arm.values())) == 1:
        return [(kind, "all arms", next(iter(by_arm.values())))]
    return [(kind, name, value) for name, value in by_arm.items()]


def _texts(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Table:
    """Return a table of texts."""
    cells = tuple(tuple(TableCell(text=text) for text in row) for row in rows)
    return Table(caption=caption, columns=tuple(Column(name=name) for name in names), rows=cells, note=note)


class _Page(ComparisonWords):
    """The parts of the page besides numbers and tasks."""

    def findings(self) -> list[PagePart]:
        """Return what was lost, one sentence per contrast, what is compared, and the forest plot."""
        parts: list[PagePart] = [Note(kind="warning", text=text) for text in self.found.warnings]
        for one in worst_first(self.found.contrasts):
            plain = f"{one.arm} against {one.baseline}: {VERDICTS[one.verdict]}."
            parts.append(Statement(text=clipped(full_sentence(one) or plain, _SENTENCE), tone=TONES[one.verdict]))
            parts += [Paragraph(text=one.holds_if)] if one.holds_if else []
        with_what = f"Every arm is compared with the baseline, {self.found.baseline}, on the same tasks."
        if self.found.pairwise:
            with_what = f"These {len(self.found.contrasts)} pairs of arms are compared, on the same tasks."
        what = (
            f"Each arm is one variant of the agent, such as a library of lessons, a model or instructions. {with_what}"
        )
        parts.append(Paragraph(text=what, quiet=True))
        if self.found.simulated:
            parts.append(Paragraph(text=self.model_caution, quiet=True))
        return [*parts, *self._forest()]

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
                words=VERDICTS[one.verdict],
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

    def cautions(self) -> list[PagePart]:
        """Return what a reader should see before trusting the sentences."""
        unsafe = [
            Note(kind="warning", title=f"{self.found.label(one)}: these scores cannot be trusted", text=one.unsafe)
            for one in self.found.contrasts
            if one.unsafe
        ]
        flags = [
            Note(kind="warning", title=f"{one.arm}: {one.code}", text=one.words) for one in self.found.flags[:_FLAGS]
        ]
        if (more := len(self.found.flags) - len(flags)) > 0:
            flags.append(Note(kind="warning", text=f"The section Checks lists {more} more."))
        rough = [
            Note(title=f"{arms}: the interval may be too narrow", text=caution)
            for caution, arms in self.interval_cautions.items()
        ]
        return [*unsafe, *flags, *rough, *(Note(title="Earlier looks", text=line) for line in self.looks)]

    def key_figures(self) -> KeyFigures:
        arms, costs = self.found.arms, [arm.cost_usd for arm in self.found.arms]
        rollouts, reused = sum(arm.rollouts for arm in arms), sum(arm.reused for arm in arms)
        figures = [
            KeyFigure(label="Tasks", value=count(max((arm.tasks for arm in arms), default=0))),
            KeyFigure(label="Rollouts per task", value=count(self.found.k)),
            KeyFigure(
                label="Rollouts in total", value=count(rollouts), sub=f"{count(reused)} reused" if reused else ""
            ),
        ]
        if not self.found.reproducibility.sources:
            figures.append(KeyFigure(label="Spent", value=money(self.found.cost_usd)))
        elif (
            costs and None not in costs
        ):  # logs cost nothing to compare; what their rollouts cost is shown if it is known
            figures.append(KeyFigure(label="Cost of the rollouts", value=money(sum(cost or 0.0 for cost in costs))))
        figures.append(KeyFigure(label="Time", value=duration(self.found.wall_s)))
        detectable = self.found.contrasts[0].detectable if len(self.found.contrasts) == 1 else None
        if detectable is not None:
            value = signed(detectable).lstrip("+")
            figures.append(KeyFigure(label="Detectable difference", value=value, sub="or more, at 80 % power"))
        return KeyFigures(caption="At a glance", figures=tuple(figures))

    def checks(self) -> Section | None:
        """Return the section with notes, flags, missing rollouts and earlier looks; None when there is nothing."""
        parts: list[PagePart] = [Note(text=text) for text in self.found.notes]
        if self.found.flags:
            rows = [(one.arm, one.code, one.words) for one in self.found.flags]
            parts.append(_texts("Flags: reasons not to trust a score", ("Arm", "Code", "Why"), rows))
        if self.found.missing:
            more = len(self.found.missing) - _MISSING
            note = f"{more:,} more are in the JSON of this comparison." if more > 0 else ""
            rows = [(one.task, one.arm, one.reason) for one in self.found.missing[:_MISSING]]
            caption = f"Missing rollouts: {len(self.found.missing):,}"
            parts.append(_texts(caption, ("Task", "Arm", "Reason"), rows, note))
        if self.found.looks:
            texts, numbers = (Column(name="Run"), Column(name="When")), ("Pairs", "p")
            looks = Table(
                caption=f"Earlier looks at these arms (this is look {self.found.look})",
                columns=(*texts, *(Column(name=name, kind="number") for name in numbers)),
                rows=tuple(
                    (TableCell(text=one.run), TableCell(text=one.at), number(one.pairs, count), number(one.p, p_value))
                    for one in self.found.looks
                ),
                note="Each further look at the same arms raises the chance of a false finding. The corrected p allows"
                " for it.",
            )
            parts.append(looks)
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
            parts.append(_texts("Inputs of the comparison", ("Item", "Name", "Value"), rows))
        return Section(title="Reproduce", parts=tuple(parts)) if parts else None


def comparison_page(comparison: Comparison, *, trace_of: Callable[[str], str] | None = None) -> str:
    """Return the comparison as one HTML file that loads nothing. Empty sections are left out.

    trace_of: returns the transcript of a rollout, or empty text. With it, the page includes transcripts of the flips
    that it shows; each transcript, and all together, are limited in size.
    """
    return render_page(_content(comparison, trace_of))


def stored_content(row: "RunRow") -> HtmlPage:
    """Return the content of the page of a stored comparison, without transcripts."""
    return _content(Comparison.model_validate_json(row.report), None)


def _content(comparison: Comparison, trace_of: Callable[[str], str] | None) -> HtmlPage:
    page, numbers, tasks = _Page(comparison), NumberSections(comparison), TaskSections(comparison)
    sections = (
        *(numbers.differences(), numbers.arms(), numbers.passes(), numbers.cost()),
        *(tasks.domains(), tasks.breakdown(), tasks.curve(), tasks.tasks(), tasks.flips(trace_of)),
        *(page.checks(), page.reproducing()),
    )
    return HtmlPage(
        title=clipped(comparison.title, _TITLE),
        kicker="Comparison of agents on the same tasks",
        mark="simulated" if comparison.simulated else "lab model" if comparison.of_lab_models else "",
        front=(*page.findings(), *page.cautions(), page.key_figures()),
        sections=tuple(section for section in sections if section is not None),
        footer="This page is one file. It loads nothing and sends nothing.",
    )
