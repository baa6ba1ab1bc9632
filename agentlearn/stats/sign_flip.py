"""The sign-flip permutation test of paired differences: are gains and losses of each size equally likely?"""

import math
from collections.abc import Hashable, Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.clustered import finite_numbers, grouped

EXACT_UP_TO = 20
"""Largest number of non-zero differences for which all assignments of signs are enumerated."""
_CHUNK = 1_000
# Relative tolerance: sums that differ only by rounding count as equal.
_ROUNDING = 1e-12


def sign_flip_p(
    differences: Sequence[float], *, seed: int, samples: int = 20_000, clusters: Sequence[Hashable] | None = None
) -> float:
    """Two-sided p-value of the mean difference under random signs.

    It assumes that, when the arms do not differ, a task (or cluster) is as likely to gain as to lose the same amount.
    Then it holds for any number of tasks. It does not hold when few tasks lose much and many gain a little: see
    `mean_test`.

    clusters: one label per difference; all differences of a cluster then change sign together, so the test uses the
    sums of clusters. Zeros are ignored. Exact for up to 20 non-zero differences (or sums), without the seed; for more,
    (k + 1) / (samples + 1) from random signs, which is never 0. All zero gives 1.
    Raises ConfigError for no differences, for differences that are not finite, for a different number of labels, and
    for fewer than one sample.
    """
    if samples < 1:
        raise ConfigError(f"samples is {samples!r}; a sampled test needs at least 1")
    numbers = finite_numbers("differences", differences)
    if clusters is not None:
        numbers = tuple(math.fsum(members) for members in grouped(numbers, clusters))
    moved = [abs(number) for number in numbers if number]
    if not moved:
        return 1.0
    observed = abs(math.fsum(numbers)) - _ROUNDING * math.fsum(moved)
    import numpy as np

    if len(moved) <= EXACT_UP_TO:
        # All 2**n sums. The first sign is fixed: the other half is symmetric.
        sums = np.array([moved[0]])
        for size in moved[1:]:
            sums = np.concatenate((sums + size, sums - size))
        return float(np.mean(np.abs(sums) >= observed))
    rng, column, reached = np.random.default_rng(seed), np.array(moved), 0
    for start in range(0, samples, _CHUNK):
        signs = rng.integers(0, 2, size=(min(_CHUNK, samples - start), len(moved)), dtype=np.int8) * 2 - 1
        reached += int(np.count_nonzero(np.abs(signs @ column) >= observed))
    return (reached + 1) / (samples + 1)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given. Rejecting those up to alpha bounds the family-wise error rate by alpha.

    Valid under any dependence between the tests. Raises ConfigError for no p-values or one outside 0..1.
    Source: Holm 1979.
    """
    ranked = _ranked(ps)
    adjusted = [0.0] * len(ranked)
    largest = 0.0
    for rank, (p, index) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted[index] = largest
    return tuple(adjusted)


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given. Rejecting those up to alpha bounds the false discovery rate by alpha.

    Valid for independent or positively dependent tests. Raises ConfigError for no p-values or one outside 0..1.
    Source: Benjamini and Hochberg 1995.
    """
    ranked = _ranked(ps)
    adjusted = [0.0] * len(ranked)
    smallest = 1.0
    for rank in range(len(ranked), 0, -1):
        p, index = ranked[rank - 1]
        smallest = min(smallest, p * len(ranked) / rank)
        adjusted[index] = smallest
    return tuple(adjusted)


def _ranked(ps: Sequence[float]) -> list[tuple[float, int]]:
    """The p-values from small to large, each with its index in `ps`."""
    for index, p in enumerate(finite_numbers("ps", ps)):
        if not 0 <= p <= 1:
            raise ConfigError(f"ps[{index}] is {p!r}; a p-value must be between 0 and 1")
    return sorted((float(p), index) for index, p in enumerate(ps))
