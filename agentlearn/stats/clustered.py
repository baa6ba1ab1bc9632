"""The mean over tasks that come in clusters, with standard errors that are valid for few clusters of unequal sizes.

Tasks of one cluster (same source problem, template or website) may be correlated in any way; clusters must not be.
"""

import math
from collections.abc import Hashable, Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.interval import Interval, mean_interval
from agentlearn.stats.numbers import between, finite_numbers
from agentlearn.stats.students_t import quantile


def clustered_mean(values: Sequence[float], clusters: Sequence[Hashable], *, level: float = 0.95) -> Interval:
    """Mean of all values with its CR2 standard error and a t interval with Satterthwaite degrees of freedom.

    values, clusters: shape (tasks,), one label per value. `n` of the result counts clusters. One cluster gives a mean
    without an interval; clusters of one value each give `mean_interval`. Raises ConfigError for values that are not
    finite, for different lengths, and for a level outside 0..1.
    Source: Bell and McCaffrey 2002; Pustejovsky and Tipton, arXiv:1601.01981. We use their closed form for a mean, with
    independent errors of equal variance as the working model.
    """
    between("level", level, 0, 1)
    members = grouped(finite_numbers("values", values), clusters)
    numbers = [number for members_m in members for number in members_m]
    n = len(numbers)
    mean = math.fsum(numbers) / n
    if len(members) < 2:
        return Interval(mean=mean, low=None, high=None, standard_error=None, degrees=None, n=1)
    if len(members) == n:
        return mean_interval(values, level=level)
    sizes = [len(members_m) for members_m in members]
    residuals = [math.fsum(number - mean for number in members_m) for members_m in members]
    squares = [total**2 / (1 - size / n) for total, size in zip(residuals, sizes, strict=True)]
    error = math.sqrt(math.fsum(squares)) / n
    degrees = satterthwaite_degrees(sizes)
    half_width = quantile((1 + level) / 2, degrees) * error
    return Interval(
        mean=mean, low=mean - half_width, high=mean + half_width, standard_error=error, degrees=degrees, n=len(members)
    )


def satterthwaite_degrees(sizes: Sequence[int]) -> float:
    """Degrees of freedom of the CR2 error of a mean over clusters of these sizes: at most their number - 1."""
    n = sum(sizes)
    shares = [size**2 / (n - size) for size in sizes]
    across = math.fsum(shares) ** 2 - math.fsum(share**2 for share in shares)
    return n**2 / (math.fsum(size**2 for size in sizes) + across)


def grouped(values: Sequence[float], clusters: Sequence[Hashable]) -> list[list[float]]:
    """The values of each cluster, ordered by a cluster's first value. Raises ConfigError for different lengths."""
    if len(values) != len(clusters):
        raise ConfigError(
            f"there are {len(values)} values and {len(clusters)} cluster labels; give one label per value, in order"
        )
    members: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        members.setdefault(cluster, []).append(value)
    return list(members.values())
