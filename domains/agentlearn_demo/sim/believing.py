"""What the simulated reflector takes from reasons: the habits that the reasons of verdicts name in words.

The model: a reason that names a habit, by one of its phrases or by the cues of lessons about it, makes the habit a
suspect with a probability. That probability is high when the summary of the same attempt shows what the reason says,
lower when the summary shows neither side, and low when it shows the opposite. So a good reason finds habits that a
small group alone does not prove, and a misleading one sometimes misleads. A reason that names no habit changes nothing,
not even a random draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentlearn_demo.sim.habits import Habit

SHOWN = 0.95
"""Probability of believing a reason that the summary of its attempt supports."""
UNSEEN = 0.6
"""The same for a habit on which the summary says nothing."""
OPPOSED = 0.2
"""The same for a habit of which the summary shows the opposite."""

Draw = Callable[[str], float]
"""A number in [0, 1) for a trap."""


@dataclass(frozen=True, slots=True)
class AttemptHabits:
    """One attempt as the reflector sees it."""

    right: bool
    habits: tuple[Habit, ...]
    """Habits that its summary shows."""
    told: tuple[str, ...] = ()
    """Names of the traps that the reason of its verdict names."""


def believed_traps(attempts: Sequence[AttemptHabits], draw: Draw) -> list[str]:
    """The traps that the reflector believes because reasons name them, those that most reasons name first."""
    named: dict[str, list[float]] = {}
    for attempt in attempts:
        for trap in attempt.told:
            named.setdefault(trap, []).append(_belief(trap, attempt))
    believed = [trap for trap, chances in named.items() if draw(trap) < max(chances)]
    return sorted(believed, key=lambda trap: (-len(named[trap]), trap))


def _belief(trap: str, attempt: AttemptHabits) -> float:
    """A wrong attempt is expected to show the careless habit, a right one the careful habit."""
    shown = {habit.careless for habit in attempt.habits if habit.trap == trap}
    if not shown:
        return UNSEEN
    return SHOWN if (not attempt.right) in shown else OPPOSED
