"""Rollouts without a score: how many each arm has, what they could change, and under which assumption they do not."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.measure.contrast import Undecided
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable
from agentlearn.stats import estimate_difference

MISSING = "missing"
"""Code of a rollout that only the other arm has."""
_CODES = 3
"""Number of codes that are named per arm."""
_HALVINGS = 12
"""Bisections of the factor of `sensitivity`."""

Pair = tuple[str, int]
"""Task and index of a rollout."""
Differences = tuple[list[float], list[str]]
"""Arm minus baseline of each task, and the cluster of each task."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The rollouts of one arm that it should have: scores, and codes of those without a score."""

    scores: Mapping[Pair, float]
    codes: Mapping[Pair, str]

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
) -> Differences:
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


def _differences(table: ScoreTable, mine: Mapping[str, float], other: Mapping[str, float]) -> Differences:
    tasks = [task for task in mine if task in other]
    labels = [table.facts[task].cluster or f"task {task}" for task in tasks]
    if len(set(labels)) == 1:  # as in `ScoreTable.clusters`
        labels = [f"task {task}" for task in tasks]
    return [mine[task] - other[task] for task in tasks], labels


def _sides(table: ScoreTable, arm: str, baseline: str) -> tuple[_Side, _Side]:
    """Return both arms' rollouts, those that they should have and do not have included."""
    found = [{(one.task, one.g): one for one in table.all[name]} for name in (arm, baseline)]
    every = dict.fromkeys(pair for rollouts in reversed(found) for pair in rollouts)
    sides: list[_Side] = []
    for rollouts in found:
        limit = _planned(rollouts)
        sides.append(_side(rollouts, [pair for pair in every if pair[1] < limit]))
    return sides[0], sides[1]


def _planned(rollouts: Mapping[Pair, Observation]) -> float:
    """Return the arm's rollouts per task if it has equally many of every task; else infinity.

    An arm that was run with fewer rollouts of every task has lost none.
    """
    by_task: defaultdict[str, set[int]] = defaultdict(set)
    for task, g in rollouts:
        by_task[task].add(g)
    k = len(next(iter(by_task.values())))
    return k if all(indexes == set(range(k)) for indexes in by_task.values()) else math.inf


def _side(rollouts: Mapping[Pair, Observation], planned: Sequence[Pair]) -> _Side:
    scores: dict[Pair, float] = {}
    codes: dict[Pair, str] = {}
    for pair in planned:
        one = rollouts.get(pair)
        if one is None:
            codes[pair] = MISSING
        elif one.score is None:
            codes[pair] = one.error or "undecided"
        else:
            scores[pair] = one.score
    return _Side(scores, codes)
