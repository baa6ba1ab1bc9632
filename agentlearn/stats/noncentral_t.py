"""Power of a two-sided t test, and the effect that it detects with a given power, by the noncentral t distribution."""

import math
from functools import lru_cache
from statistics import NormalDist

from agentlearn.stats.numbers import between
from agentlearn.stats.students_t import quantile

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


def rough_power_of(shift: float, degrees: float, *, alpha: float = 0.05) -> float:
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
    critical = quantile(1 - alpha / 2, degrees)
    low, high = 0.0, critical + 1
    while _power(high, degrees, critical) < power:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _power(middle, degrees, critical) < power else (low, middle)
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
