"""The top of the comparison page: one sentence per contrast, the forest plot, warnings and key figures."""

from agentlearn.html import Forest, ForestRow, KeyFigure, KeyFigures, Note, PagePart, Paragraph, Statement, Tone
from agentlearn.html.markup import clipped
from agentlearn.html.number_format import count, duration, money, signed
from agentlearn.measure.contrast import Contrast, ContrastVerdict
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
