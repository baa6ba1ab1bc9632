"""Score interval for the mean of values in a known range: it holds where most values are equal and t does not.

For every mean that is tried, the spread is not the one seen but the one most likely under that mean, given that no
value can leave the range. So nothing but ties still gives an interval with a width. Of right and wrong it makes
Wilson's interval; of paired right and wrong, with differences -1, 0 and 1, it makes Tango's.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from agentlearn.errors import ConfigError
from agentlearn.stats.interval import Interval
from agentlearn.stats.numbers import between, finite

# Bisections of a range of 2 until neighbouring doubles are reached.
_HALVINGS = 60


def score_interval(
    values: Sequence[float], *, level: float = 0.95, smallest: float = -1.0, largest: float = 1.0
) -> Interval:
    """Mean of independent values in smallest..largest, with the means that the score test does not reject.

    One value is enough. `standard_error` is the plain one (None for one value), `degrees` is None: the bounds do not
    come from them. Raises ConfigError for no values, one outside the range, and a level outside 0..1.
    Sources: Wilson 1927; Tango 1998; for other values than three the likelihood is Owen's empirical one, 1988.
    """
    between("level", level, 0, 1)
    sample = _sample(values, smallest, largest)
    reach = NormalDist().inv_cdf((1 + level) / 2)
    error = math.sqrt(sample.spread / (sample.n - 1)) if sample.n > 1 else None
    middle, half = (smallest + largest) / 2, (largest - smallest) / 2
    return Interval(
        mean=middle + half * sample.mean,
        low=middle - half * _upper(sample.mirrored(), reach),
        high=middle + half * _upper(sample, reach),
        standard_error=None if error is None else half * error,
        degrees=None,
        n=sample.n,
    )


def score_statistic(values: Sequence[float], mean: float, *, smallest: float = -1.0, largest: float = 1.0) -> float:
    """How many standard errors the values' mean lies above `mean`, were that the true one; about normal then.

    Infinite where the values cannot have that mean: an end of the range, unless all of them lie there.
    Raises ConfigError for no values, one outside the range, or a mean outside it.
    """
    if not smallest <= mean <= largest:
        raise ConfigError(f"mean is {mean!r}; values between {smallest:g} and {largest:g} have none there")
    sample = _sample(values, smallest, largest)
    wanted = (2 * mean - smallest - largest) / (largest - smallest)
    if wanted == sample.mean:
        return 0.0
    if wanted < sample.mean:
        return -_statistic_above(sample.mirrored(), -wanted)
    return _statistic_above(sample, wanted)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Values scaled to -1..1, each with how often it was seen."""

    counts: tuple[tuple[float, int], ...]
    n: int
    mean: float

    @property
    def spread(self) -> float:
        """Mean squared distance from the mean."""
        return math.fsum(count * (value - self.mean) ** 2 for value, count in self.counts) / self.n

    def mirrored(self) -> "_Sample":
        return _Sample(tuple((-value, count) for value, count in self.counts), self.n, -self.mean)


def _sample(values: Sequence[float], smallest: float, largest: float) -> _Sample:
    between("smallest", smallest, -math.inf, largest)
    between("largest", largest, smallest, math.inf)
    numbers = finite("values", values)
    for place, number in enumerate(numbers):
        if not smallest <= number <= largest:
            raise ConfigError(f"values[{place}] is {number!r}; it must lie between {smallest:g} and {largest:g}")
    counts = Counter((2 * number - smallest - largest) / (largest - smallest) for number in numbers)
    mean = math.fsum(value * count for value, count in counts.items()) / len(numbers)
    return _Sample(tuple(counts.items()), len(numbers), mean)


def _upper(sample: _Sample, reach: float) -> float:
    """The mean above the sample's at which the statistic is -reach."""
    if sample.mean >= 1:
        return 1.0
    return _crossing(sample, lambda mean, spread: sample.n * (mean - sample.mean) ** 2 > reach**2 * spread)[0]


def _statistic_above(sample: _Sample, mean: float) -> float:
    """The statistic, below 0, at a mean above the sample's."""
    if mean >= 1:
        return -math.inf
    _, spread = _crossing(sample, lambda tried, _: tried >= mean)
    return (sample.mean - mean) / math.sqrt(spread / sample.n)


def _crossing(sample: _Sample, reached: Callable[[float, float], bool]) -> tuple[float, float]:
    """Mean and spread of the first distribution on the path that reaches what is asked for."""
    # Equal values keep their mean whatever they weigh: only unseen mass moves it.
    low, high = float(len(sample.counts) == 1), 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (low, middle) if reached(*_tilted(sample, middle)) else (middle, high)
    return _tilted(sample, high)


def _tilted(sample: _Sample, place: float) -> tuple[float, float]:
    """Mean and variance of the most likely distribution on -1..1, of those with one mean; the path goes from the sample
    (0) upwards to all mass on 1 (2).

    Up to 1, values weigh count / (1 - place * value): the large ones more and more. A sample that has a 1 reaches every
    mean so. In others the weights then stay as they are, and mass that nobody has seen appears at 1.
    """
    tilt = min(place, 1.0)
    unseen = max(0.0, place - 1.0)
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
