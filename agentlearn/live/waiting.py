"""What waits for a person, found anew each time in the files of the libraries and in the store.

Four kinds of things wait. A version that a run did not publish; a lesson of a run that a rule held back; a lesson that
came with a file or another library; and a lesson that the evidence calls harmful, which is to be parked.

A person is also told which lessons have another label than when somebody last looked. The labels of the last look are
kept in a file of the library, so whoever looks first is told.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agentlearn.errors import LibraryError
from agentlearn.learning.evidence import EvidenceLabel, LibraryEvidence, ToPark, to_park
from agentlearn.learning.lessons.trust import (
    Acceptance,
    LessonSource,
    PendingLesson,
    PendingVersion,
    brings_more,
    lesson_source,
    pending_lessons,
    pending_versions,
    writer_of,
)
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.lesson_text import LessonWords
from agentlearn.library.curate.operations import targets_of
from agentlearn.library.history import MAIN, Change, History
from agentlearn.library.history.hand_edits import LibraryDiff
from agentlearn.store import StoreReader
from agentlearn.text import estimated_tokens
from agentlearn.text.files import own, write_whole
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, Withheld
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId
from agentlearn.types.operation import (
    OF_EVIDENCE,
    Applied,
    Edit,
    End,
    Quarantined,
    Rejected,
)
from agentlearn.types.value import Author, Value, strangers

ItemKind = Literal["version", "lesson", "foreign", "rollback"]
"""version: of a run; lesson: of a run, held back by a rule; foreign: a lesson that came with a file or another library;
rollback: a lesson that is shown and that the evidence calls harmful. To approve a rollback is to park the lesson."""
LessonChange = Literal["add", "edit", "merge", "remove", "park"]
_CHANGES: Mapping[str, LessonChange] = {"modify": "edit", "edit": "edit", "merge": "merge"}
_GONE = {RejectionCode.UNKNOWN_ID.value, RejectionCode.NO_CHANGE.value, RejectionCode.NEAR_DUPLICATE.value}
"""Rules that show that a proposal no longer applies: its target is gone, or the library says the same."""
_ID = 12


class WaitingLesson(Value):
    """One lesson that a decision would add, change or remove, and what a person needs to know about it."""

    id: ExperienceId
    """Its id. A lesson that is not part of a version yet has that of its proposal."""
    change: LessonChange
    lesson: str
    replaces: tuple[str, ...] = ()
    """The words of the lessons that it replaces."""
    tags: tuple[str, ...] = ()
    authors: tuple[Author, ...] = ()
    """The strangers who could have shaped it."""
    sentence: str = ""
    """The sentence of what its reflector read that shares most words with it."""
    said_by: str = ""
    """Where that sentence stands, in words."""
    attempts: tuple[tuple[RolloutId, float], ...] = ()
    """The attempts behind it with the lowest and the highest reward, with their rewards."""
    nearest: str = ""
    """The lesson of the library that shares most words with it; empty when none shares any."""
    effect: str = "not measured"
    """What it does to the reward by itself, in words."""
    points: float | None = None
    """The same in points (hundredths of the reward); None when it was not measured."""
    interval: tuple[float, float] | None = None
    """The interval of `points`."""
    tokens: int = 0
    """By how many tokens (estimated) the library grows with it."""


class Item(Value):
    """One thing that waits for a decision."""

    id: str
    """What the decisions take; the start of it is enough."""
    kind: ItemKind
    library: str
    version: LibraryVersion | None = None
    """The version that waits; for a lesson that a library holds, the version that holds it."""
    lessons: tuple[WaitingLesson, ...]
    """What would change in the library, lesson by lesson. A version may have several."""
    reason: str
    """Why it waits."""
    source: str
    """Whose text it was written after, in words; the model that wrote it where that was nobody else's."""
    since: datetime
    run: RunId | None = None
    tokens: int
    """By how many tokens (estimated) the library grows with it."""
    put_off: bool = False
    """Whether a person said "later". Such items come last."""


class ClosedItem(Value):
    """Something that waited and no longer applies, because the library has changed. Nobody has to decide on it."""

    id: str
    library: str
    reason: str


