"""The simulated solver: it reads a conversation, draws which traps it falls into, and acts by its skills.

It does not know right answers. The skills write a program or message with the drawn flaws; the domain's verifier then
judges the result. The trap model has no random draws. Given the library, traps are independent, apart from the declared
`INTERACTIONS`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlearn_demo.sim import random_stream, uniform
from agentlearn_demo.sim.skills import (
    Act,
    Conversation,
    FinalMessage,
    FollowedLessons,
    LessonReader,
    ReadLesson,
    ShownLesson,
    Situation,
    Skills,
)

IGNORANT = FinalMessage("I do not know how to do this.")
TEMPERATURE = 0.7
"""Temperature at which base rates are defined; also the default for a request without a temperature."""
SCALE_AT_ZERO = 0.85
"""Factor on every probability at temperature 0."""
ADDRESSED = 0.04
"""Probability of a trap that a lesson addresses."""
CONTRADICTED = 0.8
"""Probability of a trap about which a lesson gives reversed advice."""
CEILING = 0.95
"""Largest probability of a trap."""
BASE_SHIFT = 0.05
"""Largest shift of a trap's base rate between worlds."""
FREE_IRRELEVANT = 20
"""Number of irrelevant lessons without a penalty."""
IRRELEVANT_COST = 0.004
"""Added probability per further irrelevant lesson."""
FREE_TOKENS = 2_000
"""Estimated tokens of lessons without a penalty."""
THOUSAND_TOKENS_COST = 0.02
"""Added probability per 1,000 further tokens."""

INTERACTIONS: Mapping[tuple[str, str], float] = {
    # Checking a small case by hand also reveals a missing endpoint and a wrong order.
    ("small_case_unchecked", "endpoints_left_out"): 0.7,
    ("small_case_unchecked", "ordered_for_unordered"): 0.7,
    # A solver that keeps fractions exact is more likely to reduce them.
    ("float_for_exact", "fraction_not_reduced"): 0.8,
    # A solver that has learned to drop repeats may drop ones that count.
    ("distinct_ignored", "multiplicity_ignored"): 1.3,
}
"""(trap that a lesson addresses, other trap): factor on the probability of the other trap."""


@dataclass(frozen=True, slots=True)
class _TrapAdvice:
    """What the lessons in context say about one trap."""

    addressed_by: int | None = None
    """Index of the first lesson that addresses the trap; None if no lesson does."""
    contradicted: bool = False
    """Whether a lesson gives reversed advice about the trap."""

    @property
    def safe(self) -> bool:
        """Whether the trap is addressed and not contradicted."""
        return self.addressed_by is not None and not self.contradicted


def temperature_scale(temperature: float | None) -> float:
    """Factor on every probability: linear in temperature, 0.85 at 0 and 1 at 0.7."""
    return (
        SCALE_AT_ZERO
        + (1 - SCALE_AT_ZERO) * (TEMPERATURE if temperature is None else max(temperature, 0.0)) / TEMPERATURE
    )


@dataclass(frozen=True)
class TrapModel:
    """The trap probabilities of one domain in one world."""

    reader: LessonReader
    world: int
    """Seed of the world, which shifts the base rates."""

    def base(self, trap: str) -> float:
        """Probability of a trap in this world without lessons, at temperature 0.7."""
        shift = BASE_SHIFT * (2 * uniform("base", self.world, trap) - 1)
        return min(max(self.reader.traps[trap].base + shift, 0.0), CEILING)

    def advice_on(self, traps: Sequence[str], family: str, lessons: Sequence[str]) -> dict[str, _TrapAdvice]:
        """What the lessons say about each trap, for problems of a family."""
        read = [self.reader.read(lesson) for lesson in lessons]
        return {trap: _advice_on(trap, family, read) for trap in traps}

    def probabilities(
        self, traps: Sequence[str], family: str, lessons: Sequence[str], temperature: float | None
    ) -> dict[str, float]:
        """Probability of falling into each trap of a situation; independent given the lessons."""
        read = [self.reader.read(lesson) for lesson in lessons]
        irrelevant = sum(all(lesson.on(trap, family) == "silent" for trap in traps) for lesson in read)
        # What a crowded context adds to every trap.
        crowd = IRRELEVANT_COST * max(0, irrelevant - FREE_IRRELEVANT)
        weight = crowd + THOUSAND_TOKENS_COST * max(0, sum(lesson.tokens for lesson in read) - FREE_TOKENS) / 1_000
        scale, found = temperature_scale(temperature), dict[str, float]()
        for trap in traps:
            advice = _advice_on(trap, family, read)
            if advice.contradicted:
                level = CONTRADICTED if advice.addressed_by is None else (ADDRESSED + CONTRADICTED) / 2
            else:
                level = self.base(trap) if advice.addressed_by is None else ADDRESSED
            for (cause, effect), factor in INTERACTIONS.items():
                if effect == trap and cause in self.reader.traps and _advice_on(cause, family, read).safe:
                    level *= factor
            found[trap] = min(level * scale + weight, CEILING)
        return found


def _advice_on(trap: str, family: str, lessons: Sequence[ReadLesson]) -> _TrapAdvice:
    known_lessons = [lesson.on(trap, family) for lesson in lessons]
    addressed_by = known_lessons.index("addresses") if "addresses" in known_lessons else None
    return _TrapAdvice(addressed_by, "contradicts" in known_lessons)


@dataclass(frozen=True, slots=True)
class SolverInput:
    """Everything that one answer of the solver depends on."""

    conversations: tuple[Conversation, ...]
    """Interpretations of the messages, the most likely first: they differ in which user message is the question."""
    experiences: tuple[ShownLesson, ...] = ()
    seed: int | str = 0
    """The request's seed; the only source of randomness besides the world's seed."""
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class _Action:
    """What the solver does, and the flaws it has."""

    act: Act
    family: str = ""
    """Family of the problem; empty if no skill recognised it."""
    flaws: frozenset[str] = frozenset()


class Novice:
    """A solver with declared weaknesses; `world` is the seed of its world."""

    def __init__(self, skills: Sequence[Skills], *, world: int = 0) -> None:
        self._solvers = tuple((one, TrapModel(LessonReader(one), world)) for one in skills)
        self._world = world

    def answer(self, inputs: SolverInput) -> _Action:
        """Act on the first interpretation of the conversation that a skill recognises."""
        for conversation in inputs.conversations:
            for skills, trap_model in self._solvers:
                situation = skills.recognise(conversation)
                if situation is not None:
                    return self._act(situation, trap_model, conversation, inputs)
        return _Action(IGNORANT)

    def _act(
        self, situation: Situation, trap_model: TrapModel, conversation: Conversation, inputs: SolverInput
    ) -> _Action:
        traps, family = situation.traps, situation.family
        lessons = [shown.text for shown in inputs.experiences]
        chances = trap_model.probabilities(traps, family, lessons, inputs.temperature)
        # One number per (world, seed, trap), so that a lesson on one trap cannot change the draw of another.
        flaws = frozenset(trap for trap in traps if uniform("fall", self._world, inputs.seed, trap) < chances[trap])
        advice_on = trap_model.advice_on([trap for trap in traps if trap not in flaws], family, lessons)
        labels = {
            trap: inputs.experiences[advice.addressed_by].label
            for trap, advice in advice_on.items()
            if advice.addressed_by is not None
        }
        wording = random_stream("wording", self._world, inputs.seed, len(conversation.turns))
        return _Action(situation.act(flaws, FollowedLessons(labels), wording), family, flaws)
