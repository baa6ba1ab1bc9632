"""Power of a comparison: variance components, the detectable effect, and the tasks and rollouts that it needs.

The measured difference of a task varies because tasks gain different amounts and because rollouts are random:
variance = true_difference + before / k_before + after / k_after. Only the last two shrink with more rollouts.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

from agentlearn.errors import ConfigError
from agentlearn.stats.noncentral_t import detectable_shift, power_of
from agentlearn.stats.numbers import between, finite_numbers, not_negative
from agentlearn.types.value import Value


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
    first, second = _arm("before", before), _arm("after", after)
    within_before, within_after = _within(first), _within(second)
    if len(first) < 2 or within_before is None or within_after is None:
        return None
    differences = [_mean(late) - _mean(early) for early, late in zip(first, second, strict=True)]
    added = math.fsum(_of_mean(scores, within_before) for scores in first)
    added += math.fsum(_of_mean(scores, within_after) for scores in second)
    unclamped = _variance(differences) - added / len(first)
    return VarianceParts(
        true_difference=max(0.0, unclamped), before=within_before, after=within_after, unclamped=unclamped
    )


def guessed_parts(baseline: float, *, task_spread: float = 0.0, difference_spread: float = 0.1) -> VarianceParts:
    """Variance components of a planned design without data, for rewards of 0 or 1.

    baseline: share of right rollouts, in 0..1. task_spread: standard deviation of the tasks' success rates; the
    variance within a task is then baseline (1 - baseline) - task_spread**2. difference_spread: standard deviation of
    the tasks' true differences. Raises ConfigError for impossible numbers.
    """
    between("baseline", baseline, 0, 1)
    not_negative("difference_spread", difference_spread)
    within = baseline * (1 - baseline) - task_spread**2
    if not (task_spread >= 0 and within >= 0):
        largest = math.sqrt(baseline * (1 - baseline))
        raise ConfigError(
            f"task_spread is {task_spread!r}; with a baseline of {baseline:g} it must be between 0 and {largest:.3g}"
        )
    true_difference = difference_spread**2
    return VarianceParts(true_difference=true_difference, before=within, after=within, unclamped=true_difference)


def detectable_effect(
    parts: VarianceParts, tasks: int, *, k_before: int, k_after: int, power: float = 0.8, alpha: float = 0.05
) -> float:
    """The smallest true mean difference that the paired t test detects with `power`; infinite for fewer than two tasks.

    Raises ConfigError for counts below 1, and unless 0 < alpha < power < 1.
    """
    _counted(tasks=tasks)
    error = math.sqrt(parts.of_one_task(k_before, k_after) / tasks)
    return detectable_from_error(error, tasks - 1, power=power, alpha=alpha)


def detectable_from_error(standard_error: float, degrees: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true mean difference that a t test with this standard error and these degrees detects with `power`.

    Raises ConfigError for an error that is negative or not finite, and unless 0 < alpha < power < 1.
    """
    not_negative("standard_error", standard_error)
    between("alpha", alpha, 0, 1)
    between("power", power, alpha, 1)
    if degrees <= 0:
        return math.inf
    return detectable_shift(degrees, power=power, alpha=alpha) * standard_error


def tasks_needed(
    parts: VarianceParts, effect: float, *, k_before: int, k_after: int, power: float = 0.8, alpha: float = 0.05
) -> int:
    """The fewest tasks with which the paired t test detects a true mean difference of `effect` with `power`.

    Raises ConfigError for an effect that is 0 or not finite, counts below 1, and unless 0 < alpha < power < 1.
    """
    variance = parts.of_one_task(k_before, k_after)
    tasks = max(2, normal_tasks_needed(variance, effect, power=power, alpha=alpha))
    if variance == 0:
        return tasks
    while power_of(effect / math.sqrt(variance / tasks), tasks - 1, alpha=alpha) < power:
        tasks += 1
    return tasks


def normal_tasks_needed(variance: float, effect: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """Tasks by the normal approximation: ((z_{1-alpha/2} + z_power) / effect)**2 * variance, rounded up.

    variance: variance of one task's measured difference. Small results are a few tasks too low, because the normal
    approximation ignores that the standard error is estimated. Source: Miller, arXiv:2411.00640, equation 9.
    """
    size = between("effect", abs(effect), 0, math.inf)
    not_negative("variance", variance)
    between("alpha", alpha, 0, 1)
    between("power", power, alpha, 1)
    normal = NormalDist()
    reach = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return math.ceil(reach**2 * variance / size**2)


def rollouts_needed(
    parts: VarianceParts, effect: float, tasks: int, *, power: float = 0.8, alpha: float = 0.05
) -> int | None:
    """The fewest rollouts per task and arm with which a test on `tasks` tasks detects `effect` with `power`.

    None if no number is enough because the tasks' true differences vary too much; then only more tasks help.
    Raises ConfigError for an effect that is 0 or not finite, counts below 1, and unless 0 < alpha < power < 1.
    """
    _counted(tasks=tasks)
    size = between("effect", abs(effect), 0, math.inf)
    between("alpha", alpha, 0, 1)
    between("power", power, alpha, 1)
    if tasks < 2:
        return None
    allowed = tasks * (size / detectable_shift(tasks - 1, power=power, alpha=alpha)) ** 2
    within = parts.before + parts.after
    if within == 0:
        return 1 if parts.true_difference <= allowed else None
    room = allowed - parts.true_difference
    if room <= 0:
        return None
    return max(1, math.ceil(within / room))


def _arm(name: str, tasks: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    return [finite_numbers(f"{name}[{index}]", scores) for index, scores in enumerate(tasks)]


def _within(arm: Sequence[Sequence[float]]) -> float | None:
    """Mean variance of one rollout over the tasks that have two or more."""
    variances = [_variance(scores) for scores in arm if len(scores) > 1]
    return _mean(variances) if variances else None


def _of_mean(scores: Sequence[float], borrowed: float) -> float:
    """Variance of a task's mean score."""
    return (_variance(scores) if len(scores) > 1 else borrowed) / len(scores)


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _variance(numbers: Sequence[float]) -> float:
    mean = _mean(numbers)
    return math.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1)


def _counted(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"{name} is {count!r}; it must be at least 1")
