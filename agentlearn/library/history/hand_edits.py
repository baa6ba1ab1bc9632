"""Changes of single lessons by a person, each through the same check as the proposals of a run.

Every method of `HandEdits` returns the next library with what was done, or raises LibraryError with the code of the
rule in the way. A person may set some rules aside by their code; the rules that keep a lesson from looking like another
part of a prompt hold for everybody.
"""

import difflib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic import ValidationError

from agentlearn.config.options import LessonOptions
from agentlearn.errors import LibraryError
from agentlearn.library.curate.codes import ACCEPTABLE
from agentlearn.library.curate.library_draft import CheckContext
from agentlearn.library.curate.next_version import next_version, why_not
from agentlearn.library.history.change_log import (
    ApproveLesson,
    HistoryOperation,
    ParkLesson,
    RejectLesson,
    UnparkLesson,
)
from agentlearn.types.experience import (
    Experience,
    LessonStatus,
    Library,
    Origin,
    Withheld,
    WithheldStatus,
    experience_id,
    held_lessons,
    withhold,
)
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId
from agentlearn.types.operation import Add, Applied, Delete, Dropped, Modify, Proposal, Quarantined, Rejected
from agentlearn.types.value import Value


class _WordChange(Value):
    """Words that an edit replaced. One of the two is empty where words were only added or only removed."""

    before: str
    after: str


class _EditedLesson(Value):
    """A lesson, and the one that took its place."""

    before: tuple[Experience, ...]
    """The lesson that was edited; several for a merge."""
    after: Experience
    words: tuple[_WordChange, ...]
    """The words that differ from the first of them, in order."""


