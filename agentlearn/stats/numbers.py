"""What every statistic asks of the numbers it is given."""

import math
from collections.abc import Sequence

from agentlearn.errors import ConfigError


def finite(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """The values as floats. Raises ConfigError when there are none, or one is infinite or not a number."""
    if not len(values):
        raise ConfigError(f"{name} is empty; a statistic needs at least one number")
    floats = tuple(map(float, values))
    for place, value in enumerate(floats):
        if not math.isfinite(value):
            raise ConfigError(f"{name}[{place}] is {value!r}; leave out what was not measured and give finite numbers")
    return floats


def between(name: str, value: float, low: float, high: float) -> float:
    """The value, when it lies strictly between low and high. Raises ConfigError otherwise, also for NaN."""
    if not low < value < high:
        raise ConfigError(f"{name} is {value!r}; it must lie strictly between {low:g} and {high:g}")
    return value


def not_negative(name: str, value: float) -> float:
    """The value, when it is 0 or more and finite. Raises ConfigError otherwise, also for NaN."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it must be finite and not negative")
    return value
