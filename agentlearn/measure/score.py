"""Score interval for the mean of values in a known range, and what a sample can have missed. It is reliable when most
values are equal, where t is not.

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
from agentlearn.measure.clustered import Interval, between, finite_numbers

# Bisections of a range of 2 until neighbouring doubles are reached.
_HALVINGS = 60
# Shares of hidden values that are tried before the best of them is made exact.
_SHARES = 24
# Steps of that search; each narrows it to 0.62 of its width.
_STEPS = 30
_GOLDEN = (math.sqrt(5) - 1) / 2


def score_interval(
    values: Sequence[float], *, level: float = 0.95, smallest: float = -1.0, largest: float = 1.0
) -> Interval:
    """Mean of independent values in smallest..largest, with the interval of means that the score test does not reject.

    One value is enough. `standard_error` is the usual one (None for one value) and `degrees` is None; the bounds do
    not use them. Raises ConfigError for no values, one outside the range, and a level outside 0..1.
    Sources: Wilson 1927; Tango 1998; for more than three distinct values Owen's empirical likelihood, 1988.
    """
    between("level", level, 0, 1)
    sample = _Sample.of(values, smallest, largest)
    z = NormalDist().inv_cdf((1 + level) / 2)
    error = math.sqrt(sample.spread / (sample.n - 1)) if sample.n > 1 else None
    middle, half_range = (smallest + largest) / 2, (largest - smallest) / 2
    return Interval(
        mean=middle + half_range * sample.mean,
        low=middle - half_range * sample.mirrored().upper(z),
        high=middle + half_range * sample.upper(z),
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
    wanted, sample = _scaled(mean, smallest, largest), _Sample.of(values, smallest, largest)
    if wanted == sample.mean:
        return 0.0
    if wanted < sample.mean:
        return -sample.mirrored().statistic_above(-wanted)
    return sample.statistic_above(wanted)


def missed_chance(values: Sequence[float], mean: float, *, smallest: float = -1.0, largest: float = 1.0) -> float:
    """Probability of a sample mean as far from `mean` as this one, if values that the sample missed explain it.

    The hypothesis: a share of all values lies at the end of the range beyond `mean`, the others vary like the sample,
    and together their mean is `mean`. The sample must then hold none of the hidden ones, and the others must have a
    mean at least this far away. The share that makes this most likely counts. Equal values leave only the first.
    Raises ConfigError like `score_statistic`.
    """
    wanted, sample = _scaled(mean, smallest, largest), _Sample.of(values, smallest, largest)
    return (sample if wanted > sample.mean else sample.mirrored()).missed(abs(wanted - sample.mean))


def missed_bounds(values: Sequence[float], alpha: float, *, smallest: float, largest: float) -> tuple[float, float]:
    """The lowest and the highest mean for which `missed_chance` is above alpha."""
    sample = _Sample.of(values, smallest, largest)
    middle, half_range = (smallest + largest) / 2, (largest - smallest) / 2
    low, high = (one.furthest(alpha) for one in (sample.mirrored(), sample))
    return middle - half_range * low, middle + half_range * high


@dataclass(frozen=True, slots=True)
class _Sample:
    """Values scaled to -1..1, with their counts."""

    counts: tuple[tuple[float, int], ...]
    n: int
    mean: float

    @property
    def error(self) -> float:
        """Standard error of the mean; 0 for one value."""
        return math.sqrt(self.spread / (self.n - 1)) if self.n > 1 else 0.0

    @property
    def spread(self) -> float:
        """Variance of the values (divided by n)."""
        return math.fsum(count * (value - self.mean) ** 2 for value, count in self.counts) / self.n

    @staticmethod
    def of(values: Sequence[float], smallest: float, largest: float) -> "_Sample":
        """Scale values from their range. Raises ConfigError for no values, and for one outside the range."""
        between("smallest", smallest, -math.inf, largest)
        between("largest", largest, smallest, math.inf)
        numbers = finite_numbers("values", values)
        for index, number in enumerate(numbers):
            if not smallest <= number <= largest:
                raise ConfigError(f"values[{index}] is {number!r}; it must be between {smallest:g} and {largest:g}")
        counts = Counter(
            min(1.0, max(-1.0, (2 * number - smallest - largest) / (largest - smallest))) for number in numbers
        )
        mean = math.fsum(value * count for value, count in counts.items()) / len(numbers)
        return _Sample(tuple(counts.items()), len(numbers), mean)

    def mirrored(self) -> "_Sample":
        """Return the values with the other sign."""
        return _Sample(tuple((-value, count) for value, count in self.counts), self.n, -self.mean)

    def upper(self, z: float) -> float:
        """Return the mean, above the sample's, at which the statistic is -z."""
        if self.mean >= 1:
            return 1.0
        return self._crossing(lambda mean, spread: self.n * (mean - self.mean) ** 2 > z**2 * spread)[0]

    def statistic_above(self, mean: float) -> float:
        """Return the statistic (negative) of a mean above the sample's."""
        if mean >= 1:
            return -math.inf
        _, spread = self._crossing(lambda tried, _: tried >= mean)
        return (self.mean - mean) / math.sqrt(spread / self.n)

    def furthest(self, alpha: float) -> float:
        """Return the highest mean above the sample's for which `missed_chance` is above alpha."""
        low, high = self.mean, 1.0
        while high - low > 1e-10:
            middle = (low + high) / 2
            low, high = (middle, high) if self.missed(middle - self.mean) > alpha else (low, middle)
        return low

    def missed(self, gap: float) -> float:
        """Return `missed_chance` of a mean that is above the sample's by `gap`, with hidden values at 1."""
        return chance_of_missing(self.n, self.error, gap, 1 - self.mean - gap)

    def _crossing(self, reached: Callable[[float, float], bool]) -> tuple[float, float]:
        """Return mean and variance of the first distribution on the path of `_tilted` for which `reached` holds."""
        # If all values are equal, reweighting does not change the mean: start where unseen mass appears.
        low, high = float(len(self.counts) == 1), 2.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            low, high = (low, middle) if reached(*self._tilted(middle)) else (middle, high)
        return self._tilted(high)

    def _tilted(self, position: float) -> tuple[float, float]:
        """Return mean and variance of a distribution on a path from the sample (position 0) to all mass at 1 (2).

        Each is the most likely distribution on -1..1 with its mean, given the sample. Up to position 1, a value's
        weight is count / (1 - position * value), so large values gain weight. A sample that contains a 1 reaches every
        mean that way. For other samples the weights then stay fixed, and unobserved mass at 1 grows.
        """
        tilt, unseen = min(position, 1.0), max(0.0, position - 1.0)
        if tilt == 1.0 and any(value == 1 for value, _ in self.counts):
            return 1.0, 0.0
        weights = [(count / (1 - tilt * value), value) for value, count in self.counts]
        total = math.fsum(weight for weight, _ in weights)
        mean = math.fsum(weight * value for weight, value in weights) / total
        spread = math.fsum(weight * (value - mean) ** 2 for weight, value in weights) / total
        # With a share `unseen` moved to 1, mean and variance are those of a mixture.
        return mean + unseen * (1 - mean), (1 - unseen) * (spread + unseen * (1 - mean) ** 2)


