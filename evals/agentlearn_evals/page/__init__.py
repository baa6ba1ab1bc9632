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
from agentlearn_evals.comparison_words import (
    TONES,
    VERDICTS,
    full_sentence,
    interval_cautions,
    looks_words,
    model_caution,
    worst_first,
)
from agentlearn_evals.page.number_sections import (
    arms_section,
    cost_section,
    differences_section,
    level_text,
    number,
    passes_section,
    scale_limits,
)
from agentlearn_evals.page.task_sections import (
    breakdown_section,
    curve_section,
    domains_section,
    flips_section,
    tasks_section,
)

if TYPE_CHECKING:
    from agentlearn.store import RunRow

__all__ = ["comparison_page"]

_TITLE, _SENTENCE = 200, 500
"""Largest number of characters of the title, and of a sentence, that are shown."""
_FLAGS, _MISSING = 5, 200
"""Largest number of flags at the top, and of missing rollouts, that are shown."""


def comparison_page(comparison: Comparison, *, trace_of: Callable[[str], str] | None = None) -> str:
    """Return the comparison as one HTML file that loads nothing. Empty sections are left out.

    trace_of: returns the transcript of a rollout, or empty text. With it, the page includes transcripts of the flips
    that it shows; each transcript, and all together, are limited in size.
    """
    return render_page(comparison_content(comparison, trace_of=trace_of))


def stored_content(row: "RunRow") -> HtmlPage:
    """Return the content of the page of a stored comparison, without transcripts."""
    return comparison_content(Comparison.model_validate_json(row.report))


def comparison_content(comparison: Comparison, *, trace_of: Callable[[str], str] | None = None) -> HtmlPage:
    """Return the content of the page of a comparison, see `comparison_page`."""
    sections = (
        differences_section(comparison),
        arms_section(comparison),
        passes_section(comparison),
        cost_section(comparison),
        domains_section(comparison),
        breakdown_section(comparison),
        curve_section(comparison),
        tasks_section(comparison),
        flips_section(comparison, trace_of),
        _checks(comparison),
        _reproducing(comparison),
    )
    return HtmlPage(
        title=clipped(comparison.title, _TITLE),
        kicker="Comparison of agents on the same tasks",
        mark="simulated" if comparison.simulated else "lab model" if comparison.of_lab_models else "",
        front=(*_findings(comparison), *_cautions(comparison), _key_figures(comparison)),
        sections=tuple(section for section in sections if section is not None),
        footer="This page is one file. It loads nothing and sends nothing.",
    )


def _findings(comparison: Comparison) -> list[PagePart]:
    """Return what was lost, one sentence per contrast, what is compared, and the forest plot."""
    parts: list[PagePart] = [Note(kind="warning", text=text) for text in comparison.warnings]
    for one in worst_first(comparison.contrasts):
        plain = f"{one.arm} against {one.baseline}: {VERDICTS[one.verdict]}."
        parts.append(Statement(text=clipped(full_sentence(one) or plain, _SENTENCE), tone=TONES[one.verdict]))
        parts += [Paragraph(text=one.holds_if)] if one.holds_if else []
    with_what = f"Every arm is compared with the baseline, {comparison.baseline}, on the same tasks."
    if comparison.pairwise:
        with_what = f"These {len(comparison.contrasts)} pairs of arms are compared, on the same tasks."
    what = f"Each arm is one variant of the agent, such as a library of lessons, a model or instructions. {with_what}"
    parts.append(Paragraph(text=what, quiet=True))
    if comparison.simulated:
        parts.append(Paragraph(text=model_caution(comparison), quiet=True))
    return [*parts, *_forest(comparison)]


def _forest(comparison: Comparison) -> list[PagePart]:
    rows = tuple(
        ForestRow(
            label=comparison.label(one),
            sub=f"{count(one.tasks)} tasks · {count(one.pairs)} pairs",
            mean=one.mean,
            low=one.low,
            high=one.high,
            margin=one.margin.margin if one.margin else None,
            tone=TONES[one.verdict],
            words=VERDICTS[one.verdict],
        )
        for one in comparison.contrasts
    )
    if not rows:
        return []
    base = comparison.baseline
    caption, left, right = f"Difference in mean score from {base}", base, rows[0].label if len(rows) == 1 else "arm"
    if comparison.pairwise:
        caption, left, right = "Difference in mean score, first arm minus second", "second", "first"
    figure = Forest(
        caption=caption,
        rows=rows,
        left=f"{left} better",
        right=f"{right} better",
        limits=scale_limits(row.mean for row in rows),
        note=f"Mean over tasks with its {level_text(comparison)} interval, on the same tasks and rollout indexes.",
    )
    return [figure]


