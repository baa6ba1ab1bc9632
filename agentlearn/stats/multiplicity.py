"""Several comparisons at once: p-values adjusted so that the whole family errs no more often than one test may."""

from collections.abc import Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import finite


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given; below alpha, they bound the chance of any false finding (family-wise).

    Holds under any dependence between the tests. Raises ConfigError for no p-values or one outside 0..1.
    Source: Holm 1979.
    """
    ranked = _ranked(ps)
    adjusted = [0.0] * len(ranked)
    largest = 0.0
    for rank, (p, place) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted[place] = largest
    return tuple(adjusted)


def benjamini_hochberg(ps: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given; below alpha, they bound the expected share of false findings.

    Holds for independent or positively dependent tests. Raises ConfigError for no p-values or one outside 0..1.
    Source: Benjamini and Hochberg 1995.
    """
    ranked = _ranked(ps)
    adjusted = [0.0] * len(ranked)
    smallest = 1.0
    for rank in range(len(ranked), 0, -1):
        p, place = ranked[rank - 1]
        smallest = min(smallest, p * len(ranked) / rank)
        adjusted[place] = smallest
    return tuple(adjusted)


def _ranked(ps: Sequence[float]) -> list[tuple[float, int]]:
    """The p-values from small to large, each with its place in the order given."""
    for place, p in enumerate(finite("ps", ps)):
        if not 0 <= p <= 1:
            raise ConfigError(f"ps[{place}] is {p!r}; a p-value lies between 0 and 1")
    return sorted((float(p), place) for place, p in enumerate(ps))
