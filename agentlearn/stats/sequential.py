"""Anytime-valid evidence: it may be checked after every task, and the comparison stopped, without any correction.

It bets on each difference before it is observed. If the mean is as hypothesised, the expected capital never grows, so
the probability that it ever reaches 1 / alpha is at most alpha (Ville's inequality).
"""

import math
from collections.abc import Sequence
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import between, finite_numbers
from agentlearn.types.value import Value

# The largest share of the capital that a bet risks.
_RISK = 0.5
_HALVINGS = 50
_LARGEST_LOG = 700.0


class Anytime(Value):
    """Evidence after `n` differences; valid whenever the comparison is stopped."""

    n: int
    """Number of differences."""
    mean: float
    """Mean of the differences."""
    low: float
    """Lower bound of the confidence sequence, see `high`."""
    high: float
    """Upper bound. The probability that low..high ever excludes the true mean, at any time, is at most alpha."""
    e: float
    """Largest capital so far of the bets against 0. If the mean is 0, it ever reaches x with probability <= 1 / x."""
    p: float
    """p-value, min(1, 1 / e); valid at any time."""
    decided: int | None
    """Number of differences after which 0 was rejected; None if it was not."""


def anytime(differences: Sequence[float], *, alpha: float = 0.05) -> Anytime:
    """Two-sided evidence on the mean of paired differences, in the order in which they came.

    differences: in -1..1, one per task, or one mean per cluster if tasks come in clusters; independent, with the same
    mean. 0 is rejected exactly when it is outside low..high, and then p <= alpha. The bets are optimised for `alpha`,
    but p is valid for any level. Raises ConfigError for no differences, one outside -1..1, and an alpha outside 0..1.
    Source: Waudby-Smith and Ramdas, arXiv:2010.09686: hedged capital with predictable plug-in bets, half of the
    capital on each side.
    """
    import numpy as np

    between("alpha", alpha, 0, 1)
    numbers = finite_numbers("differences", differences)
    for index, number in enumerate(numbers):
        if not -1 <= number <= 1:
            raise ConfigError(f"differences[{index}] is {number!r}; it must be between -1 and 1")
    x = (np.array(numbers) + 1) / 2
    bets = _bets(x, alpha)
    goal = math.log(2 / alpha)
    capital = np.maximum(_log_capital(x, bets, 0.5), _log_capital(1 - x, bets, 0.5))
    largest = max(0.0, float(np.max(capital) - math.log(2)))
    reached = np.flatnonzero(capital >= goal)
    return Anytime(
        n=len(numbers),
        mean=math.fsum(numbers) / len(numbers),
        low=2 * _lowest(x, bets, goal) - 1,
        high=1 - 2 * _lowest(1 - x, bets, goal),
        e=math.exp(largest) if largest < _LARGEST_LOG else math.inf,
        p=math.exp(-largest),
        decided=int(reached[0]) + 1 if reached.size else None,
    )


def _bets(x: Any, alpha: float) -> Any:
    """The bet at each step, from the variance of the earlier values and the number of steps."""
    import numpy as np

    steps = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (steps + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (steps + 1)
    known = np.concatenate(([0.25], variances[:-1]))
    return np.sqrt(2 * math.log(2 / alpha) / (known * steps * np.log1p(steps)))


def _log_capital(x: Any, bets: Any, mean: float) -> Any:
    """Logarithm of the capital after each step of betting that the mean of x is above `mean`, starting from 1."""
    import numpy as np

    bounded = bets if mean == 0 else np.minimum(bets, _RISK / mean)
    return np.cumsum(np.log1p(bounded * (x - mean)))


def _lowest(x: Any, bets: Any, goal: float) -> float:
    """The lowest mean of x for which the capital has never reached the goal. The capital falls as the mean rises."""
    import numpy as np

    low, high = 0.0, 1.0
    if float(np.max(_log_capital(x, bets, low))) < goal:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reached = float(np.max(_log_capital(x, bets, middle))) >= goal
        low, high = (middle, high) if reached else (low, middle)
    return low