def _cautions(comparison: Comparison) -> list[PagePart]:
    """Return what a reader should see before trusting the sentences."""
    unsafe = [
        Note(kind="warning", title=f"{comparison.label(one)}: these scores cannot be trusted", text=one.unsafe)
        for one in comparison.contrasts
        if one.unsafe
    ]
    flags = [Note(kind="warning", title=f"{one.arm}: {one.code}", text=one.words) for one in comparison.flags[:_FLAGS]]
    if (more := len(comparison.flags) - len(flags)) > 0:
        flags.append(Note(kind="warning", text=f"The section Checks lists {more} more."))
    rough = [
        Note(title=f"{arms}: the interval may be too narrow", text=caution)
        for caution, arms in interval_cautions(comparison).items()
    ]
    return [*unsafe, *flags, *rough, *(Note(title="Earlier looks", text=line) for line in looks_words(comparison))]


def _key_figures(comparison: Comparison) -> KeyFigures:
    arms, costs = comparison.arms, [arm.cost_usd for arm in comparison.arms]
    rollouts, reused = sum(arm.rollouts for arm in arms), sum(arm.reused for arm in arms)
    figures = [
        KeyFigure(label="Tasks", value=count(max((arm.tasks for arm in arms), default=0))),
        KeyFigure(label="Rollouts per task", value=count(comparison.k)),
        KeyFigure(label="Rollouts in total", value=count(rollouts), sub=f"{count(reused)} reused" if reused else ""),
    ]
    if not comparison.reproducibility.sources:
        figures.append(KeyFigure(label="Spent", value=money(comparison.cost_usd)))
    elif costs and None not in costs:  # logs cost nothing to compare; what their rollouts cost is shown if it is known
        figures.append(KeyFigure(label="Cost of the rollouts", value=money(sum(cost or 0.0 for cost in costs))))
    figures.append(KeyFigure(label="Time", value=duration(comparison.wall_s)))
    detectable = comparison.contrasts[0].detectable if len(comparison.contrasts) == 1 else None
    if detectable is not None:
        value = signed(detectable).lstrip("+")
        figures.append(KeyFigure(label="Detectable difference", value=value, sub="or more, at 80 % power"))
    return KeyFigures(caption="At a glance", figures=tuple(figures))


def _checks(comparison: Comparison) -> Section | None:
    """Return the section with notes, flags, missing rollouts and earlier looks; None when there is nothing."""
    parts: list[PagePart] = [Note(text=text) for text in comparison.notes]
    if comparison.sequential:
        parts.append(Note(title="Sequential", text=comparison.sequential))
    if comparison.flags:
        rows = [(one.arm, one.code, one.words) for one in comparison.flags]
        parts.append(_texts("Flags: reasons not to trust a score", ("Arm", "Code", "Why"), rows))
    if comparison.missing:
        more = len(comparison.missing) - _MISSING
        note = f"{more:,} more are in the JSON of this comparison." if more > 0 else ""
        rows = [(one.task, one.arm, one.reason) for one in comparison.missing[:_MISSING]]
        caption = f"Missing rollouts: {len(comparison.missing):,}"
        parts.append(_texts(caption, ("Task", "Arm", "Reason"), rows, note))
    if comparison.looks:
        texts, numbers = (Column(name="Run"), Column(name="When")), ("Pairs", "p")
        looks = Table(
            caption=f"Earlier looks at these arms (this is look {comparison.look})",
            columns=(*texts, *(Column(name=name, kind="number") for name in numbers)),
            rows=tuple(
                (TableCell(text=one.run), TableCell(text=one.at), number(one.pairs, count), number(one.p, p_value))
                for one in comparison.looks
            ),
            note="Each further look at the same arms raises the chance of a false finding. The corrected p allows for"
            " it.",
        )
        parts.append(looks)
    return Section(title="Checks", parts=tuple(parts)) if parts else None


def _reproducing(comparison: Comparison) -> Section | None:
    """Return the section with everything to repeat the comparison; None when nothing is known."""
    facts = comparison.reproducibility
    named = (
        ("Run", "", comparison.run),
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


def _each(kind: str, by_arm: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return one row per arm; one row for all arms when they have the same value."""
    if len(by_arm) > 1 and len(set(by_arm.values())) == 1:
        return [(kind, "all arms", next(iter(by_arm.values())))]
    return [(kind, name, value) for name, value in by_arm.items()]


def _texts(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Table:
    """Return a table of texts."""
    cells = tuple(tuple(TableCell(text=text) for text in row) for row in rows)
    return Table(caption=caption, columns=tuple(Column(name=name) for name in names), rows=cells, note=note)
