"""The mean over tasks and learning seeds, with errors clustered by both: the effect of a method, not of one library.

Values of one task are correlated, and so are values of one seed, because all its tasks used the same library.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.difference import MeanDifference
from agentlearn.stats.numbers import between, finite_numbers
from agentlearn.stats.students_t import quantile


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
            unsafe=(
                f"there are {len(by_task)} tasks and {len(by_seed)} learning seeds;"
                " an interval needs at least two of each"
            ),
        )
    task, seed = _variance(by_task), _variance(by_seed)
    both = _variance(_sums(residuals, list(zip(tasks, seeds, strict=True))))
    total = task + seed - both
    error = math.sqrt(max(total, task, seed) if total > 0 else max(task, seed, both)) / len(numbers)
    half_width = quantile((1 + level) / 2, fewer - 1) * error
    return MeanDifference(
        mean=mean,
        low=mean - half_width,
        high=mean + half_width,
        level=level,
        standard_error=error,
        degrees=fewer - 1,
        n=len(by_task),
        clusters=fewer,
        method="two-way",
        unsafe="" if error else "all values are equal, so their variance is not known",
    )


def _sums(residuals: Sequence[float], labels: Sequence[Hashable]) -> list[float]:
    """The sum of the residuals of each cluster."""
    members: defaultdict[Hashable, list[float]] = defaultdict(list)
    for residual, label in zip(residuals, labels, strict=True):
        members[label].append(residual)
    return [math.fsum(members) for members in members.values()]


def _variance(sums: Sequence[float]) -> float:
    """Estimated variance of the sum of all values, from the sums of clusters."""
    return len(sums) / (len(sums) - 1) * math.fsum(total**2 for total in sums)
