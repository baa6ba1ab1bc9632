"""States a contrast in one or two sentences: the verdict, its numbers, and what would be needed to know more."""

import math

from agentlearn.measure.contrast import Contrast, ContrastVerdict
from agentlearn.measure.score_table import ScoreTable
from agentlearn.text import number_text


def contrast_sentence(contrast: Contrast, table: ScoreTable, level: float) -> str:
    """Return the verdict in words. level: confidence level of the intervals, such as 0.95."""
    arm, baseline = contrast.arm, contrast.baseline
    match contrast.verdict:
        case "better" | "worse":
            return f"{arm} is {contrast.verdict} than {baseline}: {_numbers(contrast, table)}."
        case "no_worse":
            assert contrast.margin is not None
            return (
                f"{arm} is not worse than {baseline} by more than {contrast.margin.margin:g}:"
                f" {_numbers(contrast, table)}; one-sided {level:.0%} lower bound"
                f" {signed_difference(contrast.margin.bound)}."
            )
        case "cannot_tell":
            return _without_verdict(contrast, table)


def _without_verdict(contrast: Contrast, table: ScoreTable) -> str:
    arm, baseline = contrast.arm, contrast.baseline
    if contrast.unsafe:
        return f"Cannot tell whether {arm} is better or worse than {baseline}: {contrast.unsafe.rstrip('.')}."
    if contrast.withheld:
        return f"{contrast.withheld} Measured from {baseline} to {arm}: {_numbers(contrast, table)}."
    if contrast.left_open:
        start = f"Cannot tell whether {arm} is better or worse than {baseline}: {contrast.left_open}."
        return f"{start} Measured without them, from {baseline} to {arm}: {_numbers(contrast, table)}."
    if not contrast.wins and not contrast.losses and not contrast.undecided.total:
        size = _size(contrast, table)
        return f"Cannot tell {arm} from {baseline}: both have the same score on every task ({size})."
    start = f"No detectable change from {baseline} to {arm}"
    if contrast.low is not None and contrast.high is not None and (contrast.low > 0 or contrast.high < 0):
        start = f"Not certain whether {arm} is {'better' if contrast.low > 0 else 'worse'} than {baseline}"
    if contrast.low is None:
        start = f"Cannot tell whether {arm} is better or worse than {baseline}"
    return f"{start}: {_numbers(contrast, table)}.{_what_would_be_needed(contrast)}"


def assumption_sentence(
    contrast: Contrast,
    shown: ContrastVerdict,
    factor: float,
    score_range: tuple[float, float],
    *,
    right_or_wrong: bool,
) -> str:
    """Return the assumption under which the withheld verdict `shown` would hold. factor: see `Contrast.sensitivity`.

    right_or_wrong: whether all scores are at an end of the range.
    """
    times = f"{math.floor(factor * 10) / 10:g}"
    gap = contrast.undecided
    parts: list[str] = []
    for count, name, wrong in (
        (gap.arm, contrast.arm, shown == "better"),
        (gap.baseline, contrast.baseline, shown == "worse"),
    ):
        how = f"{'wrong' if wrong else 'right'} more than {times} times as often as its others"
        if not right_or_wrong:
            end, verb = (score_range[1], "below") if wrong else (score_range[0], "above")
            how = f"further {verb} {end:g}, on average, than {times} times as far as its others"
        if count:
            lost = f"{count:,} lost rollout{'s' if count != 1 else ''}"
            parts.append(f"the {lost} of {name} {'are' if count != 1 else 'is'} not {how}")
    return f"Under an assumption, {contrast.arm} is {shown} than {contrast.baseline}: as long as {' and '.join(parts)}."


def _numbers(contrast: Contrast, table: ScoreTable) -> str:
    low, high = signed_difference(contrast.low), signed_difference(contrast.high)
    interval = "" if contrast.low is None else f" [{low}, {high}]"
    scores = ""
    if contrast.score is not None and contrast.baseline_score is not None:
        scores = f"{number_text(contrast.baseline_score, 3)} → {number_text(contrast.score, 3)}, "
    clusters = f" in {contrast.clusters} clusters" if contrast.clusters < contrast.tasks else ""
    if contrast.only_cluster:
        clusters = f", all of {contrast.only_cluster!r} and therefore about such tasks only"
    return (
        f"{scores}{signed_difference(contrast.mean)}{interval}, {_size(contrast, table)}{clusters}"
        f"{_cautions(contrast)}{_bounds(contrast)}"
    )


def _cautions(contrast: Contrast) -> str:
    """Return the cautions that belong with the numbers."""
    rough = "; the interval may be too narrow" if contrast.caution and contrast.low is not None else ""
    carried = f"; {contrast.carried}" if contrast.carried else ""
    return f"{rough}{carried}"


def _bounds(contrast: Contrast) -> str:
    """Return how far rollouts without a score could change the difference; empty if there are none, or if the sentence
    says it already."""
    if not contrast.undecided.total or contrast.left_open:
        return ""
    number = f"; {contrast.undecided.total:,} rollouts have no score"
    if contrast.worst is None:
        return f"{number}, and the range of the scores is not known"
    low, high = signed_difference(contrast.worst.low), signed_difference(contrast.worst.high)
    return f"{number}, and with them it is between {low} and {high}"


def _size(contrast: Contrast, table: ScoreTable) -> str:
    tasks = f"{contrast.tasks} task{'s' if contrast.tasks != 1 else ''}"
    sides = [
        (name, {len(table.scores[name][task]) for task in table.tasks}) for name in (contrast.baseline, contrast.arm)
    ]
    counts = sides[0][1] | sides[1][1]
    if all(len(own) == 1 for _, own in sides) and len(counts) == 2:
        (first, one), (second, other) = ((name, own.pop()) for name, own in sides)
        return f"{tasks} x {one} rollout{'s' if one != 1 else ''} of {first} and {other} of {second}"
    k = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"{tasks} x {k} rollout{'s' if k != '1' else ''}"


def _what_would_be_needed(contrast: Contrast) -> str:
    words = ""
    if contrast.detectable is not None:
        least = f"{contrast.detectable:.3f}"
        words = f" This comparison could reliably detect only differences of {least} or more (80 % power)."
    if not contrast.mean or (contrast.tasks_needed is None and contrast.rollouts_needed is None):
        return words
    ways: list[str] = []
    now = round(contrast.pairs / contrast.tasks)
    if contrast.rollouts_needed is not None and contrast.rollouts_needed > now:
        ways.append(f"{contrast.rollouts_needed:,} rollouts per task")
    if contrast.tasks_needed is not None and contrast.tasks_needed > contrast.tasks:
        ways.append(f"{contrast.tasks_needed:,} tasks")
    if not ways:
        return words
    return f"{words} Detecting a difference of {abs(contrast.mean):.3f} would need about {' or '.join(ways)}."


def signed_difference(value: float | None) -> str:
    """Return a difference with its sign and three digits, or more where it would look like 0; `-` for None."""
    return "-" if value is None else number_text(value, 3, sign=True)