class _StatusChange(Value):
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
    edited: tuple[_EditedLesson, ...] = ()
    moved: tuple[Experience, ...] = ()
    """Lessons in another place among the shown lessons of both versions."""
    status: tuple[_StatusChange, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether both versions hold the same lessons in the same order."""
        return not (self.added or self.removed or self.edited or self.moved or self.status)

    @classmethod
    def of(cls, before: Library, after: Library) -> "LibraryDiff":
        """Return what changed from one library to another."""
        old, new = held_lessons(before), held_lessons(after)
        edited: list[_EditedLesson] = []
        for identity, (one, _) in new.items():
            parents = [old[parent][0] for parent in one.origin.parents if parent in old and parent not in new]
            if parents and identity not in old:
                words = cls._changed_words(parents[0].lesson, one.lesson)
                edited.append(_EditedLesson(before=tuple(parents), after=one, words=words))
        replaced = {one.id for edit in edited for one in edit.before}
        made = {edit.after.id for edit in edited}
        return cls(
            before=before.version,
            after=after.version,
            added=tuple(one for identity, (one, _) in new.items() if identity not in old and identity not in made),
            removed=tuple(
                one for identity, (one, _) in old.items() if identity not in new and identity not in replaced
            ),
            edited=tuple(edited),
            moved=cls._moved(before, after),
            status=tuple(
                _StatusChange(experience=one, before=old[identity][1], after=status)
                for identity, (one, status) in new.items()
                if identity in old and old[identity][1] != status
            ),
        )

    @staticmethod
    def _changed_words(before: str, after: str) -> tuple[_WordChange, ...]:
        """Return the words that differ, in order."""
        old, new = before.split(), after.split()
        steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        return tuple(
            _WordChange(before=" ".join(old[first:last]), after=" ".join(new[start:end]))
            for step, first, last, start, end in steps
            if step != "equal"
        )

    @staticmethod
    def _moved(before: Library, after: Library) -> tuple[Experience, ...]:
        """The fewest lessons that must move to turn one order of the lessons in both into the other."""
        old = [identity for identity in before.by_id if identity in after.by_id]
        new = [identity for identity in after.by_id if identity in before.by_id]
        blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        kept = {identity for block in blocks for identity in old[block.a : block.a + block.size]}
        return tuple(after.by_id[identity] for identity in new if identity not in kept)


_SHOWN = 60
_ID_SHOWN = 12


class HandEdit(NamedTuple):
    """A library after what a person did in one change."""

    library: Library
    operations: tuple[HistoryOperation, ...]


@dataclass(frozen=True, slots=True)
class HandEdits:
    """What a person can do to a library."""

    library: Library
    where: str = ""
    """A reference to the library, for messages."""
    context: CheckContext = field(default_factory=lambda: CheckContext(by_person=True))
    """What the change is checked against."""

    @staticmethod
    def checked(
        accept: Collection[str] = (),
        options: LessonOptions | None = None,
        refused: frozenset[str] = frozenset(),
        library: str = "",
    ) -> CheckContext:
        """Return what a person's change is checked against. Raises LibraryError.

        accept: codes of rules to set aside. refused: lessons that persons refused. library: name of the library.
        """
        if unknown := sorted(set(accept) - ACCEPTABLE):
            known = ", ".join(map(repr, sorted(ACCEPTABLE)))
            raise LibraryError(f"{unknown[0]!r} is not a rule that can be set aside; use one of {known}")
        options, waived = options or LessonOptions(), frozenset(accept)
        return CheckContext(options=options, waived=waived, refused=refused, by_person=True, library=library)

    def add(self, lesson: str, tags: tuple[str, ...] = ()) -> HandEdit:
        """Add a lesson at the end."""
        shown = repr(lesson) if len(repr(lesson)) <= _SHOWN else f"{lesson!r:.{_SHOWN}}…"
        return self._applied(Add.model_construct(lesson=lesson, tags=tags), f"the lesson {shown} was not added")

    def edit(self, prefix: str, lesson: str, tags: tuple[str, ...] = ()) -> HandEdit:
        """Replace a lesson in its place with a new one. A withheld lesson stays withheld."""
        library, target = self.library, self.find(prefix)
        wrong = f"the lesson {target[:_ID_SHOWN]!r} was not changed"
        if target in library.by_id:
            return self._applied(Modify.model_construct(target=target, lesson=lesson, tags=tags), wrong)
        held = next(one for one in library.withheld if one.experience.id == target)
        if lesson == held.experience.lesson:
            raise LibraryError(f"{wrong}: it already says exactly this (rule 'no_change')", code="no_change")
        self._hold(target, lesson, tags, self.context, wrong)
        operation = Modify(target=target, lesson=lesson, tags=tags)
        asked = ["person", operation.model_dump(mode="json")]
        made = Experience(
            id=experience_id(library.version, asked, 0, library=self.context.library),
            lesson=lesson,
            tags=tags or held.experience.tags,
            origin=Origin(kind="person", parents=(target,), library=library.version),
        )
        entry = Withheld(experience=made, status=held.status, reason=held.reason)
        withheld = tuple(entry if one is held else one for one in library.withheld)
        after = library.next(library.experiences, withheld)
        return HandEdit(after, (operation,))

    def remove(self, prefix: str) -> HandEdit:
        """Remove a lesson, shown or withheld."""
        target = self.find(prefix)
        return HandEdit(self._without(target), (Delete(target=target),))

    def reject(self, prefix: str) -> HandEdit:
        """Remove a lesson that waits for a person, and remember its words."""
        target = self.find(prefix, "pending")
        words = held_lessons(self.library)[target][0].lesson
        return HandEdit(self._without(target), (RejectLesson(target=target, lesson=words),))

    def park(self, prefixes: Collection[str], reason: str) -> HandEdit:
        """Keep one or more shown lessons without showing them."""
        targets = dict.fromkeys(self.find(one, "shown") for one in prefixes)
        after = withhold(self.library, dict.fromkeys(targets, reason))
        return HandEdit(after, tuple(ParkLesson(target=one, reason=reason) for one in targets))

    def show(self, prefix: str, status: WithheldStatus, words: str = "") -> HandEdit:
        """Show a withheld lesson of this status, at the end. It keeps its id, unless it gets other words."""
        target, library = self.find(prefix, status), self.library
        if words:
            made, edited = self.edit(target, words)
            (new,) = {one.experience.id for one in made.withheld} - {one.experience.id for one in library.withheld}
            after, shown = replace(self, library=made).show(new, status)
            whole = library.next(after.experiences, after.withheld)
            return HandEdit(whole, (*edited, *shown))
        held = next(one.experience for one in library.withheld if one.experience.id == target)
        done, kind = ("shown again", UnparkLesson) if status == "parked" else ("approved", ApproveLesson)
        wrong = f"the lesson {target[:_ID_SHOWN]!r} was not {done}"
        self._hold(target, held.lesson, held.tags, replace(self.context, refused=frozenset()), wrong)
        withheld = self._without(target).withheld
        after = library.next((*library.experiences, held), withheld)
        return HandEdit(after, (kind(target=target),))

    def find(self, prefix: str, *wanted: LessonStatus) -> ExperienceId:
        """Return the id of the only lesson whose id starts with the prefix and that has one of these statuses.

        Raises LibraryError.
        """
        held, where = {identity: status for identity, (_, status) in held_lessons(self.library).items()}, self.where
        matching = [identity for identity in held if prefix and identity.startswith(prefix)]
        if len(matching) > 1 and not any(one == prefix for one in matching):
            listed = ", ".join(repr(one[:_ID_SHOWN]) for one in matching[:8])
            raise LibraryError(
                f"{len(matching)} lessons of {where!r} have an id that starts with {prefix!r} (found: {listed}); give"
                " more of the one that you mean"
            )
        if not matching:
            raise LibraryError(
                f"no lesson of {where!r} has an id that starts with {prefix!r}; `agentlearn library show {where}` lists"
                " them with their ids",
                code="unknown_lesson",
            )
        found = next((one for one in matching if one == prefix), matching[0])
        if wanted and held[found] not in wanted:
            raise LibraryError(
                f"the lesson {prefix!r} of {where!r} is {held[found]}, not {' or '.join(wanted)};"
                f" `agentlearn library show {where}` lists all lessons"
            )
        return found

    def _applied(self, operation: Add | Modify, wrong: str) -> HandEdit:
        proposal = Proposal.model_construct(id=ProposalId(""), stage="consolidate", ordinal=0, operation=operation)
        after, (ended,) = next_version([proposal], self.library, self.context)
        if not isinstance(ended.end, Applied):
            raise _refusal(ended.end, wrong)
        try:
            return HandEdit(after, (type(operation).model_validate(operation.model_dump(mode="json")),))
        except ValidationError as error:  # pragma: no cover  the check lets no such text pass
            raise LibraryError(f"{wrong}: {error.errors()[0]['msg']}") from error

    def _hold(
        self, target: ExperienceId, lesson: str, tags: tuple[str, ...], context: CheckContext, wrong: str
    ) -> None:
        """Hold a lesson against the rules as if it were added to the others. Raises LibraryError."""
        end = why_not(Add.model_construct(lesson=lesson, tags=tags), self._without(target), context)
        if end is not None:
            raise _refusal(end, wrong)

    def _without(self, target: ExperienceId) -> Library:
        """The next version, without a lesson."""
        return self.library.next(
            (one for one in self.library.experiences if one.id != target),
            (one for one in self.library.withheld if one.experience.id != target),
        )


def _refusal(end: object, wrong: str) -> LibraryError:
    if not isinstance(end, Rejected | Quarantined):
        reason = end.reason if isinstance(end, Dropped) else "it is there already"
        return LibraryError(f"{wrong}: {reason}", code="not_applicable")
    instead = f", or keep it with --accept {end.code}" if end.code in ACCEPTABLE else ""
    return LibraryError(f"{wrong}: {end.reason} (rule {end.code!r}); change the words{instead}", code=end.code)
