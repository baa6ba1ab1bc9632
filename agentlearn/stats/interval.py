"""The mean of independent values with a confidence interval by Student's t."""

import math
from collections.abc import Sequence

from agentlearn.stats.numbers import between, finite_numbers
from agentlearn.stats.students_t import quantile
from agentlearn.types.value import Value


class Interval(Value):
    """A mean with its confidence interval. What the data do not determine is None."""

    mean: float
    low: float | None
    """Lower bound of the interval."""
    high: float | None
    """Upper bound of the interval."""
    standard_error: float | None
    degrees: float | None
    """Degrees of freedom of the interval; fractional for some methods."""
    n: int
    """Number of independent values."""


def mean_interval(values: Sequence[float], *, level: float = 0.95) -> Interval:
    """Mean of independent values with its two-sided t interval at `level`.

    One value gives a mean without an interval; equal values give an interval of width 0.
    Raises ConfigError for no values, for values that are not finite, and for a level outside 0..1.
    """
    between("level", level, 0, 1)
    numbers = finite_numbers("values", values)
    n = len(numbers)
    mean = math.fsum(numbers) / n
    if n < 2:
        return Interval(mean=mean, low=None, high=None, standard_error=None, degrees=None, n=n)
    variance = math.fsum((number - mean) ** 2 for number in numbers) / (n - 1)
    error = math.sqrt(variance / n)
    half_width = quantile((1 + level) / 2, n - 1) * error
    return Interval(mean=mean, low=mean - half_width, high=mean + half_width, standard_error=error, degrees=n - 1, n=n)
