"""Paired differences: the estimate, its sign-flip test, and a test of the mean that assumes no symmetry.

The estimate chooses its method, and says when its interval is not reliable.

`python -m scripts.bench coverage` measures how often the intervals cover the truth.

Values of one task are correlated, and so are values of one seed, because all its tasks used the same library.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from agentlearn.errors import ConfigError
from agentlearn.measure.clustered import (
    Interval,
    between,
    cdf,
    clustered_mean,
    finite_numbers,
    grouped,
    mean_interval,
    quantile,
    satterthwaite_degrees,
)
from agentlearn.measure.power import detectable_from_error
from agentlearn.measure.score import missed_bounds, missed_chance, score_interval, score_statistic
from agentlearn.types.value import Value

Method = Literal["t", "cr2", "score", "two-way"]

MIN_DEGREES = 29
"""Fewest degrees of freedom with which t and CR2 are reliable: 30 tasks, or 30 clusters of equal size."""
MIN_DIFFERING = 40
MIN_DIFFERING_SHARE = 0.4
"""t and CR2 are used when at least this many units, or this share of them, differ from the most common value."""
MAX_SKEWNESS = 2.0
"""Skewness of the units' differences above which a few of them determine the mean."""
_MAX_TAIL = 0.25
"""Largest skewness over the root of the number of values with which `long_tail` is False. At 0.25 a one-sided t test
at 2.5 % errs in about 4.6 % (Edgeworth expansion)."""


class MeanDifference(Value):
    """A mean difference with its interval, and whether that interval is reliable."""

    mean: float
    low: float | None = None
    high: float | None = None
    """Upper bound of the interval (`low`: lower bound); None if there is no interval, as for a single task."""
    level: float
    """How often the interval should cover the truth, in 0..1."""
    standard_error: float | None = None
    degrees: float | None = None
    """Degrees of freedom of the interval; None if it does not use the t distribution."""
    n: int
    """Number of tasks."""
    clusters: int
    """Number of independent units: of clusters, or of tasks if there are no clusters."""
    method: Method
    """t: `mean_interval`. cr2: `clustered_mean`. score: `score_interval` of tasks or of the means of
    equal-sized clusters. two-way: `two_way_mean`."""
    p: float | None = None
    """Two-sided p by the same method: at most 1 - level when 0 is outside the interval. None without an interval."""
    unsafe: str = ""
    """Why the interval may cover the truth less often than `level`, as a sentence; empty if it is reliable."""


class NonInferiority(Value):
    """Result of a non-inferiority test: is one arm worse than the other by less than a margin chosen in advance?"""

    p: float
    """One-sided p-value of the hypothesis that the difference is -margin or less."""
    low: float
    """One-sided lower confidence bound of the difference."""
    margin: float
    """The margin, above 0, in units of the score."""
    holds: bool
    """Whether non-inferiority is shown: p <= 1 - level, which is the same as low >= -margin."""


def estimate_difference(
    differences: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    largest: float = 1.0,
) -> MeanDifference:
    """Mean of paired differences over tasks, with an interval at `level`.

    differences: shape (tasks,), each task's mean over rollouts of after - before. clusters: one label per task; if all
    labels differ, there are no clusters. largest: the largest possible size of a difference, 1 for rewards in 0..1; the
    score method needs it and is not used if a difference exceeds it.

    The rule: Student's t, or CR2 with clusters, if many units (tasks or clusters) contribute to the difference. If few
    do, because most are ties or some are outliers, the score interval of the tasks or of the means of equal-sized
    clusters, in the range of the means that were seen, joined with the means that `missed_chance` does not reject in
    -largest..largest. `unsafe` is set for t and CR2 with fewer than 29 degrees of freedom (30 tasks or 30 equal-sized
    clusters have 29), and if few units contribute and there is no score interval. With fewer degrees the interval is
    reliable if all units gain about equally, but not if a few gain much: a sample without those few looks best of all,
    so the data cannot show the problem.
    Raises ConfigError for no differences, for differences that are not finite, for a different number of labels, for a
    level outside 0..1 and for `largest` not above 0.
    """
    between("level", level, 0, 1)
    units = _Units.of(differences, clusters, largest)
    interval = units.interval(level)
    return MeanDifference(
        **interval.model_dump(exclude={"n"}),
        p=None if interval.low is None else units.p(interval, 0.0, sides=2),
        level=level,
        n=len(units.differences),
        clusters=len(units.sizes),
        method=units.method,
        unsafe=units.unsafe,
    )


