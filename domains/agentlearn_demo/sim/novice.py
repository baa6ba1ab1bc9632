"""The simulated solver: it reads a conversation, draws which traps it falls into, and acts by its skills.

It does not know right answers. The skills write a program or message with the drawn flaws; the domain's verifier then
judges the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn_demo.sim.draws import random_stream, uniform
from agentlearn_demo.sim.lessons import LessonReader, ShownLesson
from agentlearn_demo.sim.skills import Act, Conversation, FinalMessage, FollowedLessons, Situation, Skills
from agentlearn_demo.sim.trap_model import TrapModel

IGNORANT = FinalMessage("I do not know how to do this.")


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
class Action:
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

    def answer(self, inputs: SolverInput) -> Action:
        """Act on the first interpretation of the conversation that a skill recognises."""
        for conversation in inputs.conversations:
            for skills, trap_model in self._solvers:
                situation = skills.recognise(conversation)
                if situation is not None:
                    return self._act(situation, trap_model, conversation, inputs)
        return Action(IGNORANT)

    def _act(
        self, situation: Situation, trap_model: TrapModel, conversation: Conversation, inputs: SolverInput
    ) -> Action:
        traps, family = situation.traps, situation.family
        lessons = [shown.text for shown in inputs.experiences]
        chances = trap_model.probabilities(traps, family, lessons, inputs.temperature)
        flaws = frozenset(trap for trap in traps if self._draw(inputs.seed, trap) < chances[trap])
        advice_on = trap_model.advice_on([trap for trap in traps if trap not in flaws], family, lessons)
        labels = {
            trap: inputs.experiences[advice.addressed_by].label
            for trap, advice in advice_on.items()
            if advice.addressed_by is not None
        }
        wording = random_stream("wording", self._world, inputs.seed, len(conversation.turns))
        return Action(situation.act(flaws, FollowedLessons(labels), wording), family, flaws)

    def _draw(self, seed: int | str, trap: str) -> float:
        """One number per (world, seed, trap), so that a lesson on one trap cannot change the draw of another."""
        return uniform("fall", self._world, seed, trap)
