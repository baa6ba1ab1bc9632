"""Checks of the numbers passed to statistics."""

import math
from collections.abc import Sequence

from agentlearn.errors import ConfigError


def finite_numbers(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """The values as floats. Raises ConfigError if there are none or one is infinite or NaN."""
    if not len(values):
        raise ConfigError(f"{name} is empty; a statistic needs at least one number")
    floats = tuple(map(float, values))
    for index, value in enumerate(floats):
        if not math.isfinite(value):
            raise ConfigError(f"{name}[{index}] is {value!r}; leave out missing measurements and pass finite numbers")
    return floats


def between(name: str, value: float, low: float, high: float) -> float:
    """The value, if it is strictly between low and high. Raises ConfigError otherwise, also for NaN."""
    if not low < value < high:
        raise ConfigError(f"{name} is {value!r}; it must be strictly between {low:g} and {high:g}")
    return value


def not_negative(name: str, value: float) -> float:
    """The value, if it is finite and not negative. Raises ConfigError otherwise, also for NaN."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it must be finite and not negative")
    return value
