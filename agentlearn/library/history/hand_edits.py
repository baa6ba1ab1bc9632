"""Changes of single lessons by a person, each through the same check as the proposals of a run.

Every function takes a library and returns the next one with the operation that was done, or raises LibraryError with
the code of the rule in the way. A person may set some rules aside by their code; the rules that keep a lesson from
looking like another part of a prompt hold for everybody.
"""

import difflib
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from pydantic import ValidationError

from agentlearn.config.options import LessonOptions
from agentlearn.errors import LibraryError
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.curate.codes import ACCEPTABLE
from agentlearn.library.curate.library_draft import withhold
from agentlearn.library.curate.next_version import why_not
from agentlearn.library.history.change_log import (
    ApproveLesson,
    HistoryOperation,
    ParkLesson,
    RejectLesson,
    UnparkLesson,
)
from agentlearn.types.experience import Experience, Library, Origin, Withheld, WithheldStatus, experience_id
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId
from agentlearn.types.operation import Add, Applied, Delete, Dropped, Modify, Operation, Proposal, Quarantined, Rejected
from agentlearn.types.value import Value

LessonStatus = Literal["shown", "parked", "pending"]
"""How a library holds a lesson: shown to agents, or withheld."""


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
            _StatusChange(experience=one, before=old[identity][1], after=status)
            for identity, (one, status) in new.items()
            if identity in old and old[identity][1] != status
        ),
    )


def _changed_words(before: str, after: str) -> tuple[_WordChange, ...]:
    """Return the words that differ, in order."""
    old, new = before.split(), after.split()
    steps = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return tuple(
        _WordChange(before=" ".join(old[first:last]), after=" ".join(new[start:end]))
        for step, first, last, start, end in steps
        if step != "equal"
    )


def _edited(before: list[Experience], after: Experience) -> _EditedLesson:
    return _EditedLesson(before=tuple(before), after=after, words=_changed_words(before[0].lesson, after.lesson))


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


_SHOWN = 60
_ID_SHOWN = 12


class HandEdit(NamedTuple):
    """A library after what a person did in one change."""

    library: Library
    operation: HistoryOperation
    further: tuple[HistoryOperation, ...] = ()
    """Operations of the same change after the first one."""


def person_context(
    accept: Collection[str] = (),
    *,
    options: LessonOptions | None = None,
    refused: frozenset[str] = frozenset(),
    library: str = "",
) -> CheckContext:
    """Return what a person's change is checked against. Raises LibraryError.

    accept: codes of rules to set aside. library: name of the library that is changed.
    """
    if unknown := sorted(set(accept) - ACCEPTABLE):
        known = ", ".join(map(repr, sorted(ACCEPTABLE)))
        raise LibraryError(f"{unknown[0]!r} is not a rule that can be set aside; use one of {known}", code="bad_accept")
    return CheckContext(
        options=options or LessonOptions(),
        waived=frozenset(accept),
        refused=refused,
        by_person=True,
        library=library,
    )


def added(library: Library, lesson: str, tags: tuple[str, ...], context: CheckContext) -> HandEdit:
    """Add a lesson at the end."""
    operation = Add.model_construct(lesson=lesson, tags=tags)
    return _checked(library, operation, context, f"the lesson {_cut(lesson)} was not added")


def edited(
    library: Library, target: ExperienceId, lesson: str, tags: tuple[str, ...], context: CheckContext
) -> HandEdit:
    """Replace a lesson in its place with a new one. A withheld lesson stays withheld."""
    wrong = f"the lesson {target[:_ID_SHOWN]!r} was not changed"
    if target in library.by_id:
        operation = Modify.model_construct(target=target, lesson=lesson, tags=tags)
        return _checked(library, operation, context, wrong)
    held = next(one for one in library.withheld if one.experience.id == target)
    others = _without(library, target)
    if lesson == held.experience.lesson:
        raise LibraryError(f"{wrong}: it already says exactly this (rule 'no_change')", code="no_change")
    _hold(others, lesson, tags, context, wrong)
    operation = Modify(target=target, lesson=lesson, tags=tags)
    made = Experience(
        id=experience_id(library.version, ["person", operation.model_dump(mode="json")], 0, library=context.library),
        lesson=lesson,
        tags=tags or held.experience.tags,
        origin=Origin(kind="person", parents=(target,), library=library.version),
    )
    entry = Withheld(experience=made, status=held.status, reason=held.reason)
    withheld = tuple(entry if one is held else one for one in library.withheld)
    return HandEdit(_next(library, library.experiences, withheld), operation)


