"""The reflector's vocabulary: habits of solvers, and the phrases in which they show. It holds no answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.sim.lessons import LessonReader
from agentlearn.sim.polarity import plain
from agentlearn.sim.skills import Skills, Trap


@dataclass(frozen=True, slots=True)
class Habit:
    """A way of deciding that shows in a text."""

    trap: str
    careless: bool
    phrase: str


class Vocabulary:
    """One domain's habits and how lessons speak of them."""

    def __init__(self, skills: Skills) -> None:
        self.reader = LessonReader(skills)
        self._habits = {plain(habit.phrase): habit for trap in skills.traps for habit in _habits_of(trap)}
        longest_first = sorted(self._habits, key=len, reverse=True)
        self._phrases = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    @property
    def traps(self) -> Sequence[Trap]:
        """Every trap that it has words for."""
        return tuple(self.reader.traps.values())

    def habits_in(self, text: str) -> tuple[Habit, ...]:
        """The habits that a text shows, each once, in order."""
        found = (self._habits[phrase] for phrase in self._phrases.findall(plain(text)))
        return tuple(dict.fromkeys(found))

    def other_words(self, habit: Habit) -> tuple[str, ...]:
        """Every phrase for the same habit."""
        trap = self.reader.traps[habit.trap]
        return trap.careless if habit.careless else trap.careful

    def familiarity(self, text: str) -> tuple[int, int]:
        """How much of the text it has words for: phrases of its habits first, then topics, which are common words."""
        return len(self._phrases.findall(plain(text))), len(self.reader.topics_in(text))

    def familiarity_of_lessons(self, lessons: Sequence[str]) -> tuple[int, int]:
        """How much of the lessons it has words for, likewise."""
        stances = sum(len(self.reader.read(lesson).stances) for lesson in lessons)
        return stances, sum(len(self.reader.topics_in(lesson)) for lesson in lessons)


def _habits_of(trap: Trap) -> list[Habit]:
    careless = [Habit(trap.name, True, phrase) for phrase in trap.careless]
    return careless + [Habit(trap.name, False, phrase) for phrase in trap.careful]
