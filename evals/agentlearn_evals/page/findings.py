"""The top of the comparison page: one sentence per contrast, the forest plot, warnings and key figures."""

from collections.abc import Mapping

from agentlearn.measure.contrast import Contrast, ContrastVerdict
from agentlearn.views import (
    CodeBlock,
    Column,
    Forest,
    ForestRow,
    KeyFigure,
    KeyFigures,
    Note,
    PagePart,
    Paragraph,
    Section,
    Statement,
    Table,
    TableCell,
    Tone,
)
from agentlearn.views.figure import count, duration, money, p_value, signed
from agentlearn.views.markup import clipped
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.contrast_words import cautions, full_sentence, looks_words, worst_first

TONES: dict[ContrastVerdict, Tone] = {"better": "good", "worse": "bad", "no_worse": "held", "cannot_tell": "open"}
WORDS: dict[ContrastVerdict, str] = {
    "better": "better",
    "worse": "worse",
    "no_worse": "no worse",
    "cannot_tell": "cannot tell",
}

SENTENCE = 500
"""Largest number of characters of a sentence that is shown."""


def opening_parts(comparison: Comparison) -> tuple[PagePart, ...]:
    """Return everything above the first section."""
    parts: list[PagePart] = [Note(kind="warning", text=text) for text in comparison.warnings]
    for one in worst_first(comparison.contrasts):
        parts.append(Statement(text=_sentence(one), tone=TONES[one.verdict]))
        parts += [Paragraph(text=one.holds_if)] if one.holds_if else []
    parts.append(Paragraph(text=_what_is_compared(comparison), quiet=True))
    if comparison.simulated:
        parts.append(Paragraph(text=SIMULATED, quiet=True))
    parts += _forest(comparison)
    parts += _warnings(comparison)
    parts.append(_key_figures(comparison))
    return tuple(parts)


SIMULATED = (
    "A simulated model answered: these numbers show how the comparison works. They are not a result about a real model."
)


def scale_limits(values: list[float | None]) -> tuple[float, float]:
    """Return the limits of a scale of differences: -1 and 1, unless scores go beyond 0 to 1."""
    usual = all(value is None or abs(value) <= 1 for value in values)
    return (-1.0, 1.0) if usual else (-float("inf"), float("inf"))


def level_text(comparison: Comparison) -> str:
    """Return the confidence level as text: `95 %`."""
    return f"{comparison.level * 100:g} %"


def _what_is_compared(comparison: Comparison) -> str:
    with_what = f"Every arm is compared with the baseline, {comparison.baseline}, on the same tasks."
    if comparison.pairwise:
        with_what = f"These {len(comparison.contrasts)} pairs of arms are compared, on the same tasks."
    return f"Each arm is one variant of the agent, such as a library of lessons, a model or instructions. {with_what}"


def _sentence(contrast: Contrast) -> str:
    plain = f"{contrast.arm} against {contrast.baseline}: {WORDS[contrast.verdict]}."
    return clipped(full_sentence(contrast) or plain, SENTENCE)


def _forest(comparison: Comparison) -> list[PagePart]:
    if not comparison.contrasts:
        return []
    rows = tuple(
        ForestRow(
            label=comparison.label(one),
            sub=f"{count(one.tasks)} tasks · {count(one.pairs)} pairs",
            mean=one.mean,
            low=one.low,
            high=one.high,
            margin=one.margin.margin if one.margin else None,
            tone=TONES[one.verdict],
            words=WORDS[one.verdict],
        )
        for one in comparison.contrasts
    )
    base = comparison.baseline
    caption, left, right = f"Difference in mean score from {base}", base, rows[0].label if len(rows) == 1 else "arm"
    if comparison.pairwise:
        caption, left, right = "Difference in mean score, first arm minus second", "second", "first"
    figure = Forest(
        caption=caption,
        rows=rows,
        left=f"{left} better",
        right=f"{right} better",
        limits=scale_limits([row.mean for row in rows]),
        note=f"Mean over tasks with its {level_text(comparison)} interval, on the same tasks and rollout indexes.",
    )
    return [figure]


def _warnings(comparison: Comparison) -> list[PagePart]:
    """Return the warnings that a reader should see before trusting the sentences."""
    unsafe = [
        Note(kind="warning", title=f"{comparison.label(one)}: these scores cannot be trusted", text=one.unsafe)
        for one in comparison.contrasts
        if one.unsafe
    ]
    rough = [
        Note(title=f"{arms}: the interval may be too narrow", text=caution)
        for caution, arms in cautions(comparison).items()
    ]
    flags = [Note(kind="warning", title=f"{flag.arm}: {flag.code}", text=flag.words) for flag in comparison.flags[:5]]
    more = len(comparison.flags) - len(flags)
    rest = [Note(kind="warning", text=f"The section Checks lists {more} more.")] if more > 0 else []
    looks = [Note(title="Earlier looks", text=line) for line in looks_words(comparison)]
    return [*unsafe, *flags, *rest, *rough, *looks]


