"""A test of the mean difference that assumes no symmetry, and allows for large values that a sample missed.

A sample without the rare large losses looks better than any other, and its own spread cannot show that. What is known
is how much a unit can lose or gain. So two things are asked: how likely the data are under the most likely distribution
with a mean of 0 in the range that was seen, and how easily a sample of this size misses units at the far end of the
whole range and still has such a mean.
"""

import math
from collections.abc import Hashable, Sequence

from agentlearn.stats.clustered import between, cdf, finite_numbers, grouped
from agentlearn.stats.score import missed_chance, score_statistic
from agentlearn.types.value import Value

# Decimals to which sums of clusters are compared: sums that differ only by rounding are the same value.
_DIGITS = 12


class MeanTest(Value):
    """Test that a mean difference has the sign that it seems to have."""

    p: float
    """Probability of data like these, at most, if the true mean is 0 or has the other sign: the larger of `tilted` and
    `missed`."""
    tilted: float
    """One-sided p of the score statistic, within the range of the units that were seen."""
    hidden: float
    """Share of units at the far end of the range that would bring the mean of the others to 0."""
    missed: float
    """Probability that a sample of this many units contains none of the hidden ones and still has a mean this far from
    0; see `missed_chance`."""


def mean_test(
    differences: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    most_lost: float = 1.0,
    most_gained: float = 1.0,
) -> MeanTest:
    """Test the sign of the mean difference over tasks or clusters.

    differences: one per task. clusters: one label per task; the units are then the sums of clusters, and a hidden unit
    has their mean size. most_lost, most_gained: how much a hidden unit can lose and gain; a larger difference in the
    data extends the range. A mean of 0 gives p = 1.
    Raises ConfigError for no differences, for differences that are not finite, for a different number of labels, and
    for a limit that is not above 0.
    """
    between("most_lost", most_lost, 0, math.inf)
    between("most_gained", most_gained, 0, math.inf)
    numbers = finite_numbers("differences", differences)
    members = grouped(numbers, range(len(numbers)) if clusters is None else clusters)
    size = len(numbers) / len(members)
    units = [round(math.fsum(unit) / size, _DIGITS) for unit in members]
    mean = math.fsum(units) / len(units)
    if abs(mean) < 10**-_DIGITS:
        return MeanTest(p=1.0, tilted=0.5, hidden=0.0, missed=1.0)
    low, high = min(-most_lost, *units), max(most_gained, *units)
    reach = max(map(abs, units))
    tilted = cdf(-abs(score_statistic(units, 0.0, smallest=-reach, largest=reach)), math.inf)
    hidden = abs(mean) / (abs(mean) - low if mean > 0 else abs(mean) + high)
    missed = missed_chance(units, 0.0, smallest=low, largest=high)
    return MeanTest(p=max(tilted, missed), tilted=tilted, hidden=hidden, missed=missed)


def typical_size(values: Sequence[float]) -> float:
    """The mean of the values, each weighted by its size: what a hidden unit can lose, given what the units have.

    values: not negative. Half 0 and half 1 gives 1, because only those with 1 have anything to lose. All 0 gives 0.
    """
    total = math.fsum(values)
    return math.fsum(value * value for value in values) / total if total > 0 else 0.0
