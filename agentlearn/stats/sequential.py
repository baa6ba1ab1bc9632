"""Watching a comparison as it grows: evidence that may be looked at after every task, and stopped on, at no price.

A gambler bets on the next difference before it is seen. If the mean is what is claimed, no way of betting makes the
capital grow on average, so it reaches 1 / alpha with a chance of at most alpha, ever (Ville's inequality).
"""

import math
from collections.abc import Sequence
from typing import Any

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import between, finite
from agentlearn.types.value import Value

# A bet never risks more than this share of the capital.
_RISK = 0.5
_HALVINGS = 50
_LARGEST_LOG = 700.0


class Anytime(Value):
    """What is known after `n` differences, whenever one stops looking."""

    n: int
    mean: float
    """Of the differences seen."""
    low: float
    high: float
    """Means that have not been refuted so far; over all times together they miss the true one with chance alpha."""
    e: float
    """Largest capital so far of the bets against 0; the chance that it ever reaches x is at most 1 / x."""
    p: float
    """1 / e, at most 1; holds at any time."""
    decided: int | None
    """After how many differences 0 was refuted; None if it is not."""


def anytime(differences: Sequence[float], *, alpha: float = 0.05) -> Anytime:
    """Two-sided evidence on the mean of paired differences, in the order in which they came.

    differences: in -1..1, one per task, or the mean of one per cluster when tasks come in clusters; each independent of
    those before, with the same mean. 0 is refuted exactly when it is outside low..high, and p <= alpha. Bets are sized
    for `alpha`; p is valid for any other too. Raises ConfigError for no differences, one outside -1..1, and an alpha
    outside 0..1. Source: Waudby-Smith and Ramdas, arXiv:2010.09686: the hedged capital with predictable plug-in bets,
    half of it on either side.
    """
    import numpy as np

    between("alpha", alpha, 0, 1)
    numbers = finite("differences", differences)
    for place, number in enumerate(numbers):
        if not -1 <= number <= 1:
            raise ConfigError(f"differences[{place}] is {number!r}; it must lie between -1 and 1")
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
    """How much to bet at each step: from the variance of what was seen before it, and the number of steps."""
    import numpy as np

    steps = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (steps + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (steps + 1)
    known = np.concatenate(([0.25], variances[:-1]))
    return np.sqrt(2 * math.log(2 / alpha) / (known * steps * np.log1p(steps)))


def _log_capital(x: Any, bets: Any, mean: float) -> Any:
    """Logarithm of the capital after each step, from 1, of betting that the mean of x is above `mean`."""
    import numpy as np

    bounded = bets if mean == 0 else np.minimum(bets, _RISK / mean)
    return np.cumsum(np.log1p(bounded * (x - mean)))


def _lowest(x: Any, bets: Any, goal: float) -> float:
    """The lowest mean of x at which the capital has never reached the goal; it falls as the mean rises."""
    import numpy as np

    low, high = 0.0, 1.0
    if float(np.max(_log_capital(x, bets, low))) < goal:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        reached = float(np.max(_log_capital(x, bets, middle))) >= goal
        low, high = (middle, high) if reached else (low, middle)
    return low
