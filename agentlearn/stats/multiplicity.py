"""Adjust the p-values of several comparisons, to bound the errors of all of them together."""

from collections.abc import Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import finite_numbers


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
