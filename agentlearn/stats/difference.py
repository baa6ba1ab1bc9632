"""The one front door for a paired difference: picks the method, and says where no interval can be trusted.

`python -m tests.bench coverage` measures what the rule is worth.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from agentlearn.stats.clustered import clustered_mean, grouped, satterthwaite_degrees
from agentlearn.stats.interval import Interval, mean_interval
from agentlearn.stats.non_inferiority import NonInferiority, non_inferiority
from agentlearn.stats.numbers import between, finite
from agentlearn.stats.power import detectable_from_error
from agentlearn.stats.score import score_interval, score_statistic
from agentlearn.stats.students_t import cdf
from agentlearn.types.value import Value

Method = Literal["t", "cr2", "score", "two-way"]

FEWEST_DEGREES = 29
"""From so many degrees of freedom on t and CR2 are trusted: 30 tasks, or 30 clusters of one size."""
MANY_MOVED = 40
MOVED_SHARE = 0.4
"""t and CR2 are used when so many units, or this share, differ from the most common value: else ties decide."""
MOST_SKEWED = 2.0
"""Skewness of the units' differences above which few of them carry the mean."""


class MeanDifference(Value):
    """A mean difference, how well it is known, and whether that can be trusted."""

    mean: float
    low: float | None
    high: float | None
    """Bounds of the interval; None where there is none at all, as for a single task."""
    level: float
    """How often the interval is meant to cover the truth, in 0..1."""
    standard_error: float | None
    degrees: float | None
    """Degrees of freedom behind the interval; None where it does not rest on t."""
    n: int
    """Tasks."""
    clusters: int
    """Independent units: as many as tasks unless tasks came in clusters."""
    method: Method
    """t: Student's. cr2: `clustered_mean`. score: `score_interval`, of tasks or of the means of equal clusters.
    two-way: `two_way_mean`."""
    unsafe: str = ""
    """Empty, or the sentence why the interval may cover the truth less often than it says."""


def estimate_difference(
    differences: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    largest: float = 1.0,
) -> MeanDifference:
    """Mean of paired differences over tasks, with an interval at `level`.

    differences: shape (tasks,), each task's mean over rollouts of after - before. clusters: one label per task; labels
    that are all different are no clusters. largest: the size that no difference can exceed, 1 for rewards in 0..1; it
    is what the score method rests on, which is not used when a difference is larger all the same.

    The rule: Student's t, or CR2 with clusters, where many units (tasks, or clusters) carry the difference; where few
    do, as most are ties or some stand far out, the score interval of the tasks, or of the means of clusters of equal
    size. Not to be trusted, and said in `unsafe`: t and CR2 with fewer than 29 degrees of freedom (30 tasks, or 30
    clusters of one size, have 29), and few units carrying the difference where there is no score interval. Intervals of
    fewer degrees hold if all units gain about alike; if few gain much they do not, and a sample that has missed those
    few looks the best of all, so that no look at the data can tell.
    Raises ConfigError for no differences, for differences that are not finite, for another number of labels, for a
    level outside 0..1 and for `largest` not above 0.
    """
    between("level", level, 0, 1)
    units = _units(differences, clusters, largest)
    return MeanDifference(
        **_interval(units, level).model_dump(exclude={"n"}),
        level=level,
        n=len(units.differences),
        clusters=len(units.sizes),
        method=units.method,
        unsafe=_unsafe(units),
    )


def detectable_difference(estimate: MeanDifference, *, power: float = 0.8) -> float | None:
    """The smallest true difference that a comparison such as this one finds with `power`; None without an interval.

    Found means 0 outside the interval at its level. From the standard error and its degrees; where the score method was
    used, whose standard error may be 0, from half the interval's width over its normal quantile.
    Raises ConfigError unless 1 - level < power < 1.
    """
    if estimate.low is None or estimate.high is None or estimate.standard_error is None:
        return None
    alpha = 1 - estimate.level
    if estimate.degrees is not None:
        return detectable_from_error(estimate.standard_error, estimate.degrees, power=power, alpha=alpha)
    between("power", power, alpha, 1)
    reach, normal = (estimate.high - estimate.low) / 2, NormalDist()
    return reach * (1 + normal.inv_cdf(power) / normal.inv_cdf(1 - alpha / 2))


