"""The inbox: everything that waits for a person, with what decides on it, and the decisions.

Four kinds of things wait. A version that a run did not publish; a lesson of a run that a rule held back; a lesson that
came with a file or another library; and a lesson that the evidence calls harmful, which is to be parked. Everything is
found anew each time in the files of the libraries and in the store, so nothing can be forgotten.

One decision at a time is made, under a lock that all processes share, and the thing is looked up again first. What
changes a library is one line of its history, which also says what was decided; the row of the store follows. Where a
crash came between the two, the next decision adds the row. The row goes to the store's journal, so that a person can
decide while a run holds the store.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from agentlearn.errors import ConfigError, LibraryError, StoreError, StoreMissing
from agentlearn.files import own, write_whole
from agentlearn.learning.evidence import LibraryEvidence, ToPark, to_park
from agentlearn.learning.lessons.pending_versions import (
    PendingLesson,
    PendingVersion,
    pending_lessons,
    pending_versions,
)
from agentlearn.learning.lessons.trust import Acceptance, LessonSource, acceptance, lesson_source, writer_of
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.curate.codes import RejectionCode
from agentlearn.library.curate.operations import targets_of
from agentlearn.library.curate.similarity import LessonWords, refusal_key
from agentlearn.library.history import MAIN, Change, History
from agentlearn.library.history.change_log import RejectLesson, account_name
from agentlearn.library.history.hand_edits import HandEdits, LibraryDiff, held_lessons
from agentlearn.store import StoreReader, read_store
from agentlearn.store.codec import DecisionEntry, EntryValue, LibraryEntry, encode_entry
from agentlearn.store.journal_file import JournalFile
from agentlearn.text import estimated_tokens, storable
from agentlearn.types.author import Author, strangers
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Origin, Withheld
from agentlearn.types.ids import ExperienceId, LibraryVersion, ProposalId, RolloutId, RunId
from agentlearn.types.operation import (
    LEFT_OUT,
    OF_EVIDENCE,
    OF_VERSION,
    Applied,
    End,
    LessonDecision,
    Modify,
    Quarantined,
    Rejected,
)
from agentlearn.types.value import Value

T = TypeVar("T")
ItemKind = Literal["version", "lesson", "foreign", "rollback"]
"""version: of a run; lesson: of a run, held back by a rule; foreign: a lesson that came with a file or another library;
rollback: a lesson that is shown and that the evidence calls harmful. To approve a rollback is to park the lesson."""
DecisionKind = Literal["approved", "edited", "rejected", "later", "undone", "failed"]
"""What came of a decision. failed: nothing changed, and `problem` says why."""
LessonChange = Literal["add", "edit", "merge", "remove", "park"]
_CHANGES: Mapping[str, LessonChange] = {"modify": "edit", "merge": "merge"}
_GONE = {RejectionCode.UNKNOWN_ID.value, RejectionCode.NO_CHANGE.value, RejectionCode.NEAR_DUPLICATE.value}
"""Rules that show that a proposal no longer applies: its target is gone, or the library says the same."""
_LATER_FILE = "later.json"
_PATIENCE_S, _PAUSE_S = 20.0, 0.05
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


class Waiting(Value):
    """What waits, newest first."""

    items: tuple[Item, ...]
    closed: tuple[ClosedItem, ...] = ()
    acceptance: tuple[Acceptance, ...] = ()
    """What persons decided so far on the lessons of each source."""


class Decision(Value):
    """What a decision did."""

    item: str
    library: str
    verdict: DecisionKind
    who: str
    note: str = ""
    at: datetime
    version: LibraryVersion | None = None
    """The current version of the library after it; None when it did not change the library."""
    replaced: LibraryVersion | None = None
    """The version before it."""
    lessons: int | None = None
    """Number of lessons of that version."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
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
class _Seen:
    """Everything that waits, and the libraries as they were then."""

    main: Mapping[str, Library]
    found: tuple[_Found, ...]
    closed: tuple[ClosedItem, ...]
    unfinished: tuple[tuple[_Found, Change], ...]
    """What the history of a library says is decided, and the store does not know of yet."""


