"""What every stage of the simulated reflector works with: its words, its dials, its draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from agentlearn.sim.habits import Vocabulary
from agentlearn.sim.lesson_writer import DEFECTS, Defect, LessonSource, LessonWriter
from agentlearn.sim.lessons import ShownLesson
from agentlearn.sim.malformed import MALFORMATIONS, Malformation
from agentlearn.sim.skills import Trap


@dataclass(frozen=True, slots=True)
class ReflectorParameters:
    """How often the reflector goes wrong. The first six are shares of the lessons it writes, at most 1 together."""

    useless: float = 0.08
    over_specific: float = 0.06
    over_long: float = 0.06
    duplicate: float = 0.06
    harmful: float = 0.02
    leaking: float = 0.03
    malformed: float = 0.04
    """Share of replies."""
    malformations: tuple[Malformation, ...] = MALFORMATIONS
    """The kinds to choose from, evenly."""


FLAWLESS = ReflectorParameters(useless=0, over_specific=0, over_long=0, duplicate=0, harmful=0, leaking=0, malformed=0)
"""A reflector that only errs in what it believes."""


@dataclass(frozen=True, slots=True)
class ReflectorState:
    """One stage's work on one prompt."""

    vocabulary: Vocabulary
    writer: LessonWriter
    parameters: ReflectorParameters
    rng: Random

    def defect(self) -> Defect | None:
        """The defect of the next lesson, drawn by the dials."""
        draw = self.rng.random()
        for defect in DEFECTS:
            share: float = getattr(self.parameters, defect)
            if draw < share:
                return defect
            draw -= share
        return None

    def lesson(self, trap: Trap, source: LessonSource, defect: Defect | None) -> str:
        """A lesson on the trap with that defect, or a clean one where the defect has no material."""
        bad = self.writer.defective(defect, trap, source, self.rng) if defect else None
        return bad or self.writer.lesson(trap, self.rng)

    def sayings(self, trap: str, experiences: Sequence[ShownLesson]) -> "Sayings":
        """What the library already says about a trap."""
        read = [(shown.label, self.vocabulary.reader.read(shown.text)) for shown in experiences]
        on = [(label, lesson.stances.get(trap), bool(lesson.families)) for label, lesson in read]
        return Sayings(
            general=tuple(label for label, stance, narrow in on if stance == "addresses" and not narrow),
            narrow=tuple(label for label, stance, narrow in on if stance == "addresses" and narrow),
            against=tuple(label for label, stance, _ in on if stance == "contradicts"),
        )


@dataclass(frozen=True, slots=True)
class Sayings:
    """Labels of the lessons that speak of one trap."""

    general: tuple[str, ...]
    narrow: tuple[str, ...]
    """Address it for some families only."""
    against: tuple[str, ...]
