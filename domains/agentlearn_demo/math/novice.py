"""The simulated solver's skills for math: it reads a problem's words, writes a program, and reads its output.

It has no answer key. A recognised problem gives the numbers in its text, the program is the family's with the drawn
flaws, and the answer is what the tool printed. Without a Python tool it states the same decisions and runs its program
itself ("in its head"), for problems that are no larger than those it knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from agentlearn.sandbox.python_tool import TOOL, printed_value
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.problem import Problem, printed
from agentlearn_demo.sim.skills import (
    Act,
    Conversation,
    FinalMessage,
    FollowedLessons,
    Situation,
    ToolUse,
    Trap,
    Turn,
    traps_in,
)

TRAPS = traps_in("agentlearn_demo.math")
"""All traps of the domain, in a fixed order."""


PLANS = (
    "I will let a short program work this out.",
    "A small program can go through the cases.",
    "Let me compute this with Python.",
    "I translate the problem into a few lines of code.",
)
RETRIES = ("The run failed, so I try the same program once more.", "That did not run through. Once again.")
REPORTS = (
    "The program printed {value}, so the answer is \\boxed{{{value}}}.",
    "From the output {value} I conclude: \\boxed{{{value}}}",
    "The result is \\boxed{{{value}}}.",
    "Reading off the program's output, the final answer is \\boxed{{{value}}}.",
)
FAILURES = (
    "I could not compute the answer: the program did not run through.",
    "The program failed twice, so I could not compute an answer.",
)
THOUGHTS = ("I work this out in my head.", "I go through it step by step.", "Let me count without a tool.")
TOOLLESS = (
    "I would need to run a program for this, and no Python tool is offered, so I could not compute the answer.",
    "Without a Python tool I could not compute the answer.",
)
_BY_NAME = {trap.name: trap for trap in TRAPS}


@dataclass(frozen=True)
class _MathSkills:
    """The math domain's `agentlearn_demo.sim.skills.Skills`."""

    domain: str = "math"
    traps: tuple[Trap, ...] = TRAPS

    @property
    def topics(self) -> Mapping[str, tuple[str, ...]]:
        return {family.name: family.topics for family in FAMILIES}

    def recognise(self, conversation: Conversation) -> Situation | None:
        """Return the current turn; None when the question does not match a wording of the families."""
        recognised = (family.recognise(conversation.question) for family in FAMILIES)
        problem = next(filter(None, recognised), None)
        return None if problem is None else _turn(problem, conversation)


skills = _MathSkills()


def _turn(problem: Problem, conversation: Conversation) -> Turn:
    """What to do next: write the program, run it once more after a failure, and say what it printed."""

    def write(flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        notes = {trap: _note(trap, flaws, followed, rng) for trap in problem.traps}
        return ToolUse(TOOL, {"code": problem.program(flaws, notes)}, text=rng.choice(PLANS))

    def think(flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        thought = rng.choice(THOUGHTS)
        decisions = [_note(trap, flaws, followed, rng) for trap in problem.traps]
        sentences = [thought, *(f"{one[:1].upper()}{one[1:]}." for one in decisions)]
        return FinalMessage(" ".join([*sentences, f"The answer is \\boxed{{{printed(problem.program(flaws))}}}."]))

    def say(wordings: tuple[str, ...], value: str = "") -> Turn:
        return Turn(problem.name, (), lambda _, __, rng: FinalMessage(rng.choice(wordings).format(value=value)))

    if not conversation.turns:
        if TOOL in conversation.tools:
            return Turn(problem.name, problem.traps, write)
        return Turn(problem.name, problem.traps, think) if _is_small(problem) else say(TOOLLESS)
    last = conversation.turns[-1]
    value = printed_value(last.result)
    if value is not None:
        return say(REPORTS, value)
    if len(conversation.turns) > 1:
        return say(FAILURES)
    return Turn(problem.name, (), lambda _, __, rng: ToolUse(TOOL, last.arguments, text=rng.choice(RETRIES)))


def _is_small(problem: Problem) -> bool:
    """Whether no value is more than twice as large as in drawn problems of the family, so that solving it is fast."""
    largest = _largest(type(problem))
    return all(abs(value) <= 2 * largest[name] for name, value in vars(problem).items())


@cache
def _largest(family: type[Problem]) -> Mapping[str, int]:
    """Return the largest size of each value in some drawn problems of a family."""
    rng = Random(0)
    drawn = [vars(family.draw(rng)) for _ in range(64)]
    return {field: max(abs(one[field]) for one in drawn) for field in drawn[0]}


def _note(name: str, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> str:
    """Return the comment on a decision; a careful one names the lesson that it follows."""
    trap, fallen = _BY_NAME[name], name in flaws
    phrase = rng.choice(trap.careless if fallen else trap.careful)
    label = followed.labels.get(name)
    return f"{phrase} ({label})" if label and not fallen else phrase
