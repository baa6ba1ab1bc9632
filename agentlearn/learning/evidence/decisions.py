"""What follows from evidence: which lessons to park, and which to give up when a library is full.

A person can see each decision before it is made, and undo it: parked lessons stay in the library, and are not shown.
Lessons that a person wrote are reported and never parked here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentlearn.learning.evidence.judgement import LessonEvidence, evidence_of
from agentlearn.types.experience import Experience, Library, estimated_tokens
from agentlearn.types.ids import ExperienceId


@dataclass(frozen=True, slots=True)
class ParkingPlan:
    """What the evidence says should no longer be shown."""

    park: tuple["ToPark", ...] = ()
    """Lessons to park."""
    reported: tuple["ToPark", ...] = ()
    """Lessons that a person wrote. A person decides on them."""

    @property
    def reasons(self) -> dict[ExperienceId, str]:
        """Why each lesson is to be parked, by lesson."""
        return {one.experience.id: one.reason for one in self.park}


@dataclass(frozen=True, slots=True)
class ToPark:
    """A lesson that should no longer be shown, and why."""

    experience: Experience
    evidence: LessonEvidence | None
    """None when a lesson gives way to others although nothing is known about it."""
    reason: str


def to_park(evidence: Iterable[LessonEvidence], library: Library, *, model: str | None = None) -> ParkingPlan:
    """The lessons of this version that are labelled harmful.

    model: only the evidence with this model counts. None: with any model, but a lesson that is proven with another
    model is only reported.
    """
    known = evidence_of(evidence, model)
    park, reported = list[ToPark](), list[ToPark]()
    for one in library.experiences:
        harmful = [found for found in known.get(one.id, ()) if found.label == "harmful"]
        if not harmful:
            continue
        worst = min(harmful, key=lambda found: found.points)
        proven = any(found.label == "proven" for found in known[one.id])
        entry = ToPark(one, worst, f"{evidence_words(worst)}{', but proven with another model' if proven else ''}")
        (reported if one.origin.kind == "person" or proven else park).append(entry)
    return ParkingPlan(tuple(park), tuple(reported))


def to_evict(
    evidence: Iterable[LessonEvidence],
    library: Library,
    *,
    max_lessons: int | None = None,
    max_tokens: int | None = None,
    model: str | None = None,
) -> tuple[ToPark, ...]:
    """The lessons that give way so that the library fits into its limits; empty when it fits.

    The lesson with the least value per token goes first, by its estimate. Only lessons with evidence can go, and proven
    ones and those that a person wrote cannot, so the library may stay larger than its limits.
    """
    known = evidence_of(evidence, model)
    candidates = sorted(
        (
            (value, one, found)
            for one in library.experiences
            if one.origin.kind != "person" and (found := _weakest(known.get(one.id, ()))) is not None
            for value in [found.points / max(1, estimated_tokens(one.lesson))]
        ),
        key=lambda entry: (entry[0], entry[1].id),
    )
    lessons, tokens, gone = len(library), library.tokens, list[ToPark]()
    for value, one, found in candidates:
        if (max_lessons is None or lessons <= max_lessons) and (max_tokens is None or tokens <= max_tokens):
            break
        reason = f"the library is full, and this lesson has the least value per token ({value:+.2f} points)"
        gone.append(ToPark(one, found, f"{reason}: {evidence_words(found)}"))
        lessons, tokens = lessons - 1, tokens - estimated_tokens(one.lesson)
    return tuple(gone)


def _weakest(found: Sequence[LessonEvidence]) -> LessonEvidence | None:
    """The evidence that speaks least for a lesson; None where there is none, or where it is proven with some model."""
    measured = [one for one in found if one.blocks]
    if any(one.label == "proven" for one in measured):
        return None
    return min(measured, key=lambda one: one.points, default=None)


def evidence_words(one: LessonEvidence) -> str:
    """The evidence on a lesson in words."""
    exposures = f"{one.shown} rollouts with it and {one.hidden} without it"
    where = f" on {one.holds_for_words}" if one.holds_for else ""
    estimate = f"{one.points:+.1f} points [{one.low:+.1f}, {one.high:+.1f}]"
    return f"{one.label}: {estimate} with {one.model}{where}, {exposures}"