def _spent(comparison: Comparison) -> list[KeyFigure]:
    """Return what was spent. Logs cost nothing to compare; what their rollouts cost is shown if it is known."""
    if not comparison.reproducibility.sources:
        return [KeyFigure(label="Spent", value=money(comparison.cost_usd))]
    costs = [arm.cost_usd for arm in comparison.arms]
    known = [cost for cost in costs if cost is not None]
    return [KeyFigure(label="Cost of the rollouts", value=money(sum(known)))] if known and known == costs else []


def _key_figures(comparison: Comparison) -> KeyFigures:
    arms = comparison.arms
    rollouts, reused = sum(arm.rollouts for arm in arms), sum(arm.reused for arm in arms)
    figures = [
        KeyFigure(label="Tasks", value=count(max((arm.tasks for arm in arms), default=0))),
        KeyFigure(label="Rollouts per task", value=count(comparison.k)),
        KeyFigure(label="Rollouts in total", value=count(rollouts), sub=f"{count(reused)} reused" if reused else ""),
        *_spent(comparison),
        KeyFigure(label="Time", value=duration(comparison.wall_s)),
    ]
    if len(comparison.contrasts) == 1 and comparison.contrasts[0].detectable is not None:
        detectable = comparison.contrasts[0].detectable
        figures.append(
            KeyFigure(label="Detectable difference", value=signed(detectable).lstrip("+"), sub="or more, at 80 % power")
        )
    return KeyFigures(caption="At a glance", figures=tuple(figures))


MISSING_SHOWN = 200
"""Largest number of missing rollouts that is shown."""


def checks_section(comparison: Comparison) -> Section | None:
    """Return the section; None when there is nothing to report."""
    tables = (_flags(comparison), _missing(comparison), _looks(comparison))
    parts: list[PagePart] = [Note(text=text) for text in comparison.notes]
    if comparison.sequential:
        parts.append(Note(title="Sequential", text=comparison.sequential))
    parts += [table for table in tables if table is not None]
    return Section(title="Checks", parts=tuple(parts)) if parts else None


def _flags(comparison: Comparison) -> Table | None:
    if not comparison.flags:
        return None
    return Table(
        caption="Flags: reasons not to trust a score",
        columns=(Column(name="Arm"), Column(name="Code"), Column(name="Why")),
        rows=tuple(
            (TableCell(text=one.arm), TableCell(text=one.code), TableCell(text=one.words)) for one in comparison.flags
        ),
    )


def _missing(comparison: Comparison) -> Table | None:
    if not comparison.missing:
        return None
    more = len(comparison.missing) - MISSING_SHOWN
    return Table(
        caption=f"Missing rollouts: {len(comparison.missing):,}",
        columns=(Column(name="Task"), Column(name="Arm"), Column(name="Reason")),
        rows=tuple(
            (TableCell(text=one.task), TableCell(text=one.arm), TableCell(text=one.reason))
            for one in comparison.missing[:MISSING_SHOWN]
        ),
        note=f"{more:,} more are in the JSON of this comparison." if more > 0 else "",
    )


def _looks(comparison: Comparison) -> Table | None:
    if not comparison.looks:
        return None
    return Table(
        caption=f"Earlier looks at these arms (this is look {comparison.look})",
        columns=(
            Column(name="Run"),
            Column(name="When"),
            Column(name="Pairs", kind="number"),
            Column(name="p", kind="number"),
        ),
        rows=tuple(
            (
                TableCell(text=one.run),
                TableCell(text=one.at),
                TableCell(text=count(one.pairs), value=one.pairs),
                TableCell(text=p_value(one.p), value=one.p),
            )
            for one in comparison.looks
        ),
        note="Each further look at the same arms raises the chance of a false finding. The corrected p allows for it.",
    )


def reproducing_section(comparison: Comparison) -> Section | None:
    """Return the section; None when nothing is known."""
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
    rows = tuple(
        (TableCell(text=kind), TableCell(text=name), TableCell(text=value)) for kind, name, value in named if value
    )
    parts: list[PagePart] = []
    if facts.command:
        parts.append(CodeBlock(text=facts.command))
    if rows:
        columns = (Column(name="Item"), Column(name="Name"), Column(name="Value"))
        parts.append(Table(caption="Inputs of the comparison", columns=columns, rows=rows))
    return Section(title="Reproduce", parts=tuple(parts)) if parts else None


def _each(kind: str, by_arm: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return one row per arm; one row for all arms when they have the same value."""
    if len(by_arm) > 1 and len(set(by_arm.values())) == 1:
        return [(kind, "all arms", value) for value in set(by_arm.values())]
    return [(kind, name, value) for name, value in by_arm.items()]
