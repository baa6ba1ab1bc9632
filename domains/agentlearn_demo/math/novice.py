"""The simulated solver's skills for math: it reads a problem's words, writes a program, and reads its output.

It has no answer key. A recognised problem gives the numbers in its text, the program is the family's with the drawn
flaws, and the answer is what the tool printed. Without a Python tool it states the same decisions and runs its program
itself ("in its head"), for problems that are no larger than those it knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from agentlearn.sandbox.python_tool import TOOL, printed_value
from agentlearn_demo.math.families import FAMILIES
from agentlearn_demo.math.family import Family, printed
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.skills import Act, Conversation, FinalMessage, FollowedLessons, Situation, ToolUse, Trap

_BY_NAME = {trap.name: trap for trap in TRAPS}

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
_KNOWN_SIZES = 64
"""Drawn problems that show how large the numbers of a family are."""
TOOLLESS = (
    "I would need to run a program for this, and no Python tool is offered, so I could not compute the answer.",
    "Without a Python tool I could not compute the answer.",
)


@dataclass(frozen=True)
class Writing:
    """The first turn: the solver writes a program that contains every decision of the family's traps."""

    problem: Family[Any]
    params: Any

    @property
    def family(self) -> str:
        return self.problem.name

    @property
    def traps(self) -> tuple[str, ...]:
        return self.problem.traps

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        notes = {trap: _note(_BY_NAME[trap], trap in flaws, followed, rng) for trap in self.traps}
        code = self.problem.program(self.params, flaws, notes)
        return ToolUse(TOOL, {"code": code}, text=rng.choice(PLANS))


@dataclass(frozen=True)
class Thinking:
    """The only turn without a tool: the decisions of the family's traps in words, and the answer that they lead to."""

    problem: Family[Any]
    params: Any

    @property
    def family(self) -> str:
        return self.problem.name

    @property
    def traps(self) -> tuple[str, ...]:
        return self.problem.traps

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        thought = rng.choice(THOUGHTS)
        decisions = [_note(_BY_NAME[trap], trap in flaws, followed, rng) for trap in self.traps]
        value = printed(self.problem.program(self.params, flaws))
        sentences = [thought, *(f"{one[:1].upper()}{one[1:]}." for one in decisions)]
        return FinalMessage(" ".join([*sentences, f"The answer is \\boxed{{{value}}}."]))


@dataclass(frozen=True)
class Retrying:
    """The turn after the tool failed once: the same program again."""

    family: str
    arguments: Mapping[str, object]
    traps: tuple[str, ...] = ()

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        return ToolUse(TOOL, self.arguments, text=rng.choice(RETRIES))


@dataclass(frozen=True)
class Speaking:
    """The last turn: one of several wordings of the result."""

    family: str
    wordings: tuple[str, ...]
    value: str = ""
    traps: tuple[str, ...] = ()

    def act(self, flaws: frozenset[str], followed: FollowedLessons, rng: Random) -> Act:
        return FinalMessage(rng.choice(self.wordings).format(value=self.value))


@dataclass(frozen=True)
class MathSkills:
    """The math domain's `agentlearn_demo.sim.skills.Skills`."""

    domain: str = "math"
    traps: tuple[Trap, ...] = TRAPS

    @property
    def topics(self) -> Mapping[str, tuple[str, ...]]:
        return {family.name: family.topics for family in FAMILIES}

    def recognise(self, conversation: Conversation) -> Situation | None:
        """Return the current turn; None when the question does not match a wording of the families."""
        for family in FAMILIES:
            params = family.recognise(conversation.question)
            if params is not None:
                return _situation(family, params, conversation)
        return None


def _situation(family: Family[Any], params: Any, conversation: Conversation) -> Situation:
    if not conversation.turns:
        if TOOL in conversation.tools:
            return Writing(family, params)
        return Thinking(family, params) if _is_small(family, params) else Speaking(family.name, TOOLLESS)
    last = conversation.turns[-1]
    value = printed_value(last.result)
    if value is not None:
        return Speaking(family.name, REPORTS, value)
    if len(conversation.turns) == 1:
        return Retrying(family.name, last.arguments)
    return Speaking(family.name, FAILURES)


def _is_small(family: Family[Any], params: Any) -> bool:
    """Whether no value is more than twice as large as in drawn problems of the family, so that solving it is fast."""
    largest = _largest(family.name)
    return all(_size(value) <= 2 * largest[name] for name, value in vars(params).items())


@cache
def _largest(name: str) -> Mapping[str, int]:
    """Return the largest size of each value in some drawn problems of a family."""
    (family,) = (one for one in FAMILIES if one.name == name)
    rng = Random(0)
    drawn = [vars(family.draw(rng)) for _ in range(_KNOWN_SIZES)]
    return {field: max(_size(one[field]) for one in drawn) for field in drawn[0]}


def _size(value: int | str) -> int:
    return len(value) if isinstance(value, str) else abs(value)


def _note(trap: Trap, fallen: bool, followed: FollowedLessons, rng: Random) -> str:
    """Return the comment on a decision; a careful one names the lesson that it follows."""
    phrase = rng.choice(trap.careless if fallen else trap.careful)
    label = followed.labels.get(trap.name)
    return f"{phrase} ({label})" if label and not fallen else phrase


skills = MathSkills()
