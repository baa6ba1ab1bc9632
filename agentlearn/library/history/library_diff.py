"""The difference between two versions of a library, lesson by lesson."""

import difflib
from typing import Literal

from agentlearn.types.experience import Experience, Library, WithheldStatus
from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.value import Value

LessonStatus = Literal["shown", "parked", "pending"]
"""How a library holds a lesson: shown to agents, or withheld."""


class WordChange(Value):
    """Words that an edit replaced. One of the two is empty where words were only added or only removed."""

    before: str
    after: str


class EditedLesson(Value):
    """A lesson, and the one that took its place."""

    before: tuple[Experience, ...]
    """The lesson that was edited; several for a merge."""
    after: Experience
    words: tuple[WordChange, ...]
    """The words that differ from the first of them, in order."""


class StatusChange(Value):
    """A lesson that was parked, approved or shown again."""

    experience: Experience
    before: LessonStatus
    after: LessonStatus


class LibraryDiff(Value):
    """What changed from one version to another."""

    before: LibraryVersion
    after: LibraryVersion
    added: tuple[Experience, ...] = ()
    """Lessons that are new and replace none, also new withheld ones."""
    removed: tuple[Experience, ...] = ()
    edited: tuple[EditedLesson, ...] = ()
    moved: tuple[Experience, ...] = ()
    """Lessons in another place among the shown lessons of both versions."""
    status: tuple[StatusChange, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether both versions hold the same lessons in the same order."""
        return not (self.added or self.removed or self.edited or self.moved or self.status)


def held_lessons(library: Library) -> dict[ExperienceId, tuple[Experience, LessonStatus]]:
    """Return every lesson of the library by id, shown or withheld, with its status."""
    held: dict[ExperienceId, tuple[Experience, LessonStatus]] = {one.id: (one, "shown") for one in library.experiences}
    withheld: list[tuple[Experience, WithheldStatus]] = [(one.experience, one.status) for one in library.withheld]
    return {**held, **{one.id: (one, status) for one, status in withheld}}


def diff_libraries(before: Library, after: Library) -> LibraryDiff:
    """Return what changed from one library to another."""
    old, new = held_lessons(before), held_lessons(after)
    edited = tuple(
        _edited([old[parent][0] for parent in one.origin.parents if parent in old and parent not in new], one)
        for identity, (one, _) in new.items()
        if identity not in old and any(parent in old and parent not in new for parent in one.origin.parents)
    )
    replaced = {one.id for edit in edited for one in edit.before}
    made = {edit.after.id for edit in edited}
    return LibraryDiff(
        before=before.version,
        after=after.version,
        added=tuple(one for identity, (one, _) in new.items() if identity not in old and identity not in made),
        removed=tuple(one for identity, (one, _) in old.items() if identity not in new and identity not in replaced),
        edited=edited,
        moved=_moved(before, after),
        status=tuple(
            StatusChange(experience=one, before=old[identity][1], after=status)
            for identity, (one, status) in new.items()
            if identity in old and old[identity][1] != status
        ),
    )


def changed_words(before: str, after: str) -> tuple[WordChange, ...]:
    """Return the words that differ, in order."""
    old, new = before.split(), after.split()
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(
        WordChange(before=" ".join(old[first:last]), after=" ".join(new[start:end]))
        for step, first, last, start, end in steps
        if step != "equal"
    )


def _edited(before: list[Experience], after: Experience) -> EditedLesson:
    return EditedLesson(before=tuple(before), after=after, words=changed_words(before[0].lesson, after.lesson))


def _moved(before: Library, after: Library) -> tuple[Experience, ...]:
    """The fewest lessons that must move to turn one order of the lessons in both into the other."""
    old = [identity for identity in before.by_id if identity in after.by_id]
    new = [identity for identity in after.by_id if identity in before.by_id]
    if old == new:
        return ()
    kept = {
        identity
        for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        for identity in old[block.a : block.a + block.size]
    }
    return tuple(after.by_id[identity] for identity in new if identity not in kept)
