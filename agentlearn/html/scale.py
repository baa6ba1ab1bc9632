"""A linear scale from values to percent of a chart's width, with round ticks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

MOST_TICKS = 5
"""Number of ticks that fit below a chart on a phone."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps [low, high] to [start, end] in percent. Values outside are moved to the ends."""

    low: float
    high: float
    ticks: tuple[float, ...]
    start: float = 0.0
    end: float = 100.0

    def at(self, value: float) -> float:
        """The position of a value, in percent."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def holds(self, value: float) -> bool:
        """Whether the value is inside the scale."""
        return self.low <= value <= self.high

    @property
    def digits(self) -> int:
        """Decimals needed to distinguish the ticks."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 1.0
        return next((digits for digits in range(9) if abs(round(step, digits) - step) < step * 1e-6), 9)


def scale_of(
    values: Iterable[float],
    *,
    limits: tuple[float, float] = (-math.inf, math.inf),
    least_step: float = 0.0,
    start: float = 0.0,
    end: float = 100.0,
) -> Scale:
    """A scale that contains all finite values and ends at round numbers.

    limits: largest extent of the scale. least_step: smallest distance of two ticks. When all values are equal, the
    scale extends to both sides of them; without values, of 0.
    """
    inside = [min(max(value, limits[0]), limits[1]) for value in values if math.isfinite(value)] or [0.0]
    low, high = min(inside), max(inside)
    if high - low < max(abs(high), abs(low), 1e-9) * 1e-9:
        widen = abs(high) / 2 or 0.5
        low, high = low - widen, high + widen
    step = _round_step(max((high - low) / (MOST_TICKS - 1), least_step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    while last - first + 1 > MOST_TICKS:
        step = _round_step(step * 1.01)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(index * step for index in range(first, last + 1))
    return Scale(low=ticks[0], high=ticks[-1], ticks=ticks, start=start, end=end)


def percent(value: float) -> str:
    """A coordinate in percent with at most two decimals: `12.5%`."""
    return f"{round(value, 2):g}%"


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))
