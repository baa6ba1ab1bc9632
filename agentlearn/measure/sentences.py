"""States a contrast in one or two sentences: the verdict, its numbers, and what would be needed to know more."""

import math

from agentlearn.measure.contrast import Contrast, ContrastVerdict
from agentlearn.measure.score_table import ScoreTable
from agentlearn.text import number_text


def contrast_sentence(contrast: Contrast, table: ScoreTable, level: float) -> str:
    """Return the verdict in words. level: confidence level of the intervals, such as 0.95."""
    arm, baseline = contrast.arm, contrast.baseline
    numbers = _numbers(contrast, table)
    if contrast.verdict in {"better", "worse"}:
        return f"{arm} is {contrast.verdict} than {baseline}: {numbers}."
    if contrast.verdict == "no_worse":
        assert contrast.margin is not None
        bound = f"one-sided {level:.0%} lower bound {signed_difference(contrast.margin.bound)}"
        return f"{arm} is not worse than {baseline} by more than {contrast.margin.margin:g}: {numbers}; {bound}."
    unknown = f"Cannot tell whether {arm} is better or worse than {baseline}"
    if contrast.unsafe:
        return f"{unknown}: {contrast.unsafe.rstrip('.')}."
    if contrast.withheld:
        return f"{contrast.withheld} Measured from {baseline} to {arm}: {numbers}."
    if contrast.left_open:
        return f"{unknown}: {contrast.left_open}. Measured without them, from {baseline} to {arm}: {numbers}."
    if not contrast.wins and not contrast.losses and not contrast.undecided.total:
        size = _size(contrast, table)
        return f"Cannot tell {arm} from {baseline}: both have the same score on every task ({size})."
    start = f"No detectable change from {baseline} to {arm}"
    if contrast.low is None or contrast.high is None:
        start = unknown
    elif contrast.low > 0 or contrast.high < 0:
        start = f"Not certain whether {arm} is {'better' if contrast.low > 0 else 'worse'} than {baseline}"
    return f"{start}: {numbers}.{_what_would_be_needed(contrast)}"


def assumption_sentence(
    contrast: Contrast, shown: ContrastVerdict, factor: float, score_range: tuple[float, float], *, right_or_wrong: bool
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
    """Return the scores, the difference with its interval, the size, and the cautions that belong with them."""
    low, high = signed_difference(contrast.low), signed_difference(contrast.high)
    interval = "" if contrast.low is None else f" [{low}, {high}]"
    scores = ""
    if contrast.score is not None and contrast.baseline_score is not None:
        scores = f"{number_text(contrast.baseline_score, 3)} → {number_text(contrast.score, 3)}, "
    clusters = f" in {contrast.clusters} clusters" if contrast.clusters < contrast.tasks else ""
    if contrast.only_cluster:
        clusters = f", all of {contrast.only_cluster!r} and therefore about such tasks only"
    rough = "; the interval may be too narrow" if contrast.caution and contrast.low is not None else ""
    carried = f"; {contrast.carried}" if contrast.carried else ""
    bounds = ""
    if contrast.undecided.total and not contrast.left_open:  # otherwise the sentence says it already
        bounds = f"; {contrast.undecided.total:,} rollouts have no score, and the range of the scores is not known"
        if contrast.worst is not None:
            low, high = signed_difference(contrast.worst.low), signed_difference(contrast.worst.high)
            lost = f"; {contrast.undecided.total:,} rollouts have no score"
            bounds = f"{lost}, and with them it is between {low} and {high}"
    difference = signed_difference(contrast.mean)
    return f"{scores}{difference}{interval}, {_size(contrast, table)}{clusters}{rough}{carried}{bounds}"


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
    ways: list[str] = []
    if (rollouts := contrast.rollouts_needed) is not None and rollouts > round(contrast.pairs / contrast.tasks):
        ways.append(f"{rollouts:,} rollouts per task")
    if (tasks := contrast.tasks_needed) is not None and tasks > contrast.tasks:
        ways.append(f"{tasks:,} tasks")
    if not ways or not contrast.mean:
        return words
    return f"{words} Detecting a difference of {abs(contrast.mean):.3f} would need about {' or '.join(ways)}."


def signed_difference(value: float | None) -> str:
    """Return a difference with its sign and three digits, or more where it would look like 0; `-` for None."""
    return "-" if value is None else number_text(value, 3, sign=True)