def detectable_difference(estimate: MeanDifference, *, power: float = 0.8) -> float | None:
    """The smallest true difference that a comparison like this one detects with `power`; None without an interval.

    A difference is detected if 0 is outside the interval. Computed from the standard error and its degrees; for the
    score method, whose standard error may be 0, from half the interval's width divided by its normal quantile.
    Raises ConfigError unless 1 - level < power < 1.
    """
    if estimate.low is None or estimate.high is None or estimate.standard_error is None:
        return None
    alpha = 1 - estimate.level
    if estimate.degrees is not None:
        return detectable_from_error(estimate.standard_error, estimate.degrees, power=power, alpha=alpha)
    between("power", power, alpha, 1)
    half_width, normal = (estimate.high - estimate.low) / 2, NormalDist()
    return half_width * (1 + normal.inv_cdf(power) / normal.inv_cdf(1 - alpha / 2))


def no_worse(
    differences: Sequence[float],
    margin: float,
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    largest: float = 1.0,
) -> NonInferiority | None:
    """Test non-inferiority by a margin with the method that `estimate_difference` picks; None without an interval.

    None also if t or CR2 find no spread, which would pass any margin. `unsafe` of that estimate applies here too.
    margin: above 0; any data pass a margin of `largest` or more.
    Raises ConfigError like that function, and for a margin that is not positive and finite.
    """
    between("margin", margin, 0, math.inf)
    between("level", level, 0.5, 1)
    units = _Units.of(differences, clusters, largest)
    interval = units.interval(2 * level - 1, missed=1 - level)
    if interval.low is None or (units.method != "score" and not interval.standard_error):
        return None
    beyond = units.p(interval, max(-margin, -largest), sides=1)
    p = beyond if interval.mean > -margin else max(0.5, 1 - beyond)
    return NonInferiority(p=p, low=interval.low, margin=margin, holds=p <= 1 - level)


