"""The paired difference between two arms over the same independent tasks (`clustered` handles clusters of tasks)."""

from collections.abc import Sequence

from agentlearn.errors import ConfigError
from agentlearn.stats.interval import Interval, mean_interval
from agentlearn.stats.numbers import finite_numbers


def paired_difference(before: Sequence[float], after: Sequence[float], *, level: float = 0.95) -> Interval:
    """Mean of after - before over tasks, with its paired t interval.

    before, after: one value per task (its mean over rollouts), in the same order. One task gives a mean without an
    interval. Raises ConfigError for different lengths, no tasks, or values that are not finite.
    """
    if len(before) != len(after):
        raise ConfigError(
            f"before has {len(before)} values and after has {len(after)};"
            " a paired difference needs one value of each per task, in the same order"
        )
    pairs = zip(finite_numbers("before", before), finite_numbers("after", after), strict=True)
    return mean_interval([late - early for early, late in pairs], level=level)
