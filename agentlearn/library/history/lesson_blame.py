"""Where a lesson comes from: the lessons that it goes back to, and the change that brought each."""

from collections.abc import Iterable, Sequence

from agentlearn.library.history.change import Change
from agentlearn.library.history.hand_edits import LessonStatus, held_lessons
from agentlearn.library.history.three_way import Ancestry
from agentlearn.types.experience import Experience, Library
from agentlearn.types.ids import ExperienceId
from agentlearn.types.value import Value


class BlamedLesson(Value):
    """A lesson of the history, with the changes that brought and removed it."""

    experience: Experience
    status: LessonStatus | None
    """How the current version holds it; None where it does not."""
    brought: Change | None
    """The first change whose version holds it; None where no version of the log does."""
    left: Change | None
    """The last change whose version no longer holds it; None where the current version does."""
    replaces: tuple[ExperienceId, ...] = ()
    """The lessons that it replaced, which follow in the list as far as they are known."""


class HeldLesson(Value):
    """A lesson and the versions that hold it."""

    experience: Experience
    versions: tuple[str, ...]
    """References to these versions, `NAME@VERSION`, in order of name and version."""


def blame_lesson(identity: ExperienceId, ancestry: Ancestry, changes: Sequence[Change]) -> tuple[BlamedLesson, ...]:
    """Return a lesson and all that it goes back to, the nearest first, as far as they are known."""
    chain = [identity, *ancestry.lesson_ancestors(identity)]
    return tuple(_blamed(ancestry.experiences[one], ancestry, changes) for one in chain if one in ancestry.experiences)


def descendants(identities: Iterable[ExperienceId], ancestry: Ancestry) -> tuple[ExperienceId, ...]:
    """Return the lessons, then all others that go back to one of them, as far as they are known."""
    wanted = dict.fromkeys(one for one in identities if one in ancestry.experiences)
    later = [one for one in ancestry.experiences if wanted.keys() & set(ancestry.lesson_ancestors(one))]
    return tuple(wanted | dict.fromkeys(later))


def lessons_from(
    identities: Iterable[ExperienceId], libraries: Iterable[tuple[str, Library]]
) -> tuple[HeldLesson, ...]:
    """Return the lessons, and those that go back to one of them, with the versions that hold each.

    libraries: every version with the name of its library.
    """
    named = list(libraries)
    ancestry = Ancestry((library for _, library in named), ())
    found = descendants(identities, ancestry)
    return tuple(
        HeldLesson(
            experience=ancestry.experiences[identity],
            versions=tuple(f"{name}@{library.version}" for name, library in named if identity in held_lessons(library)),
        )
        for identity in found
    )


def _blamed(one: Experience, ancestry: Ancestry, changes: Sequence[Change]) -> BlamedLesson:
    brought, left, status = None, None, None
    for change in (change for change in changes if change.moves and change.version in ancestry.libraries):
        held = held_lessons(ancestry.libraries[change.version])
        if one.id in held:
            brought, left, status = brought or change, None, held[one.id][1]
        elif brought is not None and status is not None:
            left, status = change, None
    return BlamedLesson(experience=one, status=status, brought=brought, left=left, replaces=one.origin.parents)