# Decimals to which means are compared: means that differ only by rounding are ties.
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
    """Whether most units are ties or the differences are very skewed: then t underestimates the uncertainty."""
    largest: float

    @staticmethod
    def of(differences: Sequence[float], clusters: Sequence[Hashable] | None, largest: float) -> "_Units":
        """Group the differences by cluster, and choose the method."""
        between("largest", largest, 0, math.inf)
        numbers = finite_numbers("differences", differences)
        labels = range(len(numbers)) if clusters is None else clusters
        members = grouped(numbers, labels)
        sizes, means = [len(unit) for unit in members], [math.fsum(unit) / len(unit) for unit in members]
        n = len(means)
        [(_, ties)] = Counter(round(one, _DIGITS) for one in means).most_common(1)
        few = n - ties < min(MIN_DIFFERING, MIN_DIFFERING_SHARE * n) or abs(_skewness(means)) > MAX_SKEWNESS
        method: Method = "t" if n == len(numbers) else "cr2"
        if few and n > 1 and len(set(sizes)) == 1 and max(map(abs, numbers)) <= largest:
            method = "score"
        return _Units(numbers, labels, sizes, means, method, few, largest)

    def interval(self, level: float, missed: float | None = None) -> Interval:
        """Return the mean with its interval. missed: chance of missed values, see `missed_bounds`; None: 1 - level."""
        if self.method == "t":
            return mean_interval(self.differences, level=level)
        if self.method == "cr2":
            return clustered_mean(self.differences, self.clusters, level=level)
        # The range of the score is that of the means that were seen; the bounds of the missed allow for the rest.
        reach, ends = max(map(abs, self.means)), {"smallest": -self.largest, "largest": self.largest}
        low, high = missed_bounds(self.means, 1 - level if missed is None else missed, **ends)
        found = mean_interval(self.means, level=level)
        if reach:
            found = score_interval(self.means, level=level, smallest=-reach, largest=reach)
        assert found.low is not None
        assert found.high is not None
        return found.model_copy(update={"low": min(low, found.low), "high": max(high, found.high), "degrees": None})

    def p(self, interval: Interval, mean: float, *, sides: Literal[1, 2]) -> float:
        """Return p of the hypothesis that the true mean is `mean`, by the method of the interval."""
        if self.method == "score":
            reach = max(map(abs, self.means))
            p = float(mean == 0)
            if reach and abs(mean) <= reach:
                p = cdf(-abs(score_statistic(self.means, mean, smallest=-reach, largest=reach)), math.inf)
            missed = missed_chance(self.means, mean, smallest=-self.largest, largest=self.largest)
            return min(1.0, max(sides * p, missed))
        gap = abs(interval.mean - mean)
        if not interval.standard_error or interval.degrees is None:
            return float(gap < 10**-_DIGITS)
        return sides * cdf(-gap / interval.standard_error, interval.degrees)

    @property
    def unsafe(self) -> str:
        """Why the interval is not reliable; empty if it is."""
        if self.method == "score":
            return ""
        clustered = self.method == "cr2"
        count, what = len(self.sizes), "cluster" if clustered else "task"
        degrees = satterthwaite_degrees(self.sizes) if count > 1 else 0
        if round(degrees, _DIGITS) < MIN_DEGREES:
            few = f"only {count} {what}{'s' if count != 1 else ''}"
            if count > MIN_DEGREES:
                few = f"{count} clusters of such different sizes, which count like {math.ceil(degrees) + 1} equal ones,"
            often = "more often than stated if a few of them gain much"
            return f"with {few} the interval can miss the true difference {often}"
        if self.few and clustered:
            return "few clusters make up the difference, and no method is reliable for that if clusters differ in size"
        if self.few:
            return "few tasks make up the difference, and no method is reliable for that if differences have no limit"
        return ""


def two_way_mean(
    values: Sequence[float], tasks: Sequence[Hashable], seeds: Sequence[Hashable], *, level: float = 0.95
) -> MeanDifference:
    """Mean with errors clustered by task and by seed, and a t interval with min(tasks, seeds) - 1 degrees.

    values, tasks, seeds: shape (values,), each value with its task and its seed. The variance is V_task + V_seed -
    V_both, each with the factor C / (C - 1) for its C clusters. By chance this can be small or negative: we use at
    least V_task and V_seed, and if it is not positive the largest of the three, so the interval is rather too wide.
    `clusters` is min(tasks, seeds). `unsafe` is set for one task or one seed, which give no interval, and for equal
    values, which give an interval of width 0.
    Raises ConfigError for values that are not finite, different lengths, and a level outside 0..1.
    Source: Cameron, Gelbach and Miller 2011, equation 2.2; the lower limits are ours.
    """
    between("level", level, 0, 1)
    numbers = finite_numbers("values", values)
    if not len(numbers) == len(tasks) == len(seeds):
        raise ConfigError(
            f"there are {len(numbers)} values, {len(tasks)} tasks and {len(seeds)} seeds; give one of each per value"
        )
    mean = math.fsum(numbers) / len(numbers)
    residuals = [number - mean for number in numbers]
    by_task, by_seed, by_both = (
        [math.fsum(unit) for unit in grouped(residuals, labels)]
        for labels in (tasks, seeds, list(zip(tasks, seeds, strict=True)))
    )
    fewer = min(len(by_task), len(by_seed))
    found = MeanDifference(mean=mean, level=level, n=len(by_task), clusters=fewer, method="two-way")
    if fewer < 2:
        counted = f"there are {len(by_task)} tasks and {len(by_seed)} learning seeds"
        return found.model_copy(update={"unsafe": f"{counted}; an interval needs at least two of each"})
    # Estimated variance of the sum of all values, from the sums of clusters.
    task, seed, both = (
        len(sums) / (len(sums) - 1) * math.fsum(total**2 for total in sums) for sums in (by_task, by_seed, by_both)
    )
    total = task + seed - both
    error = math.sqrt(max(total, task, seed) if total > 0 else max(task, seed, both)) / len(numbers)
    half_width = quantile((1 + level) / 2, fewer - 1) * error
    return found.model_copy(
        update={
            "low": mean - half_width,
            "high": mean + half_width,
            "standard_error": error,
            "degrees": float(fewer - 1),
            "unsafe": "" if error else "all values are equal, so their variance is not known",
        }
    )


