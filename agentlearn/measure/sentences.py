"""States a contrast in one or two sentences: the verdict, its numbers, and what would be needed to know more."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from agentlearn.measure.contrast import Contrast, ContrastVerdict, Undecided
from agentlearn.measure.score_table import ScoreTable
from agentlearn.stats import estimate_difference
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


_MISSING = "missing"
"""Code of a rollout that only the other arm has."""
_CODES = 3
"""Number of codes that are named per arm."""
_HALVINGS = 12
"""Bisections of the factor of `sensitivity`."""

_Pair = tuple[str, int]
"""Task and index of a rollout."""
_Differences = tuple[list[float], list[str]]
"""Arm minus baseline of each task, and the cluster of each task."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The rollouts of one arm that it should have: scores, and codes of those without a score."""

    scores: dict[_Pair, float]
    codes: dict[_Pair, str]

    @property
    def mean(self) -> float:
        """Mean score of the decided rollouts."""
        return math.fsum(self.scores.values()) / len(self.scores)

    def means(self, fill: float, slope: float = 0.0) -> dict[str, float]:
        """Return the mean of each task, with `fill` in place of every score that is not known.

        slope: change of `fill` with the arm's mean score. Each task's share in the error of that mean is then added to
        its value, which leaves the mean over tasks as it is and gives it its full variance.
        """
        by_task: defaultdict[str, list[float]] = defaultdict(list)
        lost: Counter[str] = Counter(task for task, _ in self.codes)
        for (task, _), score in self.scores.items():
            by_task[task].append(score)
        found = {
            task: math.fsum((*by_task[task], lost[task] * fill)) / (len(by_task[task]) + lost[task])
            for task in dict.fromkeys((*by_task, *lost))
        }
        if not slope:
            return found
        filled = math.fsum(lost[task] / (len(by_task[task]) + lost[task]) for task in lost)
        mean = self.mean
        return {
            task: value + slope * filled * math.fsum(score - mean for score in by_task[task]) / len(self.scores)
            for task, value in found.items()
        }


def count_undecided(table: ScoreTable, arm: str, baseline: str) -> Undecided:
    """Return how many rollouts of both arms have no score."""
    if not table.dropped and not table.missing:
        return Undecided()
    mine, other = _sides(table, arm, baseline)
    return Undecided(
        arm=len(mine.codes),
        baseline=len(other.codes),
        arm_codes=tuple(Counter(mine.codes.values()).most_common(_CODES)),
        baseline_codes=tuple(Counter(other.codes.values()).most_common(_CODES)),
        rollouts=sum(len(side.codes) + len(side.scores) for side in (mine, other)),
    )


def worst_differences(
    table: ScoreTable, arm: str, baseline: str, score_range: tuple[float, float], *, against: bool
) -> _Differences:
    """Return the differences of all tasks when every rollout without a score went against the arm, or in its favour.

    score_range: lowest and highest possible score.
    """
    mine, other = _sides(table, arm, baseline)
    lowest, highest = score_range if against else score_range[::-1]
    return _differences(table, mine.means(lowest), other.means(highest))


def sensitivity(
    table: ScoreTable, arm: str, baseline: str, score_range: tuple[float, float], level: float, *, against: bool
) -> float | None:
    """Return how many times as often as the others the rollouts without a score may be wrong, or right, at most.

    With `against`, lost rollouts of the arm fall short of the highest score by this factor times as much as
    its others do, and those of the baseline exceed the lowest score by this factor times as much; otherwise the other
    way around. Up to this factor the interval at `level` excludes 0. None when it does not even at 1, when the factor
    has no limit, or when an arm has no wrong (right) rollout among the decided ones.
    """
    low, high = score_range
    sides = _sides(table, arm, baseline)
    falls = (against, not against)
    gaps = [high - side.mean if short else side.mean - low for side, short in zip(sides, falls, strict=True)]
    lost = [gap for side, gap in zip(sides, gaps, strict=True) if side.codes]
    if not lost or min(lost) <= 0:
        return None

    def holds(factor: float) -> bool:
        means: list[dict[str, float]] = []
        for side, short, gap in zip(sides, falls, gaps, strict=True):
            away = min(high - low, factor * gap)
            means.append(side.means(high - away if short else low + away, factor * (away < high - low)))
        differences, clusters = _differences(table, *means)
        found = estimate_difference(differences, clusters=clusters, level=level, largest=2 * (high - low))
        if found.low is None or found.high is None:
            return False
        return found.low > 0 if against else found.high < 0

    reached, beyond = 1.0, max((high - low) / gap for gap in lost)
    if not holds(reached) or holds(beyond):
        return None
    for _ in range(_HALVINGS):
        middle = math.sqrt(reached * beyond)
        reached, beyond = (middle, beyond) if holds(middle) else (reached, middle)
    return reached


def _differences(table: ScoreTable, mine: Mapping[str, float], other: Mapping[str, float]) -> _Differences:
    tasks = [task for task in mine if task in other]
    labels = [table.facts[task].cluster or f"task {task}" for task in tasks]
    if len(set(labels)) == 1:  # as in `ScoreTable.clusters`
        labels = [f"task {task}" for task in tasks]
    return [mine[task] - other[task] for task in tasks], labels


def _sides(table: ScoreTable, arm: str, baseline: str) -> tuple[_Side, _Side]:
    """Return both arms' rollouts, those that they should have and do not have included.

    An arm that was run with fewer rollouts of every task has lost none.
    """
    found = [{(one.task, one.g): one for one in table.all[name]} for name in (arm, baseline)]
    every = dict.fromkeys(pair for rollouts in reversed(found) for pair in rollouts)
    sides: list[_Side] = []
    for rollouts in found:
        by_task: defaultdict[str, set[int]] = defaultdict(set)
        for task, g in rollouts:
            by_task[task].add(g)
        k = len(next(iter(by_task.values())))
        limit = k if all(indexes == set(range(k)) for indexes in by_task.values()) else math.inf
        side = _Side({}, {})
        for pair in (pair for pair in every if pair[1] < limit):
            one = rollouts.get(pair)
            if one is not None and one.score is not None:
                side.scores[pair] = one.score
            else:
                side.codes[pair] = _MISSING if one is None else one.error or "undecided"
        sides.append(side)
    return sides[0], sides[1]