def _scaled(mean: float, smallest: float, largest: float) -> float:
    """The mean on the scale of `_Sample`. Raises ConfigError for one outside the range."""
    if not smallest <= mean <= largest:
        raise ConfigError(f"mean is {mean!r}; it must be between {smallest:g} and {largest:g}, like the values")
    return (2 * mean - smallest - largest) / (largest - smallest)


def chance_of_missing(n: int, error: float, gap: float, beyond: float) -> float:
    """`missed_chance` of n values whose mean has this error and is `gap` away, if the end is `beyond` further away."""
    if gap <= 0 or beyond <= 0:
        return 1.0 if gap <= 0 else 0.0
    if error < 1e-12:
        return (beyond / (beyond + gap)) ** n

    def chance(share: float) -> float:
        shift = (share * beyond / (1 - share) - gap) / error
        return (1 - share) ** n * _t_below(shift, n - 1)

    most = (gap + 4 * error) / (beyond + gap + 4 * error)
    shares = [most * step / _SHARES for step in range(_SHARES + 1)]  # few values can have two peaks
    best = max(range(_SHARES + 1), key=lambda step: chance(shares[step]))
    low, high = shares[max(0, best - 1)], shares[min(_SHARES, best + 1)]
    for _ in range(_STEPS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (left, high) if chance(left) < chance(right) else (low, right)
    return max(chance(0.0), chance((low + high) / 2))


def _t_below(t: float, degrees: int) -> float:
    """P(T <= t) within about 0.002, without the cost of the exact one. Source: Wallace 1959."""
    root = math.sqrt(degrees * math.log1p(t * t / degrees)) * (8 * degrees + 1) / (8 * degrees + 3)
    return math.erfc(math.copysign(root, -t) / math.sqrt(2)) / 2


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact p-value of the hypothesis that a task is as likely to be gained as lost; 1 if none changed.

    gained, lost: number of tasks that only the second, only the first arm got right. For one rollout per task: several
    rollouts of a task are not independent pairs. Raises ConfigError for counts that are negative or not whole.
    Source: McNemar 1947, with binomial tails.
    """
    for name, count in (("gained", gained), ("lost", lost)):
        if count != int(count) or count < 0:
            raise ConfigError(f"{name} is {count!r}; give the number of tasks that changed that way")
    moved = int(gained + lost)
    tail = sum(math.comb(moved, few) for few in range(int(min(gained, lost)) + 1))
    return min(1.0, 2 * tail / 2**moved)


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of pass@k from n rollouts of which c are right; None when n < k.

    Computes 1 - C(n-c, k) / C(n, k) with integers up to the last division. Average the result over tasks.
    Raises ConfigError unless 0 <= c <= n and k >= 1. Source: arXiv:2107.03374.
    """
    if not _countable("pass@k", n, c, k):
        return None
    every = math.comb(n, k)
    return (every - math.comb(n - c, k)) / every


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Unbiased estimate of pass^k from n rollouts of which c are right; None when n < k.

    Computes C(c, k) / C(n, k) with integers up to the last division. Average the result over tasks.
    Raises ConfigError unless 0 <= c <= n and k >= 1. Source: arXiv:2406.12045.
    """
    if not _countable("pass^k", n, c, k):
        return None
    return math.comb(c, k) / math.comb(n, k)


def _countable(name: str, n: int, c: int, k: int) -> bool:
    """Whether there are enough rollouts. Raises ConfigError for impossible counts."""
    if k < 1 or not 0 <= c <= n:
        raise ConfigError(f"{name} of n={n!r}, c={c!r}, k={k!r} is not defined; it needs 0 <= c <= n and k >= 1")
    return n >= k
