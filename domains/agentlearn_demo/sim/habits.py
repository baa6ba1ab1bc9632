"""The reflector's vocabulary: habits of solvers and the phrases that show them. It contains no answers to tasks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn_demo.sim.lessons import LessonReader
from agentlearn_demo.sim.polarity import normalised_text
from agentlearn_demo.sim.skills import Skills, Trap

_SENTENCE = re.compile(r"[^.!?;]+")


@dataclass(frozen=True, slots=True)
class Habit:
    """A careless or careful way to decide, and a phrase that shows it."""

    trap: str
    careless: bool
    phrase: str


class Vocabulary:
    """One domain's habits, and how lessons refer to them."""

    def __init__(self, skills: Skills) -> None:
        self.reader = LessonReader(skills)
        self._habits = {normalised_text(habit.phrase): habit for trap in skills.traps for habit in _habits_of(trap)}
        longest_first = sorted(self._habits, key=len, reverse=True)
        self._phrases = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @property
    def traps(self) -> Sequence[Trap]:
        """Every trap in the vocabulary."""
        return tuple(self.reader.traps.values())

    def habits_in(self, text: str) -> tuple[Habit, ...]:
        """The habits that a text shows, in order, without repeats."""
        found = (self._habits[phrase] for phrase in self._phrases.findall(normalised_text(text)))
        return tuple(dict.fromkeys(found))

    def traps_told(self, reason: str) -> tuple[str, ...]:
        """Names of the traps that a reason names: by a phrase, or in a sentence with the cues of lessons about one."""
        by_phrase = [habit.trap for habit in self.habits_in(reason)]
        by_cues = [trap for sentence in _SENTENCE.findall(reason) for trap in self.reader.read(sentence).stances]
        return tuple(dict.fromkeys((*by_phrase, *by_cues)))

    def other_words(self, habit: Habit) -> tuple[str, ...]:
        """All phrases for the same habit."""
        trap = self.reader.traps[habit.trap]
        return trap.careless if habit.careless else trap.careful

    def familiarity(self, text: str) -> tuple[int, int]:
        """How well a text fits this vocabulary: number of habit phrases, then of topics. Larger is better."""
        return len(self._phrases.findall(normalised_text(text))), len(self.reader.topics_in(text))

    def familiarity_of_lessons(self, lessons: Sequence[str]) -> tuple[int, int]:
        """How well lessons fit this vocabulary: number of traps, then of topics. Larger is better."""
        stances = sum(len(self.reader.read(lesson).stances) for lesson in lessons)
        return stances, sum(len(self.reader.topics_in(lesson)) for lesson in lessons)


def _habits_of(trap: Trap) -> list[Habit]:
    careless = [Habit(trap.name, True, phrase) for phrase in trap.careless]
    return careless + [Habit(trap.name, False, phrase) for phrase in trap.careful]
