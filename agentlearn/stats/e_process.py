"""Evidence that grows block by block, may be looked at at any time, and finds an effect that begins late.

An e-process bets on each difference before it is known. If the mean was never above 0, its expected capital is at most
1 at any time, so capital of 100 is as surprising as a p-value of 0.01, also for those who look after every block.
The confidence interval of a mean that goes with it is `anytime`.
"""

import math
from collections.abc import Iterable, Sequence

from pydantic import Field

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import between
from agentlearn.types.value import Value

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
        return log_sum((*(one - math.log(len(BETS)) for one in self.log_started), math.log(waiting(self.n))))

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


def log_sum(logs: Sequence[float]) -> float:
    """Logarithm of the sum of numbers that are given by their logarithms."""
    largest = max(logs)
    if math.isinf(largest):
        return largest
    return largest + math.log(math.fsum(math.exp(one - largest) for one in logs))
