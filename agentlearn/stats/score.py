"""Score interval for the mean of values in a known range. It is reliable when most values are equal, where t is not.

For each candidate mean it uses the most likely variance under that mean, given the range, instead of the observed
variance. So even equal values give an interval of positive width. For values 0 and 1 it is Wilson's interval; for
differences -1, 0 and 1 it is Tango's.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from agentlearn.errors import ConfigError
from agentlearn.stats.interval import Interval
from agentlearn.stats.numbers import between, finite_numbers

# Bisections of a range of 2 until neighbouring doubles are reached.
_HALVINGS = 60


def score_interval(
    values: Sequence[float], *, level: float = 0.95, smallest: float = -1.0, largest: float = 1.0
) -> Interval:
    """Mean of independent values in smallest..largest, with the interval of means that the score test does not reject.

    One value is enough. `standard_error` is the usual one (None for one value) and `degrees` is None; the bounds do
    not use them. Raises ConfigError for no values, one outside the range, and a level outside 0..1.
    Sources: Wilson 1927; Tango 1998; for more than three distinct values Owen's empirical likelihood, 1988.
    """
    between("level", level, 0, 1)
    sample = _sample(values, smallest, largest)
    z = NormalDist().inv_cdf((1 + level) / 2)
    error = math.sqrt(sample.spread / (sample.n - 1)) if sample.n > 1 else None
    middle, half_range = (smallest + largest) / 2, (largest - smallest) / 2
    return Interval(
        mean=middle + half_range * sample.mean,
        low=middle - half_range * _upper(sample.mirrored(), z),
        high=middle + half_range * _upper(sample, z),
        standard_error=None if error is None else half_range * error,
        degrees=None,
        n=sample.n,
    )


def score_statistic(values: Sequence[float], mean: float, *, smallest: float = -1.0, largest: float = 1.0) -> float:
    """Score statistic of the hypothesis that the true mean is `mean`; approximately standard normal under it.

    Positive if the values' mean is above `mean`. Infinite if the values cannot have that mean: an end of the range that
    not all of them equal.
    Raises ConfigError for no values, one outside the range, or a mean outside it.
    """
    if not smallest <= mean <= largest:
        raise ConfigError(f"mean is {mean!r}; it must be between {smallest:g} and {largest:g}, like the values")
    sample = _sample(values, smallest, largest)
    wanted = (2 * mean - smallest - largest) / (largest - smallest)
    if wanted == sample.mean:
        return 0.0
    if wanted < sample.mean:
        return -_statistic_above(sample.mirrored(), -wanted)
    return _statistic_above(sample, wanted)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Values scaled to -1..1, with their counts."""

    counts: tuple[tuple[float, int], ...]
    n: int
    mean: float

    @property
    def spread(self) -> float:
        """Variance of the values (divided by n)."""
        return math.fsum(count * (value - self.mean) ** 2 for value, count in self.counts) / self.n

    def mirrored(self) -> "_Sample":
        return _Sample(tuple((-value, count) for value, count in self.counts), self.n, -self.mean)


def _sample(values: Sequence[float], smallest: float, largest: float) -> _Sample:
    between("smallest", smallest, -math.inf, largest)
    between("largest", largest, smallest, math.inf)
    numbers = finite_numbers("values", values)
    for index, number in enumerate(numbers):
        if not smallest <= number <= largest:
            raise ConfigError(f"values[{index}] is {number!r}; it must be between {smallest:g} and {largest:g}")
    counts = Counter((2 * number - smallest - largest) / (largest - smallest) for number in numbers)
    mean = math.fsum(value * count for value, count in counts.items()) / len(numbers)
    return _Sample(tuple(counts.items()), len(numbers), mean)


def _upper(sample: _Sample, z: float) -> float:
    """The mean, above the sample's, at which the statistic is -z."""
    if sample.mean >= 1:
        return 1.0
    return _crossing(sample, lambda mean, spread: sample.n * (mean - sample.mean) ** 2 > z**2 * spread)[0]


def _statistic_above(sample: _Sample, mean: float) -> float:
    """The statistic (negative) of a mean above the sample's."""
    if mean >= 1:
        return -math.inf
    _, spread = _crossing(sample, lambda tried, _: tried >= mean)
    return (sample.mean - mean) / math.sqrt(spread / sample.n)


def _crossing(sample: _Sample, reached: Callable[[float, float], bool]) -> tuple[float, float]:
    """Mean and variance of the first distribution on the path of `_tilted` for which `reached` holds."""
    # If all values are equal, reweighting does not change the mean: start where unseen mass appears.
    low, high = float(len(sample.counts) == 1), 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if reached(*_tilted(sample, middle)) else (middle, high)
    return _tilted(sample, high)


def _tilted(sample: _Sample, position: float) -> tuple[float, float]:
    """Mean and variance of a distribution on a path from the sample (position 0) to all mass at 1 (position 2).

    Each is the most likely distribution on -1..1 with its mean, given the sample. Up to position 1, a value's weight
    is count / (1 - position * value), so large values gain weight. A sample that contains a 1 reaches every mean that
    way. For other samples the weights then stay fixed, and unobserved mass at 1 grows.
    """
    tilt = min(position, 1.0)
    unseen = max(0.0, position - 1.0)
    if tilt == 1.0 and any(value == 1 for value, _ in sample.counts):
        return 1.0, 0.0
    weights = [count / (1 - tilt * value) for value, count in sample.counts]
    total = math.fsum(weights)
    mean = math.fsum(weight * value for weight, (value, _) in zip(weights, sample.counts, strict=True)) / total
    spread = (
        math.fsum(weight * (value - mean) ** 2 for weight, (value, _) in zip(weights, sample.counts, strict=True))
        / total
    )
    # With a share `unseen` moved to 1, mean and variance are those of a mixture.
    return mean + unseen * (1 - mean), (1 - unseen) * (spread + unseen * (1 - mean) ** 2)
