"""Anytime-valid evidence: it may be checked after every task, and the comparison stopped, without any correction.

It bets on each difference before it is observed. If the mean is as hypothesised, the expected capital never grows, so
the probability that it ever reaches 1 / alpha is at most alpha (Ville's inequality).

An e-process bets on each difference before it is known. If the mean was never above 0, its expected capital is at most
1 at any time, so capital of 100 is as surprising as a p-value of 0.01, also for those who look after every block.
The confidence interval of a mean that goes with it is `anytime`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import Field

from agentlearn.errors import ConfigError
from agentlearn.measure.clustered import between, finite_numbers
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
    # The bet at each step, from the variance of the earlier values and the number of steps.
    steps = np.arange(1, len(x) + 1)
    means = (0.5 + np.cumsum(x)) / (steps + 1)
    variances = (0.25 + np.cumsum((x - means) ** 2)) / (steps + 1)
    known = np.concatenate(([0.25], variances[:-1]))
    bets = np.sqrt(2 * math.log(2 / alpha) / (known * steps * np.log1p(steps)))
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


BETS = (0.1, 0.2, 0.4, 0.7)
"""Shares of the capital that are risked. Each of them has the same part of the capital."""
FIRST_START = 0.65
"""Part of the capital that bets from the first difference on. The rest starts later, so that a late change is found."""
_SPREAD = 300.0


def waiting(n: int) -> float:
    """Part of the capital that has not begun to bet after n differences. It falls to 0 slowly, as 1 / log n."""
    return 1.0 if n == 0 else (1 - FIRST_START) / (1 + math.log2(1 + n / _SPREAD))


class EProcess(Value):
    """Evidence that the mean of differences has been above 0, as a value that can be stored and continued.

    The capital is divided among `BETS`, and for each bet among all possible starts. The sum over all starts needs one
    number for each bet, so an update takes the same time after any number of differences.

    Under "the mean, given the past, was never above 0" the capital is a supermartingale that starts at 1. Source:
    Waudby-Smith and Ramdas, arXiv:2010.09686 (bets, and mixtures of them); Shin, Ramdas and Rinaldo, arXiv:2203.03532
    (sums over starts; ours have weights that add up to 1, so the error holds for all time and not per time).
    """

    n: int = Field(default=0, ge=0)
    """Number of differences."""
    log_started: tuple[float, ...] = ()
    """For each bet, the logarithm of the capital that has begun to bet; empty before the first difference."""

    @property
    def log_e(self) -> float:
        """Logarithm of the capital, which is the e-value of now."""
        if not self.n:
            return 0.0
        logs = (*(one - math.log(len(BETS)) for one in self.log_started), math.log(waiting(self.n)))
        largest = max(logs)
        if math.isinf(largest):
            return largest
        return largest + math.log(math.fsum(math.exp(one - largest) for one in logs))

    def after(self, differences: Iterable[float]) -> "EProcess":
        """The evidence after further differences, each in -1..1. Raises ConfigError for one that is not."""
        import numpy as np

        numbers = list(differences)
        for difference in numbers:
            if not -1 <= difference <= 1:
                raise ConfigError(f"the difference {difference!r} is not usable; it must be between -1 and 1")
        if not numbers:
            return self
        n = self.n + len(numbers)
        left = np.array([waiting(at) for at in range(self.n, n + 1)])
        # Capital that starts at a step has grown by what was won since. With all growth divided out, starts add up.
        growth = np.cumsum(np.log1p(np.outer(BETS, numbers)), axis=1)
        starting = np.log(left[:-1] - left[1:]) - np.hstack((np.zeros((len(BETS), 1)), growth[:, :-1]))
        before = self.log_started or (-math.inf,) * len(BETS)
        started = np.logaddexp(np.logaddexp.reduce(starting, axis=1), before) + growth[:, -1]
        return EProcess(n=n, log_started=tuple(map(float, started)))


def e_bh(log_e_values: Sequence[float], alpha: float) -> tuple[int, ...]:
    """Indices of the hypotheses to reject, in order. On average at most a share `alpha` of them is rejected wrongly.

    log_e_values: logarithms of one e-value per hypothesis, in any dependence. Of n, the k largest are rejected for the
    largest k whose k-th largest e-value is at least n / (k alpha). Raises ConfigError for an alpha outside 0..1.
    Source: Wang and Ramdas, arXiv:2009.02824, base e-BH.
    """
    between("alpha", alpha, 0, 1)
    order = sorted(range(len(log_e_values)), key=lambda index: (-log_e_values[index], index))
    count = 0
    for k, index in enumerate(order, start=1):
        if log_e_values[index] >= log_threshold(len(order), k, alpha):
            count = k
    return tuple(sorted(order[:count]))


def log_threshold(hypotheses: int, rejected: int, alpha: float) -> float:
    """Logarithm of the e-value that each of `rejected` hypotheses needs to be rejected together by `e_bh`."""
    return math.log(hypotheses / (rejected * alpha))


def look_factor(look: int, planned: int = 1) -> float:
    """Factor by which to multiply the p-value of an interim look.

    look: number of the look, from 1. planned: number of looks planned before the first. Planned looks share alpha
    equally (the factor is `planned`). The m-th unplanned look has the factor 4 m (m + 1); as the sum of 1 / (m (m + 1))
    is 1, all unplanned looks together spend at most alpha / 4 more, however many there are. So the chance of any false
    finding is at most alpha with planned looks only, and at most 1.25 alpha otherwise.
    Raises ConfigError for numbers below 1. Source: Bonferroni's inequality.
    """
    for name, number in (("look", look), ("planned", planned)):
        if number < 1:
            raise ConfigError(f"{name} is {number!r}; looks are counted from 1")
    if look <= planned:
        return float(planned)
    late = look - planned
    return float(4 * late * (late + 1))
