"""A small domain for the simulated world's tests: three families, four traps, real programs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from agentlearn_demo.sim.skills import Act, Conversation, FinalMessage, FollowedLessons, ToolUse, Trap

ENDPOINTS = Trap(
    name="endpoints_left_out",
    careless=("stop before the last value", "leave the upper end open"),
    careful=("both ends belong to the range", "run up to the last value as well"),
    cues=(("endpoint", "boundary", "boundaries", "both ends"), ("includ", "inclusive", "closed", "count", "forget")),
    advice=(
        "include both endpoints of the range",
        "treat the interval as closed and count its boundary values",
        "do not forget the endpoints",
        "make every range inclusive so that both ends are counted",
    ),
    situations=("a range of values is searched", "a loop runs over an interval", "bounds are given in words"),
)
ORDER = Trap(
    name="ordered_for_unordered",
    careless=("every ordering is its own case", "walk over all arrangements"),
    careful=("a choice has no order here", "take each selection once"),
    cues=(("order", "arrangement", "permutation"), ("unordered", "once", "combination", "selection", "same")),
    advice=(
        "do not count the same selection in several orders",
        "use combinations instead of permutations unless order is asked for",
        "count each unordered selection once, whatever its arrangement",
        "ask whether order matters, and if not treat arrangements as the same",
    ),
    situations=("things are chosen together", "a selection is made", "members of a group are picked"),
)
REDUCTION = Trap(
    name="fraction_not_reduced",
    careless=("add the parts as they stand", "keep numerator and denominator as found"),
    careful=("bring it to lowest terms", "divide out the common factor"),
    cues=(("fraction", "numerator", "denominator"), ("reduc", "lowest terms", "simplif", "common factor")),
    advice=(
        "reduce the fraction before its parts are added",
        "bring the fraction to lowest terms first",
        "divide numerator and denominator by their common factor",
        "simplify the fraction; never add parts that share a factor",
    ),
    situations=("the answer is built from a fraction", "a ratio is reported", "two parts of a quotient are combined"),
)
SMALL_CASE = Trap(
    name="small_case_unchecked",
    careless=("the output speaks for itself", "take the first result"),
    careful=("try it by hand on a tiny case", "compare with a case known by heart"),
    cues=(("small", "tiny", "simple"), ("check", "verif", "test", "compar")),
    advice=(
        "check the program on a small case first",
        "verify a tiny instance by hand before trusting the output",
        "never trust a program without a test on a small instance",
        "compare with a simple case whose answer is known",
    ),
    situations=("a program gives the answer", "code is trusted", "a tool returns a value"),
    base=0.25,
)
TRAPS = (ENDPOINTS, ORDER, REDUCTION, SMALL_CASE)

_MULTIPLES = re.compile(r"How many multiples of (\d+) lie from (\d+) to (\d+)\?")
_CLUBS = re.compile(r"How many committees of (\d+) can a club of (\d+) form\?")
_CHANCE = re.compile(r"A draw succeeds in (\d+) of (\d+) cases, with probability m/n in lowest terms\. Find m \+ n\.")


@dataclass(frozen=True)
class ToySituation:
    family: str
    traps: tuple[str, ...]
    numbers: tuple[int, ...]
    output: str | None

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        if self.output is not None:
            return FinalMessage(f"The program says so.\n\\boxed{{{self.output.strip()}}}")
        comments: list[str] = []
        for trap in (one for one in TRAPS if one.name in self.traps):
            words = rng.choice(trap.careless if trap.name in flaws else trap.careful)
            label = followed.labels.get(trap.name)
            comments.append(f"# {label}: {words}" if label and trap.name not in flaws else f"# {words}")
        code = "\n".join([*comments, _program(self.family, self.numbers, flaws)])
        return ToolUse("run_python", {"code": code}, "I will count by a program.")


def _program(family: str, numbers: tuple[int, ...], flaws: frozenset[str]) -> str:
    # An unchecked small case shows as an answer that is off by a factor.
    times = " * 2" if "small_case_unchecked" in flaws else ""
    match family:
        case "multiples":
            step, low, high = numbers
            end = high if "endpoints_left_out" in flaws else high + 1
            return f"print(sum(n % {step} == 0 for n in range({low}, {end})){times})"
        case "committees":
            size, club = numbers
            walk = "permutations" if "ordered_for_unordered" in flaws else "combinations"
            return f"import itertools\nprint(len(list(itertools.{walk}(range({club}), {size}))){times})"
        case _:
            wins, cases = numbers
            common = "1" if "fraction_not_reduced" in flaws else f"math.gcd({wins}, {cases})"
            return f"import math\nd = {common}\nprint(({wins} // d + {cases} // d){times})"


class ToySkills:
    """Recognises three kinds of question."""

    domain = "toy"
    traps = TRAPS
    topics: Mapping[str, tuple[str, ...]] = {
        "multiples": ("multiple",),
        "committees": ("committee", "club"),
        "chance": ("probabilit", "draw"),
    }

    def recognise(self, conversation: Conversation) -> ToySituation | None:
        question = conversation.question
        output = conversation.turns[-1].result if conversation.turns else None
        for family, pattern, traps in (
            ("multiples", _MULTIPLES, (ENDPOINTS.name, SMALL_CASE.name)),
            ("committees", _CLUBS, (ORDER.name, SMALL_CASE.name)),
            ("chance", _CHANCE, (REDUCTION.name, SMALL_CASE.name)),
        ):
            if found := pattern.search(question):
                numbers = tuple(int(number) for number in found.groups())
                return ToySituation(family, () if output else traps, numbers, output)
        return None


def skills() -> ToySkills:
    """The entry point's factory."""
    return ToySkills()


def problems(count: int, seed: int = 0) -> list[str]:
    """Questions of all families in turn; every flaw makes their answers wrong."""
    rng = Random(seed)
    made: list[str] = []
    for at in range(count):
        factor, other = rng.randrange(2, 9), rng.randrange(3, 9)
        made.append(
            (
                f"How many multiples of {factor} lie from {rng.randrange(1, 9)} to {factor * rng.randrange(5, 30)}?",
                f"How many committees of {rng.randrange(2, 4)} can a club of {rng.randrange(5, 9)} form?",
                (
                    f"A draw succeeds in {factor * 3} of {factor * (3 + other)} cases, with probability m/n in lowest"
                    " terms. Find m + n."
                ),
            )[at % 3]
        )
    return made
