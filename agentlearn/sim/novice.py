"""The simulated solver: it reads the conversation it is sent, falls into traps by the law, and acts by its skills.

Nothing here knows what is right. The skills write a program or a message with the flaws that were drawn; the domain's
own verifier judges what comes of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.sim.draws import stream, uniform
from agentlearn.sim.lessons import LessonReader, ShownLesson
from agentlearn.sim.skills import Act, Conversation, FinalMessage, Heeded, Situation, Skills
from agentlearn.sim.trap_model import TrapModel

IGNORANT = FinalMessage("I do not know how to do this.")


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything one answer of the solver depends on."""

    conversations: tuple[Conversation, ...]
    """Ways to read the messages, the likeliest first: which of the user's words is the question."""
    experiences: tuple[ShownLesson, ...] = ()
    seed: int | str = 0
    """The request's own; the only source of chance besides the world's seed."""
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """What the solver does, and what led to it."""

    act: Act
    family: str = ""
    """Empty when no skill recognised the problem."""
    flaws: frozenset[str] = frozenset()


class Novice:
    """A solver with declared weaknesses."""

    def __init__(self, skills: Sequence[Skills], *, world: int = 0) -> None:
        self._minds = tuple((one, TrapModel(LessonReader(one), world)) for one in skills)
        self._world = world

    def answer(self, moment: Moment) -> Action:
        """Act on the first reading of the conversation that a skill recognises."""
        for conversation in moment.conversations:
            for skills, law in self._minds:
                situation = skills.recognise(conversation)
                if situation is not None:
                    return self._deed(situation, law, conversation, moment)
        return Action(IGNORANT)

    def _deed(self, situation: Situation, law: TrapModel, conversation: Conversation, moment: Moment) -> Action:
        traps, family = situation.traps, situation.family
        lessons = [shown.text for shown in moment.experiences]
        chances = law.probabilities(traps, family, lessons, moment.temperature)
        flaws = frozenset(trap for trap in traps if self._draw(moment.seed, trap) < chances[trap])
        heeds = law.heeds([trap for trap in traps if trap not in flaws], family, lessons)
        labels = {trap: moment.experiences[heed.by].label for trap, heed in heeds.items() if heed.by is not None}
        wording = stream("wording", self._world, moment.seed, len(conversation.turns))
        return Action(situation.act(flaws, Heeded(labels), wording), family, flaws)

    def _draw(self, seed: int | str, trap: str) -> float:
        """One number per (world, seed, trap): a lesson on one trap cannot move the draw of another."""
        return uniform("fall", self._world, seed, trap)
