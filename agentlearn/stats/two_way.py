"""The mean over tasks and learning seeds at once: what a method of learning gives, not one library that it made.

Values of one task depend on one another, and so do values of one seed, since one library served all its tasks.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.difference import MeanDifference
from agentlearn.stats.numbers import between, finite
from agentlearn.stats.students_t import quantile


def two_way_mean(
    values: Sequence[float], tasks: Sequence[Hashable], seeds: Sequence[Hashable], *, level: float = 0.95
) -> MeanDifference:
    """Mean with errors clustered by task and by seed, and a t interval of min(tasks, seeds) - 1 degrees.

    values, tasks, seeds: shape (values,), each value with its task and its seed. The variance is V_task + V_seed -
    V_both, each with the factor C / (C - 1) for its C clusters. By chance this sum can be small or negative: it is
    never taken below V_task or V_seed alone, and where it is not positive the largest of all three stands in, so that
    the interval errs to the wide side. `clusters` is min(tasks, seeds). `unsafe` says when there is one task or one
    seed, which gives no interval, and when all values are equal, which gives one without width.
    Raises ConfigError for bad values, lengths that differ, and a level outside 0..1.
    Source: Cameron, Gelbach and Miller 2011, equation 2.2; the floor is ours.
    """
    between("level", level, 0, 1)
    numbers = finite("values", values)
    if not len(numbers) == len(tasks) == len(seeds):
        raise ConfigError(
            f"there are {len(numbers)} values, {len(tasks)} tasks and {len(seeds)} seeds; give one of each per value"
        )
    mean = math.fsum(numbers) / len(numbers)
    residuals = [number - mean for number in numbers]
    by_task, by_seed = _sums(residuals, tasks), _sums(residuals, seeds)
    fewer = min(len(by_task), len(by_seed))
    if fewer < 2:
        return MeanDifference(
            mean=mean,
            low=None,
            high=None,
            level=level,
            standard_error=None,
            degrees=None,
            n=len(by_task),
            clusters=fewer,
            method="two-way",
            unsafe=f"there are {len(by_task)} tasks and {len(by_seed)} learning seeds; an interval needs two of each",
        )
    task, seed = _variance(by_task), _variance(by_seed)
    both = _variance(_sums(residuals, list(zip(tasks, seeds, strict=True))))
    total = task + seed - both
    error = math.sqrt(max(total, task, seed) if total > 0 else max(task, seed, both)) / len(numbers)
    reach = quantile((1 + level) / 2, fewer - 1) * error
    return MeanDifference(
        mean=mean,
        low=mean - reach,
        high=mean + reach,
        level=level,
        standard_error=error,
        degrees=fewer - 1,
        n=len(by_task),
        clusters=fewer,
        method="two-way",
        unsafe="" if error else "all values are equal; how much others would differ is not known",
    )


def _sums(residuals: Sequence[float], labels: Sequence[Hashable]) -> list[float]:
    """The residuals' sum in each cluster."""
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for residual, label in zip(residuals, labels, strict=True):
        members[label].append(residual)
    return [math.fsum(own) for own in members.values()]


def _variance(sums: Sequence[float]) -> float:
    """Variance of the sum of all values."""
    return len(sums) / (len(sums) - 1) * math.fsum(total**2 for total in sums)
