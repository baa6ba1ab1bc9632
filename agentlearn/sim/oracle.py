"""The oracle: what is exactly true of a simulated world, for judging what learning and evaluation find out.

Nothing that learns or evaluates may import it; an import contract proves that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

from agentlearn.sim.trap_model import TrapModel

Right = Callable[[frozenset[str]], bool]


class OracleTurn(Protocol):
    """What the oracle needs to know of a situation."""

    @property
    def family(self) -> str: ...

    @property
    def traps(self) -> tuple[str, ...]: ...


def flawless(flaws: frozenset[str]) -> bool:
    """Right exactly when no trap was fallen into."""
    return not flaws


@dataclass(frozen=True, slots=True)
class Case:
    """A task as the oracle sees it."""

    turns: tuple[OracleTurn, ...]
    """The situations on the way; requests of different turns have different seeds, so their draws are independent."""
    right: Right = flawless
    """Which sets of flaws, over all turns, still end in a right answer."""


def success_probability(case: Case, lessons: Sequence[str], law: TrapModel, *, temperature: float = 0.7) -> float:
    """The exact probability that a rollout of the case ends right, with those lessons in context."""
    falls = _falls(case, lessons, law, temperature)
    if case.right is flawless:
        return prod(1 - fall for fall in falls.values())
    return sum(_weight(falls, fallen) for fallen in _subsets(tuple(falls)) if case.right(fallen))


def mean_success(cases: Sequence[Case], lessons: Sequence[str], law: TrapModel, *, temperature: float = 0.7) -> float:
    """The mean over cases. Raises ZeroDivisionError for none."""
    return sum(success_probability(case, lessons, law, temperature=temperature) for case in cases) / len(cases)


def lesson_effects(
    cases: Sequence[Case], lessons: Sequence[str], law: TrapModel, *, temperature: float = 0.7
) -> tuple[float, ...]:
    """Per lesson, the mean success with all lessons less that without this one: its true effect in this library."""
    whole = mean_success(cases, lessons, law, temperature=temperature)
    without = ([*lessons[:at], *lessons[at + 1 :]] for at in range(len(lessons)))
    return tuple(whole - mean_success(cases, rest, law, temperature=temperature) for rest in without)


def _falls(case: Case, lessons: Sequence[str], law: TrapModel, temperature: float) -> dict[str, float]:
    """Per trap, the probability of falling into it in at least one turn."""
    stays: dict[str, float] = {}
    for turn in case.turns:
        for trap, fall in law.probabilities(turn.traps, turn.family, lessons, temperature).items():
            stays[trap] = stays.get(trap, 1.0) * (1 - fall)
    return {trap: 1 - stay for trap, stay in stays.items()}


def _subsets(traps: tuple[str, ...]) -> list[frozenset[str]]:
    choices = product((False, True), repeat=len(traps))
    return [frozenset(trap for trap, fallen in zip(traps, chosen, strict=True) if fallen) for chosen in choices]


def _weight(falls: Mapping[str, float], fallen: frozenset[str]) -> float:
    return prod(fall if trap in fallen else 1 - fall for trap, fall in falls.items())