class Inbox:
    """What waits for a person in a folder of libraries and in a store, and the decisions on it.

    libraries: the folder of the libraries, `.agentlearn/libraries`. store: the directory of the store, `.agentlearn`;
    None, or one that does not exist: only lessons that wait in libraries are found. who: who decides; default: this
    account.

    Everything is read anew by each method. Any number of processes may decide at once, also while a run is under way.
    Decisions take an `Item` or the start of its id. They raise LibraryError, and change nothing, for what does not
    wait, was decided by somebody else, or no longer applies; StoreError when the store cannot be read or written.
    """

    def __init__(self, libraries: Path | str, store: Path | str | None = None, *, who: str | None = None) -> None:
        self.libraries = LibraryStore(libraries)
        self.store = None if store is None else Path(store)
        self.who = account_name() if who is None else who
        self._undoable: tuple[_Found, Change] | None = None

    def items(self, *, library: str | None = None, run: str | None = None) -> tuple[Item, ...]:
        """Return what waits, newest first; what was put off comes last.

        library: only what is for this library or domain. run: only what this run made; the start of its id is enough.
        """
        return self.waiting(library=library, run=run).items

    def waiting(
        self, reader: StoreReader | None = None, *, library: str | None = None, run: str | None = None
    ) -> Waiting:
        """Return what waits as `items` does, what closed by itself, and the acceptance of each source.

        reader: the store, where it is open already.
        """

        def look(opened: StoreReader | None) -> Waiting:
            if run is not None and opened is None:
                raise StoreMissing(f"there is no store in {str(self.store)!r}, so no run {run!r}")
            wanted = None if run is None or opened is None else opened.run(run).run
            seen, put_off = self._scan(opened), self._put_off()
            self._note(seen.found)
            items = [
                self._item(one, seen.main, opened).model_copy(update={"put_off": one.id in put_off})
                for one in seen.found
                if library in {None, one.library, getattr(one.what, "domain", None)}
                and wanted in {None, _run_of(one.what)}
            ]
            items.sort(key=lambda one: (not one.put_off, one.since), reverse=True)
            closed = tuple(one for one in seen.closed if library in {None, one.library})
            return Waiting(items=tuple(items), closed=closed, acceptance=acceptance(opened, self.libraries))

        return self._read(look, reader)

    def approve(
        self, item: Item | str, *, without: Collection[str] = (), accept: Collection[str] = (), note: str = ""
    ) -> Decision:
        """Publish a version, show a lesson, or park a lesson that the evidence calls harmful.

        without: starts of ids of new lessons of a version that are refused; the others are published. accept: codes of
        rules to set aside for a lesson that a library holds. What persons changed in the library meanwhile is kept.
        """
        return self._decide(item, partial(self._approve, note=note, without=without, accept=accept))

    def edit(self, item: Item | str, text: str, *, lesson: str = "", note: str = "") -> Decision:
        """Approve it with words of your own. The lesson is yours then, and no run changes it.

        lesson: which one, of a version with several: the start of its id.
        """
        if not text.strip():
            raise LibraryError("the new words of the lesson are empty; give some, or reject it", code="empty_lesson")
        return self._decide(item, partial(self._approve, note=note, text=text.strip(), lesson=lesson))

    def reject(self, item: Item | str, reason: str = "") -> Decision:
        """Refuse it. Later runs refuse the same words of a lesson, and their reflector reads the reason.

        A refused version stays in the store. A lesson that the evidence calls harmful stays in the library.
        """
        return self._decide(item, partial(self._reject, note=storable(reason)))

    def later(self, item: Item | str) -> Decision:
        """Leave it as it is. It goes on waiting, and comes last from now on."""

        def put_off(one: _Found, *_: object) -> Decision:
            known = [*(key for key in self._put_off() if key != one.id), one.id]
            content = json.dumps(known[-1_000:]).encode()
            write_whole(self.libraries.directory / _LATER_FILE, content, private=True)
            return self._made(one, "later")

        return self._decide(item, put_off)

    def approve_source(self, source: str, *, note: str = "") -> tuple[Decision, ...]:
        """Approve everything that waits from one source, as `Item.source` names it, each by itself.

        What cannot be approved goes on waiting; its decision has the verdict `failed` and says why.
        """
        wanted = [one for one in self.items() if one.source == source and one.kind != "rollback"]
        if not wanted:
            raise LibraryError(
                f"nothing that waits comes from {source!r}; `agentlearn review` shows the source of each thing",
                code="unknown_source",
            )
        made = list[Decision]()
        for one in wanted[::-1]:  # the oldest first, so that newer versions replace older ones
            try:
                made.append(self.approve(one, note=note))
            except LibraryError as error:
                made.append(self._made(one, "failed", note=note, problem=error.message))
        return tuple(made)

    def undo(self) -> Decision:
        """Take back the last decision of this inbox on a lesson that a library holds.

        Decisions on what a run left stay. Raises LibraryError where there is nothing to take back.
        """
        if self._undoable is None:
            raise LibraryError(
                "the last decision cannot be taken back here; `agentlearn library log NAME` shows the versions, and"
                " `library rollback NAME@VERSION` goes back to one",
                code="nothing_to_undo",
            )
        (one, change), self._undoable = self._undoable, None
        with self.libraries.reviewing():
            history = self.libraries.history(one.library)
            if history.state.branches[MAIN] != change.version or change.before is None:
                raise LibraryError(
                    f"library {history.name!r} has changed since; nothing was taken back", code="changed"
                )
            done = history.rollback(change.before, who=self.who, note=f"took back: {change.kind}")
        return self._made(one, "undone", done)

    # What waits.

    def _read(self, act: Callable[[StoreReader | None], T], reader: StoreReader | None = None) -> T:
        """What a function returns that is given the open store, or None when there is none.

        Waits while another process has the store for a moment; the function is called again where that process ended
        before it had answered.
        """
        if reader is not None or self.store is None:
            return act(reader)
        ends = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with read_store(self.store) as opened:
                    return act(opened)
            except StoreMissing:
                return act(None)
            except StoreError as error:
                if error.code not in {"store_locked", "store_unanswered"} or time.monotonic() > ends:
                    raise
            time.sleep(_PAUSE_S)

    def _scan(self, reader: StoreReader | None) -> _Seen:
        """Look for everything that waits."""
        found, closed, unfinished = list[_Found](), list[ClosedItem](), list[tuple[_Found, Change]]()
        main, changes, ended = dict[str, Library](), dict[str, tuple[Change, ...]](), dict[RunId, datetime]()
        for name in self.libraries.names():
            history = self.libraries.history(name)
            changes[name] = history.changes
            if MAIN not in history.state.branches:
                continue
            main[name] = history.load(MAIN)
            since = _times(history, changes[name], main[name])
            for one in main[name].withheld:
                if one.status == "pending":
                    waits = _Found(one.experience.id, name, since[one.experience.id], one)
                    normal = LessonWords.of(one.experience.lesson).normal
                    if any(LessonWords.of(shown.lesson).normal == normal for shown in main[name].experiences):
                        why = "the library shows exactly this lesson already"
                        closed.append(ClosedItem(id=waits.id, library=name, reason=why))
                    else:
                        found.append(waits)
        if reader is None:
            return _Seen(main, tuple(found), tuple(closed), ())
        for version in pending_versions(reader, self.libraries):
            waits = _Found(version.reference, version.library, version.at, version)
            log = changes.get(version.library, ())
            done = next((one for one in log if one.decided == version.version and one.at >= version.at), None)
            newer = [one for one in log if one.branch == MAIN and one.base is not None and one.at > version.at]
            if done is not None:
                unfinished.append((waits, done))
            elif later := next((one for one in newer if one.run not in {"", version.run}), None):
                take = f"agentlearn library join {waits.library} {waits.id}"
                why = f"run {later.run} has published a newer version since, {later.version[:_ID]}; its lessons: {take}"
                closed.append(ClosedItem(id=waits.id, library=waits.library, reason=why))
            else:
                found.append(waits)
        for lesson in pending_lessons(reader):
            at = ended.setdefault(lesson.row.run, ended.get(lesson.row.run) or reader.run(lesson.row.run).at)
            waits = _Found(lesson.row.ended.proposal.id, lesson.library, at, lesson)
            done = next((one for one in changes.get(lesson.library, ()) if one.decided == waits.id), None)
            library = main.get(lesson.library, EMPTY_LIBRARY)
            end = _applied(lesson, library)[1]
            if done is not None:
                unfinished.append((waits, done))
            elif isinstance(end, Rejected) and end.code in _GONE:
                closed.append(ClosedItem(id=waits.id, library=waits.library, reason=_why_not(lesson, end, library)))
            else:
                found.append(waits)
        kept = {(one.library, one.experience) for one in reader.decisions() if one.phase == OF_EVIDENCE}
        for name, library in main.items():
            if len(library) and reader.exposed(list(library.by_id)):
                plan = to_park(LibraryEvidence.of(reader, self.libraries, name).evidence, library)
                found += [
                    _Found(f"park-{one.experience.id}", name, changes[name][-1].at, one)
                    for one in (*plan.park, *plan.reported)
                    if (name, one.experience.id) not in kept and one.experience.id in library.by_id
                ]
        return _Seen(main, tuple(found), tuple(closed), tuple(unfinished))

    def _item(self, one: _Found, main: Mapping[str, Library], reader: StoreReader | None) -> Item:
        """What a person needs to decide on something."""
        library, what, version, run = main.get(one.library, EMPTY_LIBRARY), one.what, None, _run_of(one.what)
        kind: ItemKind
        match what:
            case PendingVersion():
                assert reader is not None, "versions come from the store"
                kind, reason, version = "version", what.reason, what.version
                lessons = tuple(_version_lessons(what, reader, library))
            case PendingLesson():
                assert reader is not None, "lessons of runs come from the store"
                kind, reason, proposal = "lesson", what.end.reason, what.row.ended.proposal
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

    def _put_off(self) -> tuple[str, ...]:
        try:
            found: Any = json.loads(own(self.libraries.directory / _LATER_FILE, self.libraries.directory).read_bytes())
        except (OSError, ValueError):
            return ()
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def _note(self, found: Iterable[_Found]) -> None:
        self.libraries.note_waiting(sum(not isinstance(one.what, Withheld) for one in found))

    # Decisions.

    def _decide(self, item: Item | str, act: Callable[[_Found, StoreReader | None], Decision]) -> Decision:
        """Find something that waits and decide on it, while nobody else can."""

        def decide(reader: StoreReader | None) -> Decision:
            seen = self._scan(reader)
            for unfinished, change in seen.unfinished:
                self._append(self._rows(unfinished, change))
            one = self._find(item, seen, reader)
            made = act(one, reader)
            self._note(other for other in seen.found if other.id != one.id or made.verdict == "later")
            return made

        with self.libraries.reviewing():
            return self._read(decide)

    def _find(self, item: Item | str, seen: _Seen, reader: StoreReader | None) -> _Found:
        """The only thing that waits of that name. Raises LibraryError."""
        name = item.id if isinstance(item, Item) else item
        matching = [one for one in seen.found if name and any(known.startswith(name) for known in one.names)]
        if isinstance(item, Item):
            matching = [one for one in matching if (one.library, one.id) == (item.library, item.id)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            listed = ", ".join(repr(one.names[0]) for one in matching[:8])
            raise LibraryError(
                f"{len(matching)} things that wait match {name!r} (found: {listed}); give more of the one you mean",
                code="ambiguous",
            )
        for closed in seen.closed:
            if name and closed.id.startswith(name):
                raise LibraryError(f"{name!r} no longer applies: {closed.reason}", code="not_applicable")
        if name and (said := self._decided_before(name, seen, reader)):
            raise LibraryError(f"{said}; a decision is not changed", code="decided_already")
        listed = ", ".join(repr(one.id[:_ID] if "@" not in one.id else one.id) for one in seen.found[:8]) or "none"
        raise LibraryError(
            f"nothing that waits for a decision matches {name!r} (found: {listed}); `agentlearn review` lists it",
            code="unknown_version" if "@" in name else "unknown_lesson",
        )

    def _decided_before(self, name: str, seen: _Seen, reader: StoreReader | None) -> str:
        """What was decided on something, in words; empty when nothing was."""
        library, _, prefix = name.rpartition("@")
        made = [(one.names, "approved", change.who, change.at) for one, change in seen.unfinished]
        for of in self.libraries.names():
            history = self.libraries.history(of)
            if library == of and prefix and str(history.state.current).startswith(prefix):
                return f"version {name!r} is published already"
            for change, one in history.decisions():
                edited = (edit.target for edit in change.operations if isinstance(edit, Modify))
                verdict = "rejected" if isinstance(one, RejectLesson) else "approved"
                made.append(((one.target, *edited), verdict, change.who, change.at))
        for done in [] if reader is None else reader.decisions():
            decided = done.version if done.of_version else done.proposal or f"park-{done.experience}"
            made.append(((str(decided), f"{done.library}@{decided}"), done.verdict, done.who, done.at))
        for names, verdict, who, at in reversed(made):
            if any(one.startswith(name) for one in names):
                return f"{name!r} was {verdict} by {who!r} on {at:%Y-%m-%d}"
        return ""

    def _approve(
        self,
        one: _Found,
        reader: StoreReader | None,
        *,
        note: str,
        without: Collection[str] = (),
        accept: Collection[str] = (),
        text: str = "",
        lesson: str = "",
    ) -> Decision:
        history, what = self.libraries.history(one.library), one.what
        signed: dict[str, Any] = {"who": self.who, "note": note, "at": datetime.now(UTC)}
        if without and not isinstance(what, PendingVersion):
            raise ConfigError(
                f"--without leaves lessons out of a version, and {one.id[:_ID]!r} is a lesson; approve or reject it",
                code="not_a_version",
            )
        match what:
            case Withheld():
                change = history.approve(what.experience.id, text, accept=accept, **signed)
            case ToPark() if text:
                change = history.edit(what.experience.id, text, accept=accept, **signed)
            case ToPark():
                change = history.park(what.experience.id, reason=what.reason, **signed)
            case PendingLesson():

                def added(current: Library) -> Library:
                    after, end = _applied(what, current, text)
                    if not isinstance(end, Applied):
                        raise LibraryError(_why_not(what, end, current), code="not_applicable")
                    return after

                change = history.update(added, kind="approve", run=what.row.run, decided=one.id, **signed)
                assert change is not None, "an operation that was applied changes the library"
                self._append(self._rows(one, change))
            case PendingVersion():
                assert reader is not None, "versions come from the store"
                change = self._publish(what, reader, history, without, text, lesson, signed)
                self._append(self._rows(one, change))
        self._undoable = (one, change) if isinstance(what, Withheld | ToPark) else None
        return self._made(one, "edited" if text else "approved", change)

    def _publish(
        self,
        one: PendingVersion,
        reader: StoreReader,
        history: History,
        without: Collection[str],
        text: str,
        lesson: str,
        signed: Mapping[str, Any],
    ) -> Change:
        """Make a version of a run the current one, with what persons changed in the library since the run started."""
        whole, run_inputs = reader.library(one.version), reader.run_inputs(one.run)
        start = EMPTY_LIBRARY if run_inputs is None else reader.library(run_inputs.library)
        new = [made for made in whole.experiences if made.id not in start.by_id]
        refused = [_only(one, new, prefix) for prefix in without]
        kept = tuple(made for made in whole.experiences if made not in refused)
        selected = Library(parent=whole.version, experiences=kept, withheld=whole.withheld) if refused else whole
        operations: tuple[Any, ...] = tuple(RejectLesson(target=made.id, lesson=made.lesson) for made in refused)
        if text:
            chosen = _only(one, new, lesson) if lesson or len(new) != 1 else new[0]
            edited = HandEdits(whole, one.reference, HandEdits.checked(library=one.library)).edit(chosen.id, text)
            selected, operations = edited.library, (*operations, *edited.operations)
        before = len(history.changes)
        history.publish_learned(
            selected,
            start=whole if run_inputs is None else start,
            since=reader.run(one.run).started_at,
            versions=(whole,),
            kind="approve",
            run=one.run,
            operations=operations,
            decided=one.version,
            **signed,
        )
        made = next((change for change in history.changes[before:] if change.decided == one.version), None)
        if made is None:
            raise LibraryError(f"{one.reference} is the current version already", code="decided_already")
        return made

    def _reject(self, one: _Found, _reader: StoreReader | None, *, note: str) -> Decision:
        self._undoable, made = None, self._made(one, "rejected", note=note)
        if isinstance(one.what, Withheld):
            change = self.libraries.history(one.library).reject(one.what.experience.id, who=self.who, note=note)
            self._undoable = (one, change)
            return self._made(one, "rejected", change)
        self._append([DecisionEntry(decision=self._row(one, "rejected", self.who, note, made.at))])
        return made

    def _row(
        self, one: _Found, verdict: Literal["approved", "rejected"], who: str, note: str, at: datetime, **more: Any
    ) -> LessonDecision:
        """The row of the store about a decision."""
        fields: dict[str, Any] = {"batch": 0, "proposal": ProposalId(""), "lesson_key": "", "run": RunId("")}
        match one.what:
            case PendingVersion() as version:
                fields |= {"run": version.run, "phase": OF_VERSION, "version": version.version}
            case PendingLesson() as lesson:
                row = lesson.row
                fields |= {"run": row.run, "phase": row.phase, "batch": row.batch, "proposal": row.ended.proposal.id}
                fields["lesson_key"] = lesson.key
            case ToPark() as harmful:
                fields |= {"phase": OF_EVIDENCE, "experience": harmful.experience.id}
            case Withheld():
                raise AssertionError("the history of the library has such a decision")
        fields |= {"verdict": verdict, "who": who, "note": note, "at": at, "library": one.library}
        return LessonDecision(**(fields | more))

    def _rows(self, one: _Found, change: Change) -> list[EntryValue]:
        """The entries of the store that follow from a change which approved something of a run."""
        history = self.libraries.history(one.library)
        after = history.load(change.version)
        said: dict[str, Any] = {"who": change.who, "note": change.note, "at": change.at}
        more: dict[str, Any] = {}
        entries: list[EntryValue] = [LibraryEntry(library=after, at=change.at)]
        if isinstance(one.what, PendingLesson):
            before = held_lessons(history.load(change.before)) if change.before is not None else {}
            made = next((found for found in after.by_id if found not in before), None)
            more = {"version": change.version, "experience": made}
        for refused in change.operations:
            if isinstance(refused, RejectLesson):
                of = {"phase": LEFT_OUT, "lesson_key": refusal_key(refused.lesson), "experience": refused.target}
                row = self._row(one, "rejected", **said).model_copy(update=of)
                entries.append(DecisionEntry(decision=row))
        return [*entries, DecisionEntry(decision=self._row(one, "approved", **said, **more))]

    def _append(self, entries: Iterable[EntryValue]) -> None:
        """Write entries to the journal of the store, all or none."""
        assert self.store is not None, "only what a store holds is decided with rows"
        with closing(JournalFile(self.store)) as journal:
            journal.append([encode_entry(one) for one in entries])

    def _made(
        self,
        one: _Found | Item,
        verdict: DecisionKind,
        change: Change | None = None,
        *,
        note: str = "",
        problem: str = "",
    ) -> Decision:
        """A decision. change: what it did to the library."""
        said = {"item": one.id, "library": one.library, "verdict": verdict, "who": self.who, "problem": problem}
        if change is None:
            return Decision.model_validate({**said, "note": note, "at": datetime.now(UTC)})
        lessons = len(self.libraries.history(one.library).load(change.version))
        known = {"version": change.version, "replaced": change.before, "note": change.note, "at": change.at}
        return Decision.model_validate({**said, **known, "lessons": lessons})


def _run_of(what: PendingVersion | PendingLesson | Withheld | ToPark) -> RunId | None:
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


def _applied(one: PendingLesson, library: Library, text: str = "") -> tuple[Library, End]:
    """The library after a held lesson, by every rule but the one that held it. text: what it is to say instead."""
    proposal = one.row.ended.proposal
    operation = one.operation.model_copy(update={"lesson": text}) if text else one.operation
    context = CheckContext(
        options=one.options.model_copy(update={"change_written": True}),  # a person decides
        waived=frozenset({one.end.code}),
        strangers=one.end.strangers,
        by_person=bool(text),
        library=one.library,
    )
    after, (ended,) = next_version([proposal.model_copy(update={"operation": operation})], library, context)
    return after, ended.end


def _why_not(one: PendingLesson, end: End, library: Library) -> str:
    now = f"{one.library}@{library.version[:8]}" if len(library) else f"{one.library}, which is empty"
    identity = one.row.ended.proposal.id[:_ID]
    gone = [target for target in targets_of(one.operation) if target not in library.by_id]
    if gone:
        return f"the lesson {gone[0][:_ID]!r} that {identity!r} would replace is no longer in {now}"
    reason = end.reason if isinstance(end, Rejected | Quarantined) else "it is there already"
    return f"{identity!r} cannot be added to {now}: {reason}"


def _only(one: PendingVersion, new: Sequence[Experience], prefix: str) -> Experience:
    """The only lesson of a version that its run made and whose id starts with the prefix."""
    matching = [lesson for lesson in new if prefix and lesson.id.startswith(prefix)]
    if len(matching) != 1:
        listed = ", ".join(repr(lesson.id[:_ID]) for lesson in (matching or new)[:8]) or "none"
        found = f"have an id that starts with {prefix!r}" if prefix else "could be meant; name one"
        number = len(matching) if prefix else len(new)
        raise LibraryError(f"{number} new lessons of {one.reference} {found} (found: {listed})", code="unknown_lesson")
    return matching[0]


def _version_lessons(one: PendingVersion, reader: StoreReader, library: Library) -> Iterator[WaitingLesson]:
    """What a version changes in the one that its run started from. library: the current one."""
    whole, run_inputs = reader.library(one.version), reader.run_inputs(one.run)
    diff = LibraryDiff.of(EMPTY_LIBRARY if run_inputs is None else reader.library(run_inputs.library), whole)
    new = [*((edit.after, edit.before) for edit in diff.edited), *((lesson, ()) for lesson in diff.added)]
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
