"""Non-inferiority: is one arm no worse than the other by more than a margin that was named beforehand?"""

import math
from typing import Protocol

from agentlearn.errors import ConfigError
from agentlearn.stats.numbers import between
from agentlearn.stats.students_t import cdf, quantile
from agentlearn.types.value import Value


class Known(Protocol):
    """A mean and how well it is known; `degrees` None stands for the normal distribution."""

    @property
    def mean(self) -> float: ...
    @property
    def standard_error(self) -> float | None: ...
    @property
    def degrees(self) -> float | None: ...


class NonInferiority(Value):
    """Answer to: is the difference above -margin?"""

    p: float
    """One-sided, of the hypothesis that the difference is -margin or less."""
    low: float
    """Lower bound of the difference, one-sided at the level asked for."""
    margin: float
    """Above 0, in units of the score."""
    holds: bool
    """No worse than the margin: p <= 1 - level, that is low >= -margin."""


def non_inferiority(difference: Known, margin: float, *, level: float = 0.95) -> NonInferiority | None:
    """Test that a difference (after - before) is above -margin; None where its error is not known, or is 0.

    An error of 0 only says that all values seen were equal, and would prove any margin. Raises ConfigError for a margin
    that is not positive and finite, and for a level outside 0..1.
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
