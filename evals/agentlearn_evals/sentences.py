"""A contrast in one sentence: what is so, how sure that is, and what it would take to know more."""

from agentlearn_evals.comparison import Contrast
from agentlearn_evals.score_table import ScoreTable


def contrast_sentence(contrast: Contrast, table: ScoreTable, level: float) -> str:
    """The verdict in words. Everything in it stands in the contrast, too."""
    arm, baseline = contrast.arm, contrast.baseline
    match contrast.verdict:
        case "better" | "worse":
            return f"{arm} is {contrast.verdict} than {baseline}: {_numbers(contrast, table)}."
        case "no_worse":
            assert contrast.margin is not None
            return (
                f"{arm} is no worse than {baseline} by more than {contrast.margin.margin:g}:"
                f" {_numbers(contrast, table)}, at least {signed_difference(contrast.margin.bound)}"
                f" ({level:.0%}, one-sided)."
            )
        case "cannot_tell":
            if not contrast.wins and not contrast.losses:
                size = _size(contrast, table)
                rollouts = "rollout" if size.endswith(" x 1") else "rollouts"
                return f"Cannot tell {arm} from {baseline}: they scored the same on every task ({size} {rollouts})."
            if contrast.unsafe:
                return f"Cannot tell whether {arm} is better or worse than {baseline}: {contrast.unsafe.rstrip('.')}."
            return (
                f"Cannot tell whether {arm} is better or worse than {baseline}: {_numbers(contrast, table)}."
                f"{_what_it_would_take(contrast)}"
            )


def _numbers(contrast: Contrast, table: ScoreTable) -> str:
    interval = (
        "" if contrast.low is None else f" [{signed_difference(contrast.low)}, {signed_difference(contrast.high)}]"
    )
    p = "" if contrast.p_adjusted is None else f", {p_words(contrast.p_adjusted)}"
    corrected = " corrected" if contrast.p != contrast.p_adjusted else ""
    clusters = f" in {contrast.clusters} clusters" if contrast.clusters < contrast.tasks else ""
    rough = "; the interval may be too narrow" if contrast.caution and interval else ""
    return f"{signed_difference(contrast.mean)}{interval}{p}{corrected}, {_size(contrast, table)}{clusters}{rough}"


def _size(contrast: Contrast, table: ScoreTable) -> str:
    per_task = [len(table.scores[name][task]) for name in (contrast.arm, contrast.baseline) for task in table.tasks]
    k = f"{min(per_task)}" if min(per_task) == max(per_task) else f"{min(per_task)} to {max(per_task)}"
    return f"{contrast.tasks} task{'s' if contrast.tasks != 1 else ''} x {k}"


def _what_it_would_take(contrast: Contrast) -> str:
    words = ""
    if contrast.detectable is not None:
        words = f" Shown would be differences from {contrast.detectable:.3f} on."
    if not contrast.mean or (contrast.tasks_needed is None and contrast.rollouts_needed is None):
        return words
    ways: list[str] = []
    now = round(contrast.pairs / contrast.tasks)
    if contrast.rollouts_needed is not None and contrast.rollouts_needed > now:
        ways.append(f"{contrast.rollouts_needed:,} rollouts per task")
    if contrast.tasks_needed is not None and contrast.tasks_needed > contrast.tasks:
        ways.append(f"{contrast.tasks_needed:,} tasks")
    return (
        f"{words} To show one of {abs(contrast.mean):.3f} it would take about {' or '.join(ways)}." if ways else words
    )


def signed_difference(value: float | None) -> str:
    """A difference with its sign, to three digits."""
    return "-" if value is None else f"{value:+.3f}"


def p_words(p: float) -> str:
    """A p-value as it is written."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
