"""Power of a comparison: variance components, the detectable effect, and the tasks and rollouts that it needs.

The measured difference of a task varies because tasks gain different amounts and because rollouts are random:
variance = true_difference + before / k_before + after / k_after. Only the last two shrink with more rollouts. Tasks of
one cluster may share a part of their true difference; then more tasks of the same clusters help less.
"""

import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from agentlearn.errors import ConfigError
from agentlearn.measure.clustered import between, finite_numbers, grouped, quantile
from agentlearn.measure.score import chance_of_missing
from agentlearn.types.value import Value

# Densities below exp(-45) of the peak do not change a double.
_DEPTH = 45.0
_STEPS_PER_WIDTH = 6


def power_of(
    shift: float, degrees: float, *, alpha: float = 0.05, step: float = 0.0, least: float | None = None
) -> float:
    """Probability that a two-sided t test at `alpha` rejects if the effect is `shift` standard errors; within 1e-10.

    step: how far beyond its critical value the estimate must be, in standard errors. least: the estimate must also be
    at least this large, in standard errors, with the sign of the effect.
    Raises ConfigError for degrees not above 0, alpha outside 0..1, or a shift that is not finite.
    """
    between("degrees", degrees, 0, math.inf)
    between("alpha", alpha, 0, 1)
    between("shift", shift, -math.inf, math.inf)
    return _power(abs(shift), degrees, quantile(1 - alpha / 2, degrees), step, least)


def _rough_power_of(shift: float, degrees: float, *, alpha: float = 0.05) -> float:
    """`power_of` by normal approximations, about a hundred times faster: good enough to start a search near its end.

    Sources: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5 for the quantile and 26.7.10.
    """
    z = NormalDist().inv_cdf(1 - alpha / 2)
    critical = z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    scale = math.sqrt(1 + critical**2 / (2 * degrees))
    return NormalDist().cdf((abs(shift) - critical * (1 - 1 / (4 * degrees))) / scale)


