"""The reflector's words: the habits that texts show, and the lessons that it writes about them, sound or with a chosen
defect. It knows no answers to tasks.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal

from agentlearn.types.experience import lesson_limits, word_count
from agentlearn.types.rendering import ASKED_LESSON_WORDS
from agentlearn_demo.sim.skills import LessonReader, Skills, Trap, normalised_text

Defect = Literal["useless", "over_specific", "over_long", "duplicate", "harmful", "leaking"]
DEFECTS: tuple[Defect, ...] = ("useless", "over_specific", "over_long", "duplicate", "harmful", "leaking")

SITUATIONS = (
    "a problem looks hard", "the text is long", "you feel unsure", "work goes slowly", "the day is long",
    "a task seems new", "the first idea fails", "things look messy", "you are about to begin", "the topic is familiar",
    "others would hurry", "the wording is dense", "a plan comes easily", "pressure is high", "nothing seems to work",
    "there is plenty of time",
)  # fmt: skip
ADVICE = (
    "think carefully about it", "stay focused and calm", "work in a tidy way", "read the text slowly",
    "be attentive to details", "write neatly", "take a deep breath", "trust good method", "aim for quality",
    "stay curious", "proceed patiently", "keep a clear head", "do your best work", "stay organised",
    "give it proper thought", "mind your concentration",
)  # fmt: skip
TAILS = ("", " from the start", " all along", " as a matter of course")
_FRAMES = (
    "When {situation}, {advice}.",
    "When {situation}, make it a habit: {advice}.",
    "Whenever {situation}, {advice}.",
    "When {situation}, always {advice}.",
    "When {situation}, first {advice}.",
)
_INVERSIONS = ("do not {advice}", "there is no need to {advice}", "never {advice}", "do not bother to {advice}")
_PADDING = (
    "and keep this in mind all the way through the work, since it is the kind of thing that slips away from people"
    " in a hurry, as a look back over what went on here makes very plain"
)
_SENTENCE = re.compile(r"[^.!?;]+")


@dataclass(frozen=True, slots=True)
class Habit:
    """A careless or careful way to decide, and a phrase that shows it."""

    trap: str
    careless: bool
    phrase: str


class Vocabulary:
    """One domain's habits, how lessons refer to them, and lessons about them."""

    def __init__(self, skills: Skills) -> None:
        self.reader = LessonReader(skills)
        habits = [Habit(trap.name, True, phrase) for trap in skills.traps for phrase in trap.careless]
        habits += [Habit(trap.name, False, phrase) for trap in skills.traps for phrase in trap.careful]
        self._habits = {normalised_text(habit.phrase): habit for habit in habits}
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

    def familiarity(self, texts: Sequence[str], *, lessons: bool) -> tuple[int, int]:
        """How well texts fit this vocabulary: number of habits, then of topics. Larger is better.

        lessons: whether the texts are lessons, in which habits are what they advise on.
        """
        topics = sum(len(self.reader.topics_in(text)) for text in texts)
        if lessons:
            return sum(len(self.reader.read(text).stances) for text in texts), topics
        return sum(len(self._phrases.findall(normalised_text(text))) for text in texts), topics

    def lesson(self, trap: Trap, rng: Random) -> str:
        """A short, general lesson that addresses the trap, in varied wording."""
        candidates = [
            frame.format(situation=situation, advice=_clause(advice))
            for advice in trap.advice
            for frame in _FRAMES
            for situation in trap.situations
        ]
        rng.shuffle(candidates)
        for one in candidates:
            read = self.reader.read(one)
            if within_lesson_limits(one) and read.stances.get(trap.name) == "addresses" and not read.families:
                return one
        return shorten_lesson(candidates[0])

    def defective(
        self, defect: Defect, trap: Trap, rng: Random, source: tuple[str, str | None] = ("", None)
    ) -> str | None:
        """A lesson with that defect; None if the trap or the source does not allow it.

        source: problem and answer of the task from whose attempts it is written.
        """
        problem, gold = source
        match defect:
            case "useless":
                return self.neutral(rng)
            case "over_specific":
                return self._over_specific(trap, problem, rng)
            case "over_long":
                return f"{self.lesson(trap, rng).rstrip('.')}, {_PADDING}."
            case "harmful":
                return next(self._harmful(trap, rng), None)
            case "leaking":
                clean = self.lesson(trap, rng).rstrip(".")
                return f"{clean}; here the answer was {gold}." if gold else None
            case "duplicate":
                return self.lesson(trap, rng)

    def neutral(self, rng: Random) -> str | None:
        """A well-formed lesson without content, and without a cue of any trap."""
        combinations = list(product(SITUATIONS, ADVICE, TAILS))
        rng.shuffle(combinations)
        lessons = (f"When {situation}, {advice}{tail}." for situation, advice, tail in combinations)
        return next((lesson for lesson in lessons if not self.reader.read(lesson).cues), None)

    def _over_specific(self, trap: Trap, problem: str, rng: Random) -> str | None:
        """A lesson tied to this problem by its topic."""
        topic = " ".join(dict.fromkeys(word.lower() for word in self.reader.topic_words(problem)[:3]))
        if not topic:
            return None
        return shorten_lesson(f"When facing a problem on {topic}, {_clause(rng.choice(trap.advice))}.")

    def _harmful(self, trap: Trap, rng: Random) -> Iterator[str]:
        situation = rng.choice(trap.situations)
        for advice in rng.sample(trap.advice, len(trap.advice)):
            for form in rng.sample(_INVERSIONS, len(_INVERSIONS)):
                lesson = f"When {situation}, {form.format(advice=_clause(advice))}."
                if within_lesson_limits(lesson) and self.reader.read(lesson).stances.get(trap.name) == "contradicts":
                    yield lesson


def within_lesson_limits(lesson: str) -> bool:
    """Whether a text is within the limits that a reflector is given for its lessons by default."""
    words, characters = lesson_limits(ASKED_LESSON_WORDS)
    return word_count(lesson) <= words and len(lesson) <= characters


def shorten_lesson(lesson: str) -> str:
    """The lesson without its last clauses or words, as many as needed to be within the limits."""
    cut = lesson
    while not within_lesson_limits(cut) and " " in cut:
        shorter = re.sub(r"[,;:][^,;:]*$", "", cut)
        cut = shorter if shorter != cut and word_count(shorter) > ASKED_LESSON_WORDS // 2 else cut.rpartition(" ")[0]
    return cut if cut == lesson else f"{cut.rstrip(' .,;:')}."


def _clause(advice: str) -> str:
    text = advice.strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
