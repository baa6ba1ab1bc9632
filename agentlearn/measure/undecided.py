"""Rollouts without a score: how many each arm has, whether they differ between arms, and what they could change."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn.measure.contrast import Undecided, Worst
from agentlearn.measure.observation import Observation
from agentlearn.measure.score_table import ScoreTable
from agentlearn.stats import estimate_difference, sign_flip_p

MISSING = "missing"
"""Code of a rollout that only the other arm has."""
_CODES = 3
"""Number of codes that are named per arm."""
_SAMPLES = 2_000
"""Draws of random signs, when more than 20 tasks have undecided rollouts."""

Pair = tuple[str, int]
"""Task and index of a rollout."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The rollouts of one arm that it should have: scores, and codes of those without a score."""

    scores: Mapping[Pair, float]
    codes: Mapping[Pair, str]

    def means(self, fill: float) -> dict[str, float]:
        """Return the mean of each task, with `fill` in place of every score that is not known."""
        by_task: defaultdict[str, list[float]] = defaultdict(list)
        for (task, _), score in self.scores.items():
            by_task[task].append(score)
        for task, _ in self.codes:
            by_task[task].append(fill)
        return {task: math.fsum(scores) / len(scores) for task, scores in by_task.items()}


def count_undecided(table: ScoreTable, arm: str, baseline: str, seed: int) -> Undecided:
    """Return how many rollouts of both arms have no score, and the test whether the arms differ in that.

    The test flips the signs of tasks, because an outage hits neighbouring rollouts of a task together.
    """
    if not table.dropped:
        return Undecided(pairs=len(table.all[arm]))
    mine, other = _sides(table, arm, baseline)
    if not mine.codes and not other.codes:
        return Undecided(pairs=len(mine.scores))
    counts = Counter(task for task, _ in mine.codes)
    counts.subtract(task for task, _ in other.codes)
    return Undecided(
        arm=len(mine.codes),
        baseline=len(other.codes),
        pairs=len({*mine.scores, *mine.codes} | {*other.scores, *other.codes}),
        arm_codes=tuple(Counter(mine.codes.values()).most_common(_CODES)),
        baseline_codes=tuple(Counter(other.codes.values()).most_common(_CODES)),
        p=sign_flip_p([float(count) for count in counts.values()], seed=seed, samples=_SAMPLES),
    )


def worst_case(
    table: ScoreTable, arm: str, baseline: str, score_range: tuple[float, float], level: float
) -> Worst | None:
    """Return bounds of the mean difference: every rollout without a score goes against the arm, or in its favour.

    score_range: lowest and highest possible score. level: confidence level of the one-sided bounds, above 0.5.
    """
    mine, other = _sides(table, arm, baseline)
    lowest, highest = score_range
    against = _filled(table, mine.means(lowest), other.means(highest), level)
    favour = _filled(table, mine.means(highest), other.means(lowest), level)
    return Worst(low=against[0], surely_low=against[1], high=favour[0], surely_high=favour[2])


def _filled(
    table: ScoreTable, mine: Mapping[str, float], other: Mapping[str, float], level: float
) -> tuple[float, float | None, float | None]:
    tasks = [task for task in mine if task in other]
    clusters = [table.facts[task].cluster or f"task {task}" for task in tasks]
    found = estimate_difference([mine[task] - other[task] for task in tasks], clusters=clusters, level=2 * level - 1)
    return found.mean, found.low, found.high


def _sides(table: ScoreTable, arm: str, baseline: str) -> tuple[_Side, _Side]:
    """Return both arms' rollouts, over the pairs that both should have."""
    mine, other = ({(one.task, one.g): one for one in table.all[name]} for name in (arm, baseline))
    limit = min(_planned_rollouts(mine), _planned_rollouts(other))
    planned = [pair for pair in dict.fromkeys((*other, *mine)) if pair[1] < limit]
    return _side(mine, planned), _side(other, planned)


def _planned_rollouts(rollouts: Mapping[Pair, Observation]) -> float:
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