@lru_cache(maxsize=512)
def detectable_shift(degrees: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The effect, in standard errors, that a two-sided t test at `alpha` detects with `power`.

    Raises ConfigError for degrees not above 0, and unless 0 < alpha < power < 1 (without any effect, power is alpha).
    """
    between("degrees", degrees, 0, math.inf)
    between("alpha", alpha, 0, 1)
    between("power", power, alpha, 1)
    critical, wanted = quantile(1 - alpha / 2, degrees), NormalDist().inv_cdf(power)

    def excess(shift: float) -> float:  # as a quantile of the normal distribution, nearly a line in the shift
        found = _power(shift, degrees, critical)
        return NormalDist().inv_cdf(min(max(found, sys.float_info.min), 1 - sys.float_info.epsilon / 2)) - wanted

    low, high = 0.0, critical + 1
    too_little = NormalDist().inv_cdf(alpha) - wanted
    while (too_much := excess(high)) < 0:
        low, high, too_little = high, 2 * high, too_much
    # The Illinois method: where the line between both ends is 0; an end that stays twice counts half.
    moved = 0
    while high - low > 1e-12 * high:
        at = high - too_much * (high - low) / (too_much - too_little)
        at = at if low < at < high else (low + high) / 2
        if at in (low, high):
            break
        found = excess(at)
        if found < 0:
            low, too_little, too_much = at, found, too_much / 2 if moved < 0 else too_much
            moved = -1
        elif found > 0:
            high, too_much, too_little = at, found, too_little / 2 if moved > 0 else too_little
            moved = 1
        else:
            return at
    return (low + high) / 2


def _power(shift: float, degrees: float, critical: float, extra: float = 0.0, least: float | None = None) -> float:
    """P(T > critical) + P(T < -critical) for a noncentral T with noncentrality `shift`.

    With s = estimated / true standard error, T > c means Z + shift > c s. We average over u = log s with equal steps;
    the density of u falls off so fast on both sides that this sum converges faster than any power of the step.
    """
    step = min(1 / math.sqrt(2 * degrees), 1 / (1 + critical + shift)) / _STEPS_PER_WIDTH
    first = -math.ceil((math.sqrt(_DEPTH / degrees) + _DEPTH / degrees) / step)
    last = math.ceil(math.sqrt(_DEPTH / degrees) / step)
    weights: list[float] = []
    parts: list[float] = []
    for index in range(first, last + 1):
        u = index * step
        weight = math.exp(degrees * (u - math.expm1(2 * u) / 2))
        bound = critical * math.exp(u) + extra
        weights.append(weight)
        upper = math.erfc((max(bound, least or 0.0) - shift) / math.sqrt(2))
        lower = math.erfc((bound + shift) / math.sqrt(2)) if least is None else 0.0
        parts.append(weight * (upper + lower))
    return math.fsum(parts) / (2 * math.fsum(weights))


MOST = 10_000_000
"""Largest number of tasks, or of rollouts per task, that is ever named as needed."""


COARSE = (6, 20)
"""From the first to below the second number of units, random signs come in steps too coarse for a p of their own: a
verdict then needs the t test at alpha and random signs at 2 alpha."""


class VarianceParts(Value):
    """Variance components of a paired difference, in squared units of the score."""

    true_difference: float
    """Variance of the tasks' true differences; at least 0."""
    before: float
    """Variance of one rollout within a task, averaged over tasks, in the first arm."""
    after: float
    """Variance of one rollout within a task, averaged over tasks, in the second arm."""
    unclamped: float
    """Unbiased estimate of `true_difference`, which may be negative; equal to it in a planned design."""

    def of_one_task(self, k_before: int, k_after: int) -> float:
        """Variance of a task's measured difference, with k_before and k_after rollouts per task."""
        _counted(k_before=k_before, k_after=k_after)
        return self.true_difference + self.before / k_before + self.after / k_after


def variance_parts(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> VarianceParts | None:
    """Estimate the variance components from scores: before[i] and after[i] are the rollouts of task i.

    true_difference is the variance of the tasks' differences minus the part due to rollouts, at least 0. A task with
    one rollout in an arm uses that arm's mean variance within tasks. None if the components cannot be separated: with
    fewer than two tasks, or an arm in which no task has two rollouts.
    Raises ConfigError for arms of different lengths, a task without rollouts, or scores that are not finite.
    """
    if len(before) != len(after):
        raise ConfigError(
            f"before has {len(before)} tasks and after has {len(after)}; give the rollouts of the same tasks, in order"
        )
    first, second = (
        [finite_numbers(f"{name}[{index}]", scores) for index, scores in enumerate(arm)]
        for name, arm in (("before", before), ("after", after))
    )
    within_before, within_after = _within(first), _within(second)
    if len(first) < 2 or within_before is None or within_after is None:
        return None
    differences = [_mean(late) - _mean(early) for early, late in zip(first, second, strict=True)]
    # A task's mean has the variance of its own scores; of one score, the borrowed one.
    added = math.fsum(
        math.fsum((_variance(scores) if len(scores) > 1 else within) / len(scores) for scores in arm)
        for arm, within in ((first, within_before), (second, within_after))
    )
    unclamped = _variance(differences) - added / len(first)
    return VarianceParts(
        true_difference=max(0.0, unclamped), before=within_before, after=within_after, unclamped=unclamped
    )


def guessed_parts(
    baseline: float, *, effect: float = 0.0, task_spread: float = 0.0, difference_spread: float = 0.1
) -> VarianceParts:
    """Variance components of a planned design without data, for rewards of 0 or 1.

    baseline: share of right rollouts, in 0..1. effect: difference of the second arm from it; a share above 1 counts as
    1. task_spread: standard deviation of the tasks' success rates; the variance within a task is then
    share (1 - share) - task_spread**2, at least 0 in the second arm. difference_spread: standard deviation of the
    tasks' true differences. Raises ConfigError for impossible numbers.
    """
    between("baseline", baseline, 0, 1)
    _not_negative("difference_spread", difference_spread)
    within = baseline * (1 - baseline) - task_spread**2
    if not (task_spread >= 0 and within >= 0):
        largest = math.sqrt(baseline * (1 - baseline))
        raise ConfigError(
            f"task_spread is {task_spread!r}; with a baseline of {baseline:g} it must be between 0 and {largest:.3g}"
        )
    true_difference, share = difference_spread**2, min(1.0, max(0.0, baseline + effect))
    after = max(0.0, share * (1 - share) - task_spread**2)
    return VarianceParts(true_difference=true_difference, before=within, after=after, unclamped=true_difference)


class Clusters(Value):
    """How tasks are spread over clusters in a planned comparison: a number of clusters, or tasks per cluster."""

    count: int | None = None
    """Number of clusters, however many tasks there are; None: it grows with the tasks."""
    size: float = 1.0
    """Mean number of tasks per cluster when `count` is None."""
    alike: float = 1.0
    """Part of the variance of the true differences that tasks of one cluster have in common, in 0..1."""
    unevenness: float = 1.0
    """Mean square of the cluster sizes over the square of their mean: 1 for equal sizes."""

    def units(self, tasks: int) -> int:
        """Number of clusters of this many tasks."""
        return max(1, min(tasks, self.count if self.count is not None else round(tasks / self.size)))

    def variance(self, parts: VarianceParts, tasks: int, k_before: int, k_after: int) -> float:
        """Variance of the mean difference over this many tasks."""
        own = parts.of_one_task(k_before, k_after)
        together = max(0.0, self.unevenness * tasks / self.units(tasks) - 1) * self.alike * parts.true_difference
        return (own + together) / tasks


_ALONE = Clusters()
# With more degrees, the rough power gives the same number of tasks as the exact one.
_MANY_DEGREES = 200


def measured_clusters(differences: Sequence[float], labels: Sequence[Hashable], true_difference: float) -> Clusters:
    """Estimate how tasks share a cluster's fate, from the differences of tasks and the labels of their clusters.

    true_difference: estimated variance of the true differences. `alike` is the mean product of two deviations in one
    cluster over that variance, cut to 0..1; 1 if the variance is 0 or no cluster has two tasks. The number of clusters
    grows with the tasks. Raises ConfigError for different lengths and differences that are not finite.
    """
    numbers = finite_numbers("differences", differences)
    members = grouped(numbers, labels)
    mean, sizes = _mean(numbers), [len(unit) for unit in members]
    size = len(numbers) / len(members)
    pairs = sum(count * (count - 1) for count in sizes)
    products = math.fsum(
        math.fsum(number - mean for number in unit) ** 2 - math.fsum((number - mean) ** 2 for number in unit)
        for unit in members
    )
    alike = min(1.0, max(0.0, products / pairs / true_difference)) if pairs and true_difference else 1.0
    return Clusters(size=size, alike=alike, unevenness=_mean([count**2 for count in sizes]) / size**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedComparison:
    """A comparison whose size is planned. Its methods ask whether it finds a true mean difference.

    A difference is found if the t test over tasks or clusters rejects, if random signs of so few units can reach alpha
    at all (2 alpha for 6 to 19 units, as in a verdict), and if `mean_test` finds that the units are unlikely to have
    missed others that lose `most_lost`. Assumes that units vary as a normal distribution.

    Every method raises ConfigError for counts below 1, for an effect that is 0 or not finite where one is given, and
    unless 0 < alpha < power < 1.
    """

    parts: VarianceParts
    alpha: float = 0.05
    clusters: Clusters = _ALONE
    most_lost: float = 0.0
    """What a unit that the sample missed could lose; 0: not asked."""
    right_or_wrong: bool = False
    """Whether scores are 0 or 1, so that sums come in steps, and the test by random signs needs half a step more."""

    def power(self, effect: float, tasks: int, *, k_before: int, k_after: int) -> float:
        """Probability that it finds a true mean difference of `effect`."""
        self._check(tasks=tasks)
        return self._power(effect, tasks, k_before, k_after)

    def detectable_effect(self, tasks: int, *, k_before: int, k_after: int, power: float = 0.8) -> float:
        """The smallest true mean difference that it finds with `power`; infinite for too few units."""
        self._check(power, tasks=tasks)
        units = self.clusters.units(tasks)
        if not self._can_reject(units):
            return math.inf
        error = math.sqrt(self.clusters.variance(self.parts, tasks, k_before, k_after))
        by_t = detectable_from_error(error, self._degrees(tasks), power=power, alpha=self.alpha)
        by_t += self._step(units, tasks, k_before, k_after)
        least = self._least_mean(units, error)
        return max(by_t, least + NormalDist().inv_cdf(power) * error) if least else by_t

    def tasks_needed(self, effect: float, *, k_before: int, k_after: int, power: float = 0.8) -> int | None:
        """The fewest tasks with which it finds a true mean difference of `effect` with `power`.

        None if more than `MOST` would be needed, or if no number is enough because the number of clusters is fixed.
        """
        self._check(power, effect, k_before=k_before, k_after=k_after)

        def enough(tasks: int, rough: bool) -> bool:
            rough = rough or self._degrees(tasks) > _MANY_DEGREES
            return self._power(effect, tasks, k_before, k_after, rough=rough) >= power

        return _fewest(enough, start=2)

    def rollouts_needed(self, effect: float, tasks: int, *, power: float = 0.8) -> int | None:
        """The fewest rollouts per task and arm with which `tasks` tasks are enough to find `effect` with `power`.

        None if no number is enough because the tasks' true differences vary too much; then only more tasks help.
        """
        self._check(power, effect, tasks=tasks)
        return _fewest(lambda k, rough: self._power(effect, tasks, k, k, rough=rough) >= power, start=1)

    def _check(self, power: float | None = None, effect: float | None = None, **counts: int) -> None:
        _counted(**counts)
        if effect is not None:
            between("effect", abs(effect), 0, math.inf)
        between("alpha", self.alpha, 0, 1)
        if power is not None:
            between("power", power, self.alpha, 1)

    def _degrees(self, tasks: int) -> float:
        """Degrees of freedom of the t test."""
        return (self.clusters.units(tasks) - 1) / self.clusters.unevenness

    def _power(self, effect: float, tasks: int, k_before: int, k_after: int, *, rough: bool = False) -> float:
        """See `power`. rough: by normal approximations."""
        units = self.clusters.units(tasks)
        error = math.sqrt(self.clusters.variance(self.parts, tasks, k_before, k_after))
        if not self._can_reject(units):
            return 0.0
        least, step = self._least_mean(units, error), self._step(units, tasks, k_before, k_after)
        if error == 0:
            return float(abs(effect) > max(least, step))
        shift, degrees = abs(effect) / error, self._degrees(tasks)
        if not rough:
            bound = least / error if self.most_lost else None
            return power_of(shift, degrees, alpha=self.alpha, step=step / error, least=bound)
        sure = _rough_power_of(max(0.0, shift - step / error), degrees, alpha=self.alpha)
        return min(sure, NormalDist().cdf(shift - least / error)) if least else sure

    def _can_reject(self, units: int) -> bool:
        """Whether random signs of this many units can reach alpha."""
        coarse = COARSE[0] <= units < COARSE[1]
        return units > 1 and 2.0 ** (1 - min(units, 1_000)) <= self.alpha * (2 if coarse else 1)

    def _step(self, units: int, tasks: int, k_before: int, k_after: int) -> float:
        """How far beyond the critical mean a test by random signs needs the mean, because sums come in steps.

        0 for so few units that the t test decides.
        """
        coarse = COARSE[0] <= units < COARSE[1]
        return 1 / (max(k_before, k_after) * tasks) if self.right_or_wrong and not coarse else 0.0

    def _least_mean(self, units: int, error: float) -> float:
        """The mean from which `mean_test` finds hidden units unlikely to have been missed. error: of the mean."""
        if not self.most_lost:
            return 0.0
        low, high = 0.0, self.most_lost * math.expm1(-math.log(self.alpha) / units)
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            missed = chance_of_missing(units, error, middle, self.most_lost)
            low, high = (middle, high) if missed > self.alpha else (low, middle)
        return high


def detectable_from_error(standard_error: float, degrees: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true mean difference that a t test with this standard error and these degrees detects with `power`.

    Raises ConfigError for an error that is negative or not finite, and unless 0 < alpha < power < 1.
    """
    _not_negative("standard_error", standard_error)
    between("alpha", alpha, 0, 1)
    between("power", power, alpha, 1)
    if degrees <= 0:
        return math.inf
    return detectable_shift(degrees, power=power, alpha=alpha) * standard_error


def _not_negative(name: str, value: float) -> float:
    """The value, if it is finite and not negative. Raises ConfigError otherwise, also for NaN."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it must be finite and not negative")
    return value


def _fewest(enough: Callable[[int, bool], bool], start: int) -> int | None:
    """The smallest number from `start` to `MOST` that is enough; None if there is none. More must never be worse.

    enough: also takes whether a rough answer will do. A rough search finds a number near the end; exact answers do the
    rest.
    """
    near = _bisected(lambda number: enough(number, True), start - 1, MOST) if enough(MOST, True) else MOST
    low, high, step = near, near, 1
    while low >= start and enough(low, False):
        low, high, step = max(start - 1, low - step), low, 2 * step
    step = 1
    while low == high or not enough(high, False):
        if high >= MOST:
            return None
        low, high, step = high, min(MOST, high + step), 2 * step
    return _bisected(lambda number: enough(number, False), low, high)


def _bisected(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number above `low` that is enough, if `high` is and `low` is not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _within(arm: Sequence[Sequence[float]]) -> float | None:
    """Mean variance of one rollout over the tasks that have two or more."""
    variances = [_variance(scores) for scores in arm if len(scores) > 1]
    return _mean(variances) if variances else None


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _variance(numbers: Sequence[float]) -> float:
    mean = _mean(numbers)
    return math.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)


def _counted(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count!r}; it must be at least 1")