EXACT_UP_TO = 20
"""Largest number of non-zero differences for which all assignments of signs are enumerated."""
_CHUNK = 1_000
# Relative tolerance: sums that differ only by rounding count as equal.
_ROUNDING = 1e-12


def sign_flip_p(
    differences: Sequence[float], *, seed: int, samples: int = 20_000, clusters: Sequence[Hashable] | None = None
) -> float:
    """Two-sided p-value of the mean difference under random signs.

    It assumes that, when the arms do not differ, a task (or cluster) is as likely to gain as to lose the same amount.
    Then it holds for any number of tasks. It does not hold when few tasks lose much and many gain a little: see
    `mean_test`.

    clusters: one label per difference; all differences of a cluster then change sign together, so the test uses the
    sums of clusters. Zeros are ignored. Exact for up to 20 non-zero differences (or sums), without the seed; for more,
    (k + 1) / (samples + 1) from random signs, which is never 0. All zero gives 1.
    Raises ConfigError for no differences, for differences that are not finite, for a different number of labels, and
    for fewer than one sample.
    """
    if samples < 1:
        raise ConfigError(f"samples is {samples!r}; a sampled test needs at least 1")
    numbers = finite_numbers("differences", differences)
    if clusters is not None:
        numbers = tuple(math.fsum(members) for members in grouped(numbers, clusters))
    moved = [abs(number) for number in numbers if number]
    if not moved:
        return 1.0
    observed = abs(math.fsum(numbers)) - _ROUNDING * math.fsum(moved)
    import numpy as np

    if len(moved) <= EXACT_UP_TO:
        # All 2**n sums. The first sign is fixed: the other half is symmetric.
        sums = np.array([moved[0]])
        for size in moved[1:]:
            sums = np.concatenate((sums + size, sums - size))
        return float(np.mean(np.abs(sums) >= observed))
    rng, column, reached = np.random.default_rng(seed), np.array(moved), 0
    for start in range(0, samples, _CHUNK):
        signs = rng.integers(0, 2, size=(min(_CHUNK, samples - start), len(moved)), dtype=np.int8) * 2 - 1
        reached += int(np.count_nonzero(np.abs(signs @ column) >= observed))
    return (reached + 1) / (samples + 1)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given. Rejecting those up to alpha bounds the family-wise error rate by alpha.

    Valid under any dependence between the tests. Raises ConfigError for no p-values or one outside 0..1.
    Source: Holm 1979.
    """
    ranked = _ranked(ps)
    adjusted = [0.0] * len(ranked)
    largest = 0.0
    for rank, (p, index) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given. Rejecting those up to alpha bounds the false discovery rate by alpha.

    Valid for independent or positively dependent tests. Raises ConfigError for no p-values or one outside 0..1.
    Source: Benjamini and Hochberg 1995.
    """
    ranked = _ranked(ps)
    adjusted = [0.0] * len(ranked)
    smallest = 1.0
    for rank in range(len(ranked), 0, -1):
        p, index = ranked[rank - 1]
        smallest = min(smallest, p * len(ranked) / rank)
        adjusted[index] = smallest
    return tuple(adjusted)