def no_worse(
    differences: Sequence[float],
    margin: float,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    largest: float = 1.0,
) -> NonInferiority | None:
    """Non-inferiority by a margin, by the method that `estimate_difference` picks; None where there is no interval.

    `unsafe` of that estimate holds for this answer too. margin: above 0; from `largest` on it is met by any data.
    Raises ConfigError as that function does, and for a margin that is not positive and finite.
    """
    between("margin", margin, 0, math.inf)
    between("level", level, 0.5, 1)
    units = _units(differences, clusters, largest)
    interval = _interval(units, 2 * level - 1)
    if units.method != "score":
        return non_inferiority(interval, margin, level=level)
    assert interval.low is not None
    statistic = score_statistic(units.means, max(-margin, -largest), smallest=-largest, largest=largest)
    p = cdf(-statistic, math.inf)
    return NonInferiority(p=p, low=interval.low, margin=margin, holds=p <= 1 - level)


# Means that differ by rounding only are ties.
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class _Units:
    """The differences by independent unit, and the method that suits them."""

    differences: tuple[float, ...]
    clusters: Sequence[Hashable]
    sizes: list[int]
    means: list[float]
    method: Method
    few: bool
    largest: float


def _units(differences: Sequence[float], clusters: Sequence[Hashable] | None, largest: float) -> _Units:
    between("largest", largest, 0, math.inf)
    numbers = finite("differences", differences)
    labels = range(len(numbers)) if clusters is None else clusters
    members = grouped(numbers, labels)
    sizes = [len(own) for own in members]
    means = [math.fsum(own) / len(own) for own in members]
    few = _few_carry_it(means)
    method: Method = "t" if len(members) == len(numbers) else "cr2"
    if few and len(members) > 1 and len(set(sizes)) == 1 and max(map(abs, numbers)) <= largest:
        method = "score"
    return _Units(numbers, labels, sizes, means, method, few, largest)


def _few_carry_it(means: Sequence[float]) -> bool:
    """Whether most units are ties, or few stand far out to one side: then t trusts the spread it has seen too much."""
    n = len(means)
    [(_, ties)] = Counter(round(mean, _DIGITS) for mean in means).most_common(1)
    return n - ties < min(MANY_MOVED, MOVED_SHARE * n) or abs(_skewness(means)) > MOST_SKEWED


def _skewness(numbers: Sequence[float]) -> float:
    """Third central moment over the third power of the spread; 0 for numbers that are all equal."""
    n = len(numbers)
    mean = math.fsum(numbers) / n
    spread = math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / n)
    return math.fsum(((number - mean) / spread) ** 3 for number in numbers) / n if spread else 0.0


def _interval(units: _Units, level: float) -> Interval:
    if units.method == "t":
        return mean_interval(units.differences, level=level)
    if units.method == "cr2":
        return clustered_mean(units.differences, units.clusters, level=level)
    return score_interval(units.means, level=level, smallest=-units.largest, largest=units.largest)


def _leaving(count: int, *, clustered: bool) -> str:
    if count == 1:
        return f"1 {'cluster' if clustered else 'task'} leaves"
    return f"{count} clusters of these sizes leave" if clustered else f"{count} tasks leave"


def _unsafe(units: _Units) -> str:
    if units.method == "score":
        return ""
    clustered = units.method == "cr2"
    degrees = satterthwaite_degrees(units.sizes) if len(units.sizes) > 1 else 0
    if round(degrees, _DIGITS) < FEWEST_DEGREES:
        return (
            f"{_leaving(len(units.sizes), clustered=clustered)} {degrees:.3g} degrees of freedom; with fewer than"
            f" {FEWEST_DEGREES} the interval misses the truth too often when few gain much; whether the arms differ at"
            " all, the sign-flip p says at any size"
        )
    if units.few and clustered:
        return "few clusters carry the difference, and with clusters of unequal size no method holds for that"
    if units.few:
        return "few tasks carry the difference, and without its largest possible size no method holds for that"
    return ""
