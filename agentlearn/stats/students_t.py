"""Student's t distribution for any positive, also fractional or infinite, degrees of freedom.

Computed with mpmath from the regularised incomplete beta function, because scipy is too heavy a dependency for two
functions. Each call creates its own mpmath context, so the global precision is neither read nor changed.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from agentlearn.stats.numbers import between

# Decimal digits of precision: enough for exact rounding to a double.
_DIGITS = 30


def cdf(t: float, degrees: float) -> float:
    """P(T <= t). Relative error below 1e-14 in both tails. Raises ConfigError for NaN or degrees <= 0.

    Infinite degrees give the normal distribution.
    """
    if degrees != math.inf:
        between("degrees", degrees, 0, math.inf)
    if math.isinf(t):
        return float(t > 0)
    between("t", t, -math.inf, math.inf)
    if degrees == math.inf:
        return math.erfc(-t / math.sqrt(2)) / 2
    context = _context()
    tail = _tail(context, context.mpf(abs(t)), context.mpf(degrees))
    return float(tail if t < 0 else 1 - tail)


@lru_cache(maxsize=1024)
def quantile(p: float, degrees: float) -> float:
    """The t with P(T <= t) = p, for 0 < p < 1. Raises ConfigError for other p or degrees <= 0."""
    between("p", p, 0, 1)
    if degrees == math.inf:
        return NormalDist().inv_cdf(p)
    between("degrees", degrees, 0, math.inf)
    if p == 0.5:
        return 0.0
    context = _context()
    wanted = min(context.mpf(p), 1 - context.mpf(p))
    size = _inverse_tail(context, wanted, context.mpf(degrees))
    return float(size if p > 0.5 else -size)


def _context() -> Any:
    from mpmath.ctx_mp import MPContext

    context = MPContext()
    context.dps = _DIGITS
    return context


def _tail(context: Any, t: Any, degrees: Any) -> Any:
    """P(T > t) for t >= 0."""
    square = t * t
    if square < 1:
        inner = context.betainc(0.5, degrees / 2, 0, square / (degrees + square), regularized=True)
        return (1 - inner) / 2
    return context.betainc(degrees / 2, 0.5, 0, degrees / (degrees + square), regularized=True) / 2


def _inverse_tail(context: Any, wanted: Any, degrees: Any) -> Any:
    """The t > 0 with P(T > t) = wanted, for 0 < wanted < 1/2."""

    def excess(log_t: Any) -> Any:  # nearly linear in log t, even for heavy tails
        return context.log(_tail(context, context.exp(log_t), degrees) / wanted)

    # The normal quantile is a lower bound, because t has the heavier tails; the margin covers its rounding.
    low = context.log(-NormalDist().inv_cdf(float(wanted))) - 1e-6
    high = low + 0.5
    while excess(high) > 0:
        low, high = high, high + 1
    return context.exp(context.findroot(excess, (low, high), solver="illinois", tol=1e-36, maxsteps=200))
