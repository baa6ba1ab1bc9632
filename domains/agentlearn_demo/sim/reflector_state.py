"""State that every stage of the simulated reflector uses: vocabulary, parameters, random generator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from agentlearn_demo.sim.habits import Vocabulary
from agentlearn_demo.sim.lesson_writer import DEFECTS, Defect, LessonSource, LessonWriter
from agentlearn_demo.sim.lessons import ShownLesson
from agentlearn_demo.sim.malformed import MALFORMATIONS, Malformation
from agentlearn_demo.sim.skills import Trap


@dataclass(frozen=True, slots=True)
class ReflectorParameters:
    """How often the reflector is wrong. The first six are shares of its lessons and add up to at most 1."""

    useless: float = 0.08
    """Share of lessons without content."""
    over_specific: float = 0.06
    """Share of lessons that are tied to one problem."""
    over_long: float = 0.06
    """Share of lessons that are too long."""
    duplicate: float = 0.06
    """Share of lessons that repeat another one."""
    harmful: float = 0.02
    """Share of lessons with reversed advice."""
    leaking: float = 0.03
    """Share of lessons that contain the task's answer."""
    malformed: float = 0.04
    """Share of replies that are malformed."""
    mistaken: float = 0.0
    """Share of the habits that a comparison blames that are replaced by a random one."""
    malformations: tuple[Malformation, ...] = MALFORMATIONS
    """The kinds of malformed replies, chosen with equal probability."""
    blind: bool = False
    """Whether the stage consolidate cannot tell which way a lesson should point. It then decides by support where the
    prompt shows it, and takes the first proposal of a subject where not."""


FLAWLESS = ReflectorParameters(useless=0, over_specific=0, over_long=0, duplicate=0, harmful=0, leaking=0, malformed=0)
"""Parameters of a reflector without defects; it can still draw wrong conclusions."""


def _certain(_trap: str) -> float:
    """Believe every reason."""
    return 0.0


@dataclass(frozen=True, slots=True)
class ReflectorState:
    """The state while one prompt is answered."""

    vocabulary: Vocabulary
    writer: LessonWriter
    parameters: ReflectorParameters
    rng: Random
    belief: Callable[[str], float] = _certain
    """A number in [0, 1) for a trap that a reason names; below its probability the reason is believed."""

    def defect(self) -> Defect | None:
        """Draw the defect of the next lesson; None for no defect."""
        draw = self.rng.random()
        for defect in DEFECTS:
            share: float = getattr(self.parameters, defect)
            if draw < share:
                return defect
            draw -= share
        return None

    def lesson(self, trap: Trap, source: LessonSource, defect: Defect | None) -> str:
        """A lesson about the trap with that defect, or a sound one if the defect is not possible."""
        bad = self.writer.defective(defect, trap, source, self.rng) if defect else None
        return bad or self.writer.lesson(trap, self.rng)

    def known_lessons(self, trap: str, experiences: Sequence[ShownLesson]) -> "KnownLessons":
        """The library's lessons about a trap."""
        read = [(shown.label, self.vocabulary.reader.read(shown.text)) for shown in experiences]
        on = [(label, lesson.stances.get(trap), bool(lesson.families)) for label, lesson in read]
        return KnownLessons(
            general=tuple(label for label, stance, narrow in on if stance == "addresses" and not narrow),
            narrow=tuple(label for label, stance, narrow in on if stance == "addresses" and narrow),
            against=tuple(label for label, stance, _ in on if stance == "contradicts"),
        )


@dataclass(frozen=True, slots=True)
class KnownLessons:
    """Labels of the library's lessons about one trap."""

    general: tuple[str, ...]
    """Lessons that address the trap in all families."""
    narrow: tuple[str, ...]
    """Lessons that address the trap in some families only."""
    against: tuple[str, ...]
    """Lessons that contradict the advice against the trap."""
