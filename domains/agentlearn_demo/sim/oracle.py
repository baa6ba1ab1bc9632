"""The oracle: exact success probabilities in a simulated world, to check what learning and evaluation find.

Code that learns or evaluates must not import it; an import contract checks that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

from agentlearn_demo.sim.trap_model import TrapModel

Right = Callable[[frozenset[str]], bool]
"""Whether a rollout with these flaws still ends with a right answer."""

TUNING_WORLDS: tuple[int, ...] = (101, 102, 103, 104, 105)
"""Seeds of the worlds in which an algorithm may be tuned. Fixed before any algorithm was judged."""
JUDGING_WORLDS: tuple[int, ...] = (7_919, 15_485, 32_452, 49_979, 67_867, 86_028, 104_395, 122_949)
"""Seeds of the worlds in which an algorithm is judged and never tuned."""


class OracleTurn(Protocol):
    """The part of a situation that the oracle needs."""

    @property
    def family(self) -> str: ...

    @property
    def traps(self) -> tuple[str, ...]: ...


def flawless(flaws: frozenset[str]) -> bool:
    """Right exactly if there is no flaw."""
    return not flaws


@dataclass(frozen=True, slots=True)
class Case:
    """A task as the oracle sees it."""

    turns: tuple[OracleTurn, ...]
    """The situations of the rollout. Each turn's request has another seed, so their draws are independent."""
    right: Right = flawless
    """Whether a set of flaws, over all turns, still ends with a right answer."""


def success_probability(
    case: Case, lessons: Sequence[str], trap_model: TrapModel, *, temperature: float = 0.7
) -> float:
    """The exact probability that a rollout of the case ends with a right answer, with these lessons in context."""
    falls = _falls(case, lessons, trap_model, temperature)
    if case.right is flawless:
        return prod(1 - fall for fall in falls.values())
    return sum(_weight(falls, fallen) for fallen in _subsets(tuple(falls)) if case.right(fallen))


def mean_success(
    cases: Sequence[Case], lessons: Sequence[str], trap_model: TrapModel, *, temperature: float = 0.7
) -> float:
    """The mean success probability over cases. Raises ZeroDivisionError for no cases."""
    return sum(success_probability(case, lessons, trap_model, temperature=temperature) for case in cases) / len(cases)


def _falls(case: Case, lessons: Sequence[str], trap_model: TrapModel, temperature: float) -> dict[str, float]:
    """Per trap, the probability of falling into it in at least one turn."""
    stays: dict[str, float] = {}
    for turn in case.turns:
        for trap, fall in trap_model.probabilities(turn.traps, turn.family, lessons, temperature).items():
            stays[trap] = stays.get(trap, 1.0) * (1 - fall)
    return {trap: 1 - stay for trap, stay in stays.items()}


def _subsets(traps: tuple[str, ...]) -> list[frozenset[str]]:
    choices = product((False, True), repeat=len(traps))
    return [frozenset(trap for trap, fallen in zip(traps, chosen, strict=True) if fallen) for chosen in choices]


def _weight(falls: Mapping[str, float], fallen: frozenset[str]) -> float:
    return prod(fall if trap in fallen else 1 - fall for trap, fall in falls.items())
