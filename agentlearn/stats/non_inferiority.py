"""Non-inferiority test: is one arm worse than the other by less than a margin chosen in advance?"""

import math
from typing import Protocol

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import between
from agentlearn.stats.students_t import cdf, quantile
from agentlearn.types.value import Value


class EstimatedMean(Protocol):
    """An estimated mean with its standard error; `degrees` None means the normal distribution."""

    @property
    def mean(self) -> float: ...
    @property
    def standard_error(self) -> float | None: ...
    @property
    def degrees(self) -> float | None: ...


class NonInferiority(Value):
    """Result of a non-inferiority test: is the difference above -margin?"""

    p: float
    """One-sided p-value of the hypothesis that the difference is -margin or less."""
    low: float
    """One-sided lower confidence bound of the difference."""
    margin: float
    """The margin, above 0, in units of the score."""
    holds: bool
    """Whether non-inferiority is shown: p <= 1 - level, which is the same as low >= -margin."""


def non_inferiority(difference: EstimatedMean, margin: float, *, level: float = 0.95) -> NonInferiority | None:
    """Test that a difference (after - before) is above -margin; None if its standard error is unknown or 0.

    An error of 0 only means that all observed values were equal, and would pass any margin. Raises ConfigError for a
    margin that is not positive and finite, and for a level outside 0..1.
    """
    between("margin", margin, 0, math.inf)
    between("level", level, 0, 1)
    error = difference.standard_error
    if error is None or error == 0:
        return None
    if not (math.isfinite(difference.mean) and math.isfinite(error) and error > 0):
        raise ConfigError(
            f"the difference is {difference.mean!r} with a standard error of {error!r};"
            " non-inferiority needs finite numbers and an error that is not negative"
        )
    degrees = math.inf if difference.degrees is None else difference.degrees
    low = difference.mean - quantile(level, degrees) * error
    p = cdf(-(difference.mean + margin) / error, degrees)
    return NonInferiority(p=p, low=low, margin=margin, holds=p <= 1 - level)
