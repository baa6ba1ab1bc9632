"""Write the simulated reflector's lessons, sound or with a chosen defect."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from agentlearn.types.experience import MAX_LESSON_CHARACTERS, MAX_LESSON_WORDS, word_count
from agentlearn_demo.sim.habits import Vocabulary
from agentlearn_demo.sim.lessons import ReadLesson
from agentlearn_demo.sim.neutral import neutral_lessons
from agentlearn_demo.sim.skills import Trap

Defect = Literal["useless", "over_specific", "over_long", "duplicate", "harmful", "leaking"]
DEFECTS: tuple[Defect, ...] = ("useless", "over_specific", "over_long", "duplicate", "harmful", "leaking")

_PLAIN_FRAMES = (
    "When {situation}, {advice}.",
    "When {situation}, make it a habit: {advice}.",
    "Whenever {situation}, {advice}.",
)
_FRAMES = (*_PLAIN_FRAMES, "When {situation}, always {advice}.", "When {situation}, first {advice}.")
_INVERSIONS = ("do not {advice}", "there is no need to {advice}", "never {advice}", "do not bother to {advice}")
_NEGATED = re.compile(r"^(?:do not|don't|never|avoid) ", re.IGNORECASE)
_PADDING = (
    "and keep this in mind all the way through the work, since it is the kind of thing that slips away from people"
    " in a hurry, as a look back over what went on here makes very plain"
)
_PLAIN_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")


@dataclass(frozen=True, slots=True)
class LessonSource:
    """The task from whose attempts a lesson is written."""

    problem: str = ""
    gold: str | None = None


class LessonWriter:
    """Writes lessons about one domain's habits."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._reader = vocabulary.reader

    def lesson(self, trap: Trap, rng: Random) -> str:
        """A short, general lesson that addresses the trap, in varied wording."""
        candidates = [
            frame.format(situation=situation, advice=_clause(advice))
            for advice in trap.advice
            for frame in (_PLAIN_FRAMES if _NEGATED.match(advice) else _FRAMES)
            for situation in trap.situations
        ]
        rng.shuffle(candidates)
        good = (
            one for one in candidates if within_lesson_limits(one) and self._speaks_of(trap, self._reader.read(one))
        )
        return next(good, None) or shorten_lesson(candidates[0])

    def defective(self, defect: Defect, trap: Trap, source: LessonSource, rng: Random) -> str | None:
        """A lesson with that defect; None if the task or trap does not allow it."""
        match defect:
            case "useless":
                return next(neutral_lessons(rng, lambda lesson: not self._reader.read(lesson).cues), None)
            case "over_specific":
                return self._over_specific(trap, source.problem, rng)
            case "over_long":
                return f"{self.lesson(trap, rng).rstrip('.')}, {_PADDING}."
            case "harmful":
                return next(self._harmful(trap, rng), None)
            case "leaking":
                clean = self.lesson(trap, rng).rstrip(".")
                return f"{clean}; here the answer was {source.gold}." if source.gold else None
            case "duplicate":
                return self.lesson(trap, rng)

    def _speaks_of(self, trap: Trap, read: ReadLesson) -> bool:
        return read.stances.get(trap.name) == "addresses" and not read.families

    def _over_specific(self, trap: Trap, problem: str, rng: Random) -> str | None:
        """A lesson tied to this problem by its topic and numbers."""
        topic = " ".join(dict.fromkeys(word.lower() for word in self._reader.topic_words(problem)[:3]))
        numbers = " and ".join(dict.fromkeys(_PLAIN_NUMBER.findall(problem)[:2]))
        if not topic and not numbers:
            return None
        about = f"a problem on {topic}" if topic else "a problem"
        with_numbers = f" with {numbers}" if numbers else ""
        return shorten_lesson(f"When facing {about}{with_numbers}, {_clause(rng.choice(trap.advice))}.")

    def _harmful(self, trap: Trap, rng: Random) -> Iterator[str]:
        situation = rng.choice(trap.situations)
        for advice in rng.sample(trap.advice, len(trap.advice)):
            clause = _clause(advice)
            bare = _NEGATED.sub("", clause)
            negated = [bare] if bare != clause else [form.format(advice=clause) for form in _INVERSIONS]
            for words in rng.sample(negated, len(negated)):
                lesson = f"When {situation}, {words}."
                if within_lesson_limits(lesson) and self._reader.read(lesson).stances.get(trap.name) == "contradicts":
                    yield lesson


def within_lesson_limits(lesson: str) -> bool:
    """Whether a text is within the limits of words and characters for a lesson."""
    return word_count(lesson) <= MAX_LESSON_WORDS and len(lesson) <= MAX_LESSON_CHARACTERS


def shorten_lesson(lesson: str, keeps: Callable[[str], bool] = within_lesson_limits) -> str:
    """The lesson without its last clauses or words, as many as needed for `keeps` to hold."""
    cut = lesson
    while not keeps(cut) and " " in cut:
        shorter = re.sub(r"[,;:][^,;:]*$", "", cut)
        cut = shorter if shorter != cut and word_count(shorter) > MAX_LESSON_WORDS // 2 else cut.rpartition(" ")[0]
    return cut if cut == lesson else f"{cut.rstrip(' .,;:')}."


def _clause(advice: str) -> str:
    text = advice.strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
