"""The lab model's teacher: the simulated solver of world 0, told by the corpus what each lesson means.

The rule over key words that reads lessons elsewhere in the simulated world is not used here. The number of lessons
makes no difference to this teacher.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random

from agentlearn.sandbox.python_tool import TOOL
from agentlearn_demo.lab.contract import SoftTarget
from agentlearn_demo.math.lab.corpus_lessons import CorpusLesson
from agentlearn_demo.math.novice import skills
from agentlearn_demo.math.traps import TRAPS
from agentlearn_demo.sim.lessons import LessonReader, ReadLesson, ShownLesson
from agentlearn_demo.sim.skills import Conversation, FinalMessage, FollowedLessons, ToolExchange, ToolUse
from agentlearn_demo.sim.trap_model import TEMPERATURE, TrapModel

WORLD = 0
_LABEL = re.compile(r" \(G\d+\)$")
_TRAPS = {trap.name: trap for trap in TRAPS}
_SILENT = ReadLesson(stances={}, families=frozenset(), cues=0, tokens=0)


class CorpusLessons(LessonReader):
    """Says what lessons of the corpus mean. All other texts say nothing."""

    def __init__(self, lessons: Sequence[CorpusLesson]) -> None:
        super().__init__(skills)
        self._known = {one.text: ReadLesson(one.stances, one.families, cues=0, tokens=0) for one in lessons}

    def _read(self, lesson: str) -> ReadLesson:
        return self._known.get(lesson, _SILENT)


@dataclass(frozen=True)
class Teacher:
    """The simulated solver with the lessons and tools of one system message."""

    shown: tuple[ShownLesson, ...]
    reader: CorpusLessons
    tools: tuple[str, ...] = (TOOL,)

    def turn(
        self, question: str, turns: tuple[ToolExchange, ...], rng: Random
    ) -> tuple[ToolUse | FinalMessage, tuple[SoftTarget, ...]]:
        """Return its next action, and the soft targets of that action: what it might have done instead."""
        situation = skills.recognise(Conversation("", question, self.tools, turns))
        assert situation is not None
        lessons = [one.text for one in self.shown]
        chances = trap_chances(self.reader, situation.traps, situation.family, lessons)
        falls = {trap: at_temperature_one(trap, chances[trap]) for trap in situation.traps}
        flaws = frozenset(trap for trap in situation.traps if rng.random() < falls[trap])
        careful = [trap for trap in situation.traps if trap not in flaws]
        advice_on = TrapModel(self.reader, WORLD).advice_on(careful, situation.family, lessons)
        labels = {
            trap: self.shown[advice.addressed_by].label
            for trap, advice in advice_on.items()
            if advice.addressed_by is not None
        }
        act = situation.act(flaws, FollowedLessons(labels), rng)
        if not isinstance(act, ToolUse):
            return act, ()
        speaking = {trap: self._speaking_of(trap, situation.family) for trap in situation.traps}
        return act, tuple(_soft_targets(act, falls, speaking))

    def _speaking_of(self, trap: str, family: str) -> tuple[int, ...]:
        read = [self.reader.read(one.text) for one in self.shown]
        return tuple(at for at, one in enumerate(read) if one.on(trap, family) != "silent")


def trap_chances(reader: CorpusLessons, traps: Sequence[str], family: str, lessons: Sequence[str]) -> dict[str, float]:
    """Return the teacher's probability of falling into each trap. Only lessons that speak of a trap have an effect."""
    speaking = [one for one in lessons if any(reader.read(one).on(trap, family) != "silent" for trap in traps)]
    return TrapModel(reader, WORLD).probabilities(traps, family, speaking, TEMPERATURE)


def at_temperature_one(trap: str, chance: float) -> float:
    """Return the training probability of falling into a trap, which is sampled at temperature 1.

    Sampling at the trap model's temperature then gives `chance`. Careless and careful phrases are equally likely, and a
    lower temperature favours the kind with fewer phrases.
    """
    phrases = log(len(_TRAPS[trap].careless) / len(_TRAPS[trap].careful))
    odds = TEMPERATURE * log(chance / (1 - chance)) + (1 - TEMPERATURE) * phrases
    return 1 / (1 + exp(-odds))


def _soft_targets(
    act: ToolUse, falls: Mapping[str, float], speaking: Mapping[str, tuple[int, ...]]
) -> Iterator[SoftTarget]:
    """One soft target for each comment on a decision, in the order of the program."""
    by_phrase = {phrase: name for name in falls for phrase in (*_TRAPS[name].careless, *_TRAPS[name].careful)}
    for line in str(act.arguments["code"]).splitlines():
        comment = line.strip().removeprefix("# ")
        if (name := by_phrase.get(_LABEL.sub("", comment))) is not None:
            trap, fall = _TRAPS[name], falls[name]
            careless = [(phrase, fall / len(trap.careless)) for phrase in trap.careless]
            careful = [(phrase, (1 - fall) / len(trap.careful)) for phrase in trap.careful]
            yield SoftTarget((*careless, *careful), speaking[name])