def _ranked(ps: Sequence[float]) -> list[tuple[float, int]]:
    """The p-values from small to large, each with its index in `ps`."""
    for index, p in enumerate(finite_numbers("ps", ps)):
        if not 0 <= p <= 1:
            raise ConfigError(f"ps[{index}] is {p!r}; a p-value must be between 0 and 1")
    return sorted((float(p), index) for index, p in enumerate(ps))


def _skewness(values: Sequence[float]) -> float:
    """The third central moment divided by the cubed standard deviation; 0 if all are equal."""
    n, mean = len(values), math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / n)
    return math.fsum(((one - mean) / spread) ** 3 for one in values) / n if spread else 0.0


def long_tail(skewness: float, n: int) -> bool:
    """Whether n values of this skewness can easily miss more large ones, so that their mean is on the wrong side of 0.

    skewness: above 0 if the longer tail is on the other side of 0. Its standard error is added, because a small sample
    seldom shows its tail. Only for values without a known range; `missed_chance` allows for the tail within a range.
    """
    return (skewness + math.sqrt(6 / n)) / math.sqrt(n) > _MAX_TAIL


class MeanTest(Value):
    """Test that a mean difference has the sign that it seems to have."""

    p: float
    """Probability of data like these, at most, if the true mean is 0 or has the other sign: the larger of `tilted` and
    `missed`."""
    tilted: float
    """One-sided p of the score statistic, within the range of the units that were seen."""
    hidden: float
    """Share of units at the far end of the range that would bring the mean of the others to 0."""
    missed: float
    """Probability that a sample of this many units contains none of the hidden ones and still has a mean this far from
    0; see `missed_chance`."""
    skewness: float = 0.0
    """Skewness of the units: above 0 if few large ones are gains, below if losses."""


def mean_test(
    differences: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    most_lost: float = 1.0,
    most_gained: float = 1.0,
    bounded: bool = True,
) -> MeanTest:
    """Test the sign of the mean difference over tasks or clusters.

    differences: one per task. clusters: one label per task; the units are then the sums of clusters, and a hidden unit
    has their mean size. most_lost, most_gained: how much a hidden unit can lose and gain; a larger difference in the
    data extends the range. A mean of 0 gives p = 1. bounded: whether these limits are known; otherwise p is 1 too if
    the units have a `long_tail`.
    Raises ConfigError for no differences, for differences that are not finite, for a different number of labels, and
    for a limit that is not above 0.
    """
    between("most_lost", most_lost, 0, math.inf)
    between("most_gained", most_gained, 0, math.inf)
    numbers = finite_numbers("differences", differences)
    members = grouped(numbers, range(len(numbers)) if clusters is None else clusters)
    size = len(numbers) / len(members)
    units = [round(math.fsum(unit) / size, _DIGITS) for unit in members]
    mean = math.fsum(units) / len(units)
    if abs(mean) < 10**-_DIGITS:
        return MeanTest(p=1.0, tilted=0.5, hidden=0.0, missed=1.0)
    low, high = min(-most_lost, *units), max(most_gained, *units)
    reach = max(map(abs, units))
    tilted = cdf(-abs(score_statistic(units, 0.0, smallest=-reach, largest=reach)), math.inf)
    hidden = abs(mean) / (abs(mean) - low if mean > 0 else abs(mean) + high)
    missed = missed_chance(units, 0.0, smallest=low, largest=high)
    skewness = _skewness(units)
    tailed = not bounded and long_tail(-skewness if mean > 0 else skewness, len(units))
    p = 1.0 if tailed else max(tilted, missed)
    return MeanTest(p=p, tilted=tilted, hidden=hidden, missed=missed, skewness=skewness)


def typical_size(values: Sequence[float]) -> float:
    """The mean of the values, each weighted by its size: what a hidden unit can lose, given what the units have.

    values: not negative. Half 0 and half 1 gives 1, because only those with 1 have anything to lose. All 0 gives 0.
    """
    total = math.fsum(values)
    return math.fsum(value * value for value in values) / total if total > 0 else 0.0
