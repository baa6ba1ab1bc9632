"""Which lessons each rollout is not shown, so that the effect of every single lesson can be measured.

The choice is a function of its arguments alone. It is the same after a restart, in another process and on another
machine, and nothing that happens in a rollout can change it.
"""

from collections.abc import Iterable
from fractions import Fraction

from agentlearn.errors import ConfigError
from agentlearn.types.ids import ExperienceId, content_hash

MOST_HIDDEN = 0.5
"""Largest share of an application's episodes that a lesson may be hidden in."""
_HEX_DIGITS = 13
_SCALE = 16**_HEX_DIGITS


def masks(
    lessons: Iterable[ExperienceId], *, rollouts: int, hidden: int, key: str
) -> tuple[tuple[ExperienceId, ...], ...]:
    """For each rollout of a block, the sorted lessons to hide.

    Each lesson is hidden in exactly `hidden` of the `rollouts`, independently of the others. key: names the block, such
    as the run, the phase and the task. Raises ConfigError unless each lesson would be hidden and shown at least once.
    """
    if not 1 <= hidden < rollouts:
        raise ConfigError(
            f"hiding each lesson in {hidden!r} of {rollouts!r} rollouts measures nothing; use 1 to {rollouts - 1}",
            code="bad_hidden_rollouts",
        )
    found = [list[ExperienceId]() for _ in range(rollouts)]
    for lesson in sorted(set(lessons)):
        order = sorted(range(rollouts), key=lambda g: content_hash("hide", key, lesson, g))
        for g in order[:hidden]:
            found[g].append(lesson)
    return tuple(tuple(one) for one in found)


def hidden_in_episode(lessons: Iterable[ExperienceId], *, share: float, episode: str) -> tuple[ExperienceId, ...]:
    """The sorted lessons to hide in one episode of an application. Each is hidden with probability `share`, in 0..1.

    The whole episode, and every repetition of it, gets the same answer.
    """
    return tuple(lesson for lesson in sorted(set(lessons)) if _place(episode, lesson) < share)


def share_of(hide: str | float | None) -> float:
    """The share of episodes that each lesson is hidden in, from "1/5" or 0.2; 0 for None. Raises ConfigError."""
    if hide is None:
        return 0.0
    try:
        share = -1.0 if isinstance(hide, bool) else float(Fraction(hide))
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        share = -1.0
    if not 0 <= share <= MOST_HIDDEN:
        raise ConfigError(
            f"hide is {hide!r}; give the share of episodes that each lesson is hidden in, from 0 to 1/2, such as '1/5'",
            code="bad_hide",
        )
    return share


def _place(episode: str, lesson: ExperienceId) -> float:
    """A number in 0..1 that looks random and depends on the episode and the lesson only."""
    return int(content_hash("hide-episode", episode, lesson)[:_HEX_DIGITS], 16) / _SCALE