class WaitingItems(Value):
    """What waits, newest first."""

    items: tuple[Item, ...]
    closed: tuple[ClosedItem, ...] = ()
    acceptance: tuple[Acceptance, ...] = ()
    """What persons decided so far on the lessons of each source."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that waits, as it was found."""

    id: str
    library: str
    since: datetime
    what: PendingVersion | PendingLesson | Withheld | ToPark

    @property
    def names(self) -> tuple[str, ...]:
        """Its ids, of which a person may give the start."""
        identity = self.what.version if isinstance(self.what, PendingVersion) else self.id
        return f"{self.library}@{identity}", identity


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that waits, and the libraries as they were then."""

    main: Mapping[str, Library]
    found: tuple[Found, ...]
    closed: tuple[ClosedItem, ...]
    unfinished: tuple[tuple[Found, Change], ...]
    """What the history of a library says is decided, and the store does not know of yet."""


def look(libraries: LibraryStore, reader: StoreReader | None) -> Seen:
    """Look for everything that waits. reader: the store; None: there is none."""
    found, closed, unfinished = list[Found](), list[ClosedItem](), list[tuple[Found, Change]]()
    main, changes, ended = dict[str, Library](), dict[str, tuple[Change, ...]](), dict[RunId, datetime]()
    for name in libraries.names():
        history = libraries.history(name)
        changes[name] = history.changes
        if MAIN not in history.state.branches:
            continue
        main[name] = history.load(MAIN)
        since = _times(history, changes[name], main[name])
        for one in main[name].withheld:
            if one.status == "pending":
                waits = Found(one.experience.id, name, since[one.experience.id], one)
                normal = LessonWords.of(one.experience.lesson).normal
                if any(LessonWords.of(shown.lesson).normal == normal for shown in main[name].experiences):
                    why = "the library shows exactly this lesson already"
                    closed.append(ClosedItem(id=waits.id, library=name, reason=why))
                else:
                    found.append(waits)
    if reader is None:
        return Seen(main, tuple(found), tuple(closed), ())
    rule = libraries.not_shown()
    for version in pending_versions(reader, libraries):
        waits = Found(version.reference, version.library, version.at, version)
        log = changes.get(version.library, ())
        done = next((one for one in log if one.decided == version.version and one.at >= version.at), None)
        newer = [one for one in log if one.branch == MAIN and one.base is not None and one.at > version.at]
        if done is not None:
            unfinished.append((waits, done))
        elif later := next((one for one in newer if one.run not in {"", version.run}), None):
            take = f"agentlearn library export {waits.id} --out FILE, then library import FILE --name {waits.library}"
            why = f"run {later.run} has published a newer version since, {later.version[:_ID]}; its lessons: {take}"
            closed.append(ClosedItem(id=waits.id, library=waits.library, reason=why))
        elif not brings_more(version, reader, rule):
            why = "no version shows the lessons that it would bring: they are parked, or rest on erased records"
            closed.append(ClosedItem(id=waits.id, library=waits.library, reason=why))
        else:
            found.append(waits)
    for lesson in pending_lessons(reader):
        at = ended.setdefault(lesson.row.run, ended.get(lesson.row.run) or reader.run(lesson.row.run).at)
        waits = Found(lesson.row.ended.proposal.id, lesson.library, at, lesson)
        done = next((one for one in changes.get(lesson.library, ()) if one.decided == waits.id), None)
        library = main.get(lesson.library, EMPTY_LIBRARY)
        end = applied(lesson, library)[1]
        if done is not None:
            unfinished.append((waits, done))
        elif isinstance(end, Rejected) and end.code in _GONE:
            closed.append(ClosedItem(id=waits.id, library=waits.library, reason=why_not(lesson, end, library)))
        else:
            found.append(waits)
    kept = {(one.library, one.experience) for one in reader.decisions() if one.phase == OF_EVIDENCE}
    for name, library in main.items():
        if len(library) and reader.exposed(list(library.by_id)):
            plan = to_park(LibraryEvidence.of(reader, libraries, name).evidence, library)
            found += [
                Found(f"park-{one.experience.id}", name, changes[name][-1].at, one)
                for one in (*plan.park, *plan.reported)
                if (name, one.experience.id) not in kept and one.experience.id in library.by_id
            ]
    return Seen(main, tuple(found), tuple(closed), tuple(unfinished))


def item_of(one: Found, libraries: LibraryStore, main: Mapping[str, Library], reader: StoreReader | None) -> Item:
    """What a person needs to decide on something."""
    library, what, version, run = main.get(one.library, EMPTY_LIBRARY), one.what, None, run_of(one.what)
    kind: ItemKind
    match what:
        case PendingVersion():
            assert reader is not None, "versions come from the store"
            kind, reason, version = "version", what.reason, what.version
            whole = libraries.history(one.library).not_shown().applied(reader.library(what.version))
            lessons = tuple(_version_lessons(what, whole, reader, library))
        case PendingLesson():
            assert reader is not None, "lessons of runs come from the store"
            kind, proposal = "lesson", what.row.ended.proposal
            reason = f"{what.end.reason} ({what.end.code})"
            replaced = [library.by_id[target] for target in targets_of(what.operation) if target in library.by_id]
            origin = Origin(kind="add", strangers=what.end.strangers)
            lesson = Experience(id=ExperienceId(proposal.id), lesson=what.lesson, origin=origin)
            source = lesson_source(reader, what.lesson, proposal.evidence)
            change = _CHANGES.get(what.operation.op, "add")
            lessons = (_waiting(lesson, change, replaced, library, source),)
        case Withheld():
            lesson, version = what.experience, library.version
            kind, reason = "foreign", what.reason or "no reason is stored"
            lessons = (_waiting(lesson, "add", (), library),)
        case ToPark():
            version, known, kind, reason = library.version, what.evidence, "rollback", what.reason
            made = _waiting(what.experience, "park", (), library).model_copy(update={"effect": what.reason})
            measured = {} if known is None else {"points": known.points, "interval": (known.low, known.high)}
            lessons = (made.model_copy(update=measured),)
    authors = strangers(author for lesson in lessons for author in lesson.authors)
    writer = "unknown" if reader is None or run is None else writer_of(reader.run(run)).words
    return Item(
        id=one.id,
        kind=kind,
        library=one.library,
        version=version,
        lessons=lessons,
        reason=reason,
        source=" and ".join(author.words for author in authors) or writer,
        since=one.since,
        run=run,
        tokens=sum(lesson.tokens for lesson in lessons),
    )


def run_of(what: PendingVersion | PendingLesson | Withheld | ToPark) -> RunId | None:
    return what.run if isinstance(what, PendingVersion) else what.row.run if isinstance(what, PendingLesson) else None


def _times(history: History, changes: Sequence[Change], main: Library) -> dict[ExperienceId, datetime]:
    """When each withheld lesson came into a library, as far as its history says; else the time of the last change."""
    found = dict[ExperienceId, datetime]()
    for change in changes if main.withheld else ():
        if change.kind in {"import", "join", "publish"}:
            with suppress(LibraryError):  # a damaged version says nothing
                for one in history.load(change.version).withheld:
                    found.setdefault(one.experience.id, change.at)
    return {one.experience.id: found.get(one.experience.id, changes[-1].at) for one in main.withheld}


def applied(one: PendingLesson, library: Library, text: str = "") -> tuple[Library, End]:
    """The library after a held lesson, by every rule but the one that held it. text: what it is to say instead."""
    proposal = one.row.ended.proposal
    words = "new" if isinstance(one.operation, Edit) else "lesson"
    operation = one.operation.model_copy(update={words: text}) if text else one.operation
    context = CheckContext(
        options=one.options.model_copy(update={"change_written": True}),  # a person decides
        waived=frozenset({one.end.code}),
        strangers=one.end.strangers,
        by_person=bool(text),
        library=one.library,
    )
    after, (ended,) = next_version([proposal.model_copy(update={"operation": operation})], library, context)
    return after, ended.end


def why_not(one: PendingLesson, end: End, library: Library) -> str:
    now = f"{one.library}@{library.version[:8]}" if len(library) else f"{one.library}, which is empty"
    identity = one.row.ended.proposal.id[:_ID]
    gone = [target for target in targets_of(one.operation) if target not in library.by_id]
    if gone:
        return f"the lesson {gone[0][:_ID]!r} that {identity!r} would replace is no longer in {now}"
    reason = end.reason if isinstance(end, Rejected | Quarantined) else "it is there already"
    return f"{identity!r} cannot be added to {now}: {reason}"


def _version_lessons(
    one: PendingVersion, whole: Library, reader: StoreReader, library: Library
) -> Iterator[WaitingLesson]:
    """What a version changes in the one that its run started from.

    whole: the version as it would be published. library: the current one.
    """
    run_inputs = reader.run_inputs(one.run)
    diff = LibraryDiff.of(EMPTY_LIBRARY if run_inputs is None else reader.library(run_inputs.library), whole)
    new = [*((edit.after, edit.before) for edit in diff.edited), *((lesson, ()) for lesson in diff.added)]
    new = [(lesson, before) for lesson, before in new if lesson.id in whole.by_id]
    behind = {
        row.ended.end.experience: row.ended.proposal.evidence
        for row in reader.proposals_of([lesson.id for lesson, _ in new])
        if isinstance(row.ended.end, Applied)
    }
    worth = {found.lesson: found.delta for found in one.alone}
    for lesson, replaced in new:
        change: LessonChange = "merge" if len(replaced) > 1 else "edit" if replaced else "add"
        source = lesson_source(reader, lesson.lesson, behind.get(lesson.id, ()))
        made = _waiting(lesson, change, replaced, library, source)
        if (delta := worth.get(lesson.id)) is not None:
            points = None if delta.mean is None else 100 * delta.mean
            interval = None if delta.ci is None else (100 * delta.ci[0], 100 * delta.ci[1])
            made = made.model_copy(update={"effect": delta.sentence, "points": points, "interval": interval})
        yield made
    for lesson in diff.removed:
        yield _waiting(lesson, "remove", (), EMPTY_LIBRARY)


def _waiting(
    lesson: Experience,
    change: LessonChange,
    replaced: Sequence[Experience],
    library: Library,
    source: LessonSource = LessonSource(),  # noqa: B008 - a constant
) -> WaitingLesson:
    words, gone = LessonWords.of(lesson.lesson), {one.id for one in (*replaced, lesson)}
    others = [one.lesson for one in library.experiences if one.id not in gone]
    nearest = max(others, key=lambda other: words.similarity_to(LessonWords.of(other)), default="")
    near = bool(nearest) and words.similarity_to(LessonWords.of(nearest)) > 0
    grows, leaves = estimated_tokens(lesson.lesson), sum(estimated_tokens(one.lesson) for one in replaced)
    return WaitingLesson(
        id=lesson.id,
        change=change,
        lesson=lesson.lesson,
        replaces=tuple(one.lesson for one in replaced),
        tags=lesson.tags,
        authors=lesson.origin.strangers,
        sentence=source.sentence,
        said_by=source.said_by,
        attempts=source.attempts,
        nearest=nearest if near else "",
        tokens=-grows if change in {"remove", "park"} else grows - leaves,
    )


LABELS_FILE = "labels"
"""File in a library's folder with the labels of the last look: JSON, by lesson and model."""
_SHORT_ID = 12


