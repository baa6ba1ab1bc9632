"""What a reward is: a number from 0 (wrong) to 1 (right). A reward on another scale is mapped where it comes in."""

import math
from numbers import Real
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from agentlearn.errors import ConfigError
from agentlearn.text import short_repr

Scale: TypeAlias = tuple[float, float]
"""The lowest and the highest reward that is given."""
UNIT: Scale = (0.0, 1.0)
_USUAL: tuple[Scale, ...] = ((1, 5), (0, 10), (0, 100))
_HUGE = 1e300


def reward_of(given: object, scale: Scale = UNIT, *, of_feedback: bool = False) -> float:
    """Return a reward as a number from 0 to 1. True and False mean right and wrong on every scale.

    given: a bool, a number, or a scalar of numpy or torch. scale: what its lowest and its highest value are.
    of_feedback: whether another scale can be stated where it comes in. Raises ConfigError for anything else, with the
    arithmetic that corrects it.
    """
    (low, high), plain = scale, given
    if getattr(given, "ndim", None) == 0 and hasattr(given, "item"):
        plain: Any = given.item()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(plain, bool):
        return float(plain)
    words = f"reward is {short_repr(given)}; give True, False or a number from {low:g} to {high:g}"
    number: Any = plain if isinstance(plain, Real) else math.nan
    if abs(number) < _HUGE:
        value = float(number)
        if low <= value <= high:
            return (value - low) / (high - low)
        limit = f"above {high:g}" if value > high else f"below {low:g}"
        words = f"reward {value:.6g} is {limit}; {_correction(value, scale, of_feedback)}"
    raise ConfigError(words, code="bad_reward")


OptionalReward: TypeAlias = Annotated[
    float | None, BeforeValidator(lambda given: None if given is None else reward_of(given))
]
"""A field for a reward from 0 to 1 that was given elsewhere; None for none."""


def _correction(value: float, scale: Scale, of_feedback: bool) -> str:
    """What to do about a reward that is outside its scale."""
    if scale != UNIT:
        return f"give a number from {scale[0]:g} to {scale[1]:g}, the scale that was stated"
    fits = next((one for one in _USUAL if 0 <= value <= one[1] and value.is_integer()), None)
    low, high = (-1, 1) if -1 <= value < 0 else fits or ("LOWEST", "HIGHEST")
    step = "add 1 and divide by 2" if high == 1 else f"divide by {high}" if fits else "map your scale to 0 to 1"
    stated = f", or say Recorder(scale=({low}, {high})) (for a gateway: --scale {low},{high})"
    return step + (stated if of_feedback else "")


def number_range(given: object, what: str, example: str) -> tuple[float, float]:
    """Return the lowest and the highest number in `LOW,HIGH`, `LOW..HIGH` or a pair.

    what, example: for the error, such as `the score range` and `--score-range -1,1`. Raises ConfigError.
    """
    parts: Any = given.replace("..", ",").split(",") if isinstance(given, str) else given
    try:
        low, high = map(float, parts)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ConfigError(
            f"{what} {given!r} is not a lowest and a highest score; give two numbers, the smaller one first, such as"
            f" {example}",
            code=f"bad_{what.removeprefix('the ').replace(' ', '_')}",
        )
    return low, high
