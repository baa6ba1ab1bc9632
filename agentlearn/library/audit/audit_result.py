"""The results of an audit: findings, a score per lesson, and a score of the library."""

from collections.abc import Iterable
from dataclasses import dataclass

from agentlearn.library.audit.audit_codes import FIXES, WEIGHTS, AuditCode
from agentlearn.types.experience import Library

DEFAULT_THRESHOLD = 60
"""Score below which a lesson fails."""


@dataclass(frozen=True, slots=True)
class AuditedLesson:
    """A lesson to be audited. It may have any text, also one that no library would take."""

    name: str
    """Its id, or its place in a file."""
    text: str
    tags: tuple[str, ...] = ()
    status: str = ""
    """`pending` or `parked` for a lesson that no agent sees; empty for the others."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an audit found in a lesson."""

    code: AuditCode
    sentence: str
    """What was found, with the words that show it."""

    @property
    def weight(self) -> int:
        """Points that the lesson loses."""
        return WEIGHTS[self.code]

    @property
    def fix(self) -> str:
        """What to do about it."""
        return FIXES[self.code]


@dataclass(frozen=True, slots=True)
class LessonAudit:
    """One lesson with its findings."""

    lesson: AuditedLesson
    findings: tuple[Finding, ...] = ()

    @property
    def score(self) -> int:
        """100 without findings; each finding takes its weight, and 0 is the least."""
        return max(0, 100 - sum(one.weight for one in self.findings))


@dataclass(frozen=True, slots=True)
class LibraryAudit:
    """All lessons with their findings, in order."""

    lessons: tuple[LessonAudit, ...]

    @property
    def score(self) -> int:
        """The mean score of the lessons that agents see, rounded down; 100 without any. If none is shown, of all."""
        shown = [one.score for one in self.lessons if not one.lesson.status] or [one.score for one in self.lessons]
        return sum(shown) // len(shown) if shown else 100

    def failing(self, threshold: int = DEFAULT_THRESHOLD) -> tuple[LessonAudit, ...]:
        """The lessons with a score below the threshold. Parked lessons are left out: no agent will see them."""
        return tuple(one for one in self.lessons if one.score < threshold and one.lesson.status != "parked")


def audited(library: Library) -> tuple[AuditedLesson, ...]:
    """The lessons of a library, those that are withheld last."""
    shown = (AuditedLesson(one.id, one.lesson, one.tags) for one in library.experiences)
    held = (
        AuditedLesson(one.experience.id, one.experience.lesson, one.experience.tags, one.status)
        for one in library.withheld
    )
    return (*shown, *held)


def with_findings(audit: LibraryAudit, found: Iterable[tuple[int, Finding]]) -> LibraryAudit:
    """The audit with further findings, each for the lesson of that number."""
    more: dict[int, list[Finding]] = {}
    for number, finding in found:
        more.setdefault(number, []).append(finding)
    lessons = (
        LessonAudit(one.lesson, (*one.findings, *more.get(number, ()))) for number, one in enumerate(audit.lessons)
    )
    return LibraryAudit(tuple(lessons))