class LabelChange(Value):
    """A lesson that agents see, and whose label is another one than at the last look."""

    library: str
    lesson: ExperienceId
    model: str
    before: EvidenceLabel
    after: EvidenceLabel
    sentence: str
    """All of it in words, with the evidence of now."""


def label_changes(libraries: LibraryStore, found: LibraryEvidence, *, remember: bool = True) -> tuple[LabelChange, ...]:
    """Return the labels of shown lessons that got worse, or were lost, since the last look.

    found: the evidence on a library. remember: make this the last look. A lesson that is proven now, and was not, is no
    alarm. Raises OSError where the labels cannot be written.
    """
    file, changed = libraries.head(found.name).with_name(LABELS_FILE), list[LabelChange]()
    last, now = _read(libraries, found.name), dict[str, EvidenceLabel]()
    for one in found.evidence:
        now[key := f"{one.lesson} {one.model}"] = one.label
        before = last.get(key, "unknown")
        if one.lesson in found.library.by_id and one.label not in {before, "proven"}:
            why = f"; {one.withheld}" if one.withheld else ""
            sentence = f"lesson {one.lesson[:_SHORT_ID]} of {found.name} was {before} and is {one.words()}{why}"
            known = {"library": found.name, "lesson": one.lesson, "model": one.model, "after": one.label}
            changed.append(LabelChange.model_validate({**known, "before": before, "sentence": sentence}))
    if remember and now != last:
        write_whole(file, json.dumps(now, sort_keys=True).encode(), private=True)
    return tuple(changed)


def _read(libraries: LibraryStore, name: str) -> Mapping[str, EvidenceLabel]:
    """The labels of the last look; none where there was none or its file is damaged."""
    with suppress(OSError, ValueError):
        file = own(libraries.head(name).with_name(LABELS_FILE), libraries.directory.parent)
        found: Any = json.loads(file.read_bytes())
        if isinstance(found, dict):
            return {str(key): label for key, label in found.items() if label in {"proven", "harmful", "unknown"}}
    return {}