def removed(library: Library, target: ExperienceId, operation: RejectLesson | None = None) -> HandEdit:
    """Remove a lesson, shown or withheld. operation: in place of its deletion, that a person refused it."""
    rest = _without(library, target)
    return HandEdit(_next(library, rest.experiences, rest.withheld), operation or Delete(target=target))


def parked(library: Library, targets: Sequence[ExperienceId], reason: str) -> HandEdit:
    """Keep one or more shown lessons without showing them."""
    after = withhold(library, dict.fromkeys(targets, reason))
    first, *others = (ParkLesson(target=one, reason=reason) for one in targets)
    return HandEdit(after, first, tuple(others))


def shown_again(library: Library, target: ExperienceId, context: CheckContext, kind: WithheldStatus) -> HandEdit:
    """Show a withheld lesson, at the end. kind: the status that it has. It keeps its id."""
    held = next(one.experience for one in library.withheld if one.experience.id == target)
    others = _without(library, target)
    done = "shown again" if kind == "parked" else "approved"
    _hold(others, held.lesson, held.tags, context, f"the lesson {target[:_ID_SHOWN]!r} was not {done}")
    after = _next(library, (*library.experiences, held), others.withheld)
    return HandEdit(after, UnparkLesson(target=target) if kind == "parked" else ApproveLesson(target=target))


def _checked(library: Library, operation: Operation, context: CheckContext, wrong: str) -> HandEdit:
    proposal = Proposal.model_construct(id=ProposalId(""), stage="consolidate", ordinal=0, operation=operation)
    after, (ended,) = next_version([proposal], library, context)
    if not isinstance(ended.end, Applied):
        raise _refusal(ended.end, wrong)
    try:
        return HandEdit(after, type(operation).model_validate(operation.model_dump(mode="json")))
    except ValidationError as error:  # pragma: no cover  the check lets no such text pass
        raise LibraryError(f"{wrong}: {error.errors()[0]['msg']}", code="bad_lesson") from error


def _hold(others: Library, lesson: str, tags: tuple[str, ...], context: CheckContext, wrong: str) -> None:
    """Hold a lesson against the rules as if it were added to the others. Raises LibraryError."""
    end = why_not(Add.model_construct(lesson=lesson, tags=tags), others, context)
    if end is not None:
        raise _refusal(end, wrong)


def _refusal(end: object, wrong: str) -> LibraryError:
    if not isinstance(end, Rejected | Quarantined):
        reason = end.reason if isinstance(end, Dropped) else "it is there already"
        return LibraryError(f"{wrong}: {reason}", code="not_applicable")
    instead = f", or keep it with --accept {end.code}" if end.code in ACCEPTABLE else ""
    return LibraryError(f"{wrong}: {end.reason} (rule {end.code!r}); change the words{instead}", code=end.code)


def _without(library: Library, target: ExperienceId) -> Library:
    return Library(
        parent=library.parent,
        experiences=tuple(one for one in library.experiences if one.id != target),
        withheld=tuple(one for one in library.withheld if one.experience.id != target),
    )


def _next(library: Library, experiences: tuple[Experience, ...], withheld: tuple[Withheld, ...]) -> Library:
    return Library(parent=library.version, experiences=experiences, withheld=withheld)


def _cut(lesson: object) -> str:
    text = repr(lesson)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def find_lesson(library: Library, prefix: str, *wanted: LessonStatus, where: str) -> ExperienceId:
    """Return the id of the only lesson whose id starts with the prefix and that has one of these statuses.

    where: a reference to the library, for the message. Raises LibraryError.
    """
    held = {identity: status for identity, (_, status) in held_lessons(library).items()}
    matching = [identity for identity in held if prefix and identity.startswith(prefix)]
    if len(matching) > 1:
        exact = [identity for identity in matching if identity == prefix]
        listed = ", ".join(repr(one[:_ID_SHOWN]) for one in matching[:8])
        if not exact:
            raise LibraryError(
                f"{len(matching)} lessons of {where!r} have an id that starts with {prefix!r} (found: {listed}); give"
                " more of the one that you mean",
                code="ambiguous",
            )
        matching = exact
    if not matching:
        raise LibraryError(
            f"no lesson of {where!r} has an id that starts with {prefix!r}; `agentlearn library show {where}` lists"
            " them with their ids",
            code="unknown_lesson",
        )
    if wanted and held[matching[0]] not in wanted:
        raise LibraryError(
            f"the lesson {prefix!r} of {where!r} is {held[matching[0]]}, not {' or '.join(wanted)};"
            f" `agentlearn library show {where}` lists all lessons",
            code="wrong_status",
        )
    return matching[0]
