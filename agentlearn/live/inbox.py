"""The inbox: everything that waits for a person, with what decides on it, and the decisions.

One decision at a time is made, under a lock that all processes share, and the thing is looked up again first. What
changes a library is one line of its history, which also says what was decided; the row of the store follows. Where a
crash came between the two, the next decision adds the row. The row goes to the store's journal, so that a person can
decide while a run holds the store.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from agentlearn.errors import ConfigError, LibraryError, StoreError, StoreMissing
from agentlearn.learning.evidence import ToPark
from agentlearn.learning.lessons.trust import (
    PendingLesson,
    PendingVersion,
    acceptance,
)
from agentlearn.library import LibraryStore
from agentlearn.library.curate.lesson_text import refusal_key
from agentlearn.library.history import MAIN, Change, History
from agentlearn.library.history.change_log import ParkLesson, RejectLesson, UnparkLesson, account_name
from agentlearn.library.history.hand_edits import HandEdits
from agentlearn.live.waiting import Found, Item, Seen, WaitingItems, applied, item_of, look, run_of, why_not
from agentlearn.store import StoreReader, read_store
from agentlearn.store.codec import DecisionEntry, EntryValue, LibraryEntry, encode_entry
from agentlearn.store.journal_file import JournalFile
from agentlearn.text import clock, storable
from agentlearn.text.files import own, write_whole
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, Withheld, held_lessons
from agentlearn.types.ids import LibraryVersion, ProposalId, RunId
from agentlearn.types.operation import (
    LEFT_OUT,
    OF_EVIDENCE,
    OF_VERSION,
    Applied,
    LessonDecision,
    Modify,
)
from agentlearn.types.value import Value

T = TypeVar("T")
DecisionKind = Literal["approved", "edited", "rejected", "later", "undone", "failed"]
"""What came of a decision. failed: nothing changed, and `problem` says why."""
_LATER_FILE = "later.json"
PATIENCE_S, _PAUSE_S = 20.0, 0.05
_ID = 12


class ReviewDecision(Value):
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
        self._undoable: tuple[Found, Change] | None = None

    def items(self, *, library: str | None = None, run: str | None = None) -> tuple[Item, ...]:
        """Return what waits, newest first; what was put off comes last.

        library: only what is for this library or domain. run: only what this run made; the start of its id is enough.
        """
        return self.waiting(library=library, run=run).items

    def waiting(
        self, reader: StoreReader | None = None, *, library: str | None = None, run: str | None = None
    ) -> WaitingItems:
        """Return what waits (as `items` does), what closed by itself, and the share approved of each source.

        reader: the store, where it is open already.
        """

        def shown(opened: StoreReader | None) -> WaitingItems:
            if run is not None and opened is None:
                raise StoreMissing(f"there is no store in {str(self.store)!r}, so no run {run!r}")
            wanted = None if run is None or opened is None else opened.run(run).run
            seen, put_off = look(self.libraries, opened), self._put_off()
            self._note(seen.found)
            items = [
                item_of(one, self.libraries, seen.main, opened).model_copy(update={"put_off": one.id in put_off})
                for one in seen.found
                if library in {None, one.library, getattr(one.what, "domain", None)}
                and wanted in {None, run_of(one.what)}
            ]
            items.sort(key=lambda one: (not one.put_off, one.since), reverse=True)
            closed = tuple(one for one in seen.closed if library in {None, one.library})
            return WaitingItems(items=tuple(items), closed=closed, acceptance=acceptance(opened, self.libraries))

        return self._read(shown, reader)

    def count(self, reader: StoreReader | None = None) -> int:
        """Return how many things wait: as many as `items` lists. reader: the store, where it is open already."""

        def counted(opened: StoreReader | None) -> int:
            found = look(self.libraries, opened).found
            self._note(found)
            return len(found)

        return self._read(counted, reader)

    def approve(
        self,
        item: Item | str,
        *,
        without: Collection[str] = (),
        words: Mapping[str, str] = {},
        accept: Collection[str] = (),
        note: str = "",
    ) -> ReviewDecision:
        """Publish a version, show a lesson, or park a lesson that the evidence calls harmful.

        without: starts of ids of new lessons of a version that are refused; the others are published. words: words of
        your own, by the start of the lesson's id; the lesson is yours then, and no run changes it. accept: codes of
        rules to set aside for a lesson that a library holds. What persons changed in the library meanwhile is kept.
        """
        own = {lesson: text.strip() for lesson, text in words.items()}
        if not all(own.values()):
            raise LibraryError("the new words of the lesson are empty; give some, or reject it", code="empty_lesson")
        return self._decide(item, partial(self._approve, note=note, without=without, accept=accept, words=own))

    def edit(self, item: Item | str, text: str, *, lesson: str = "", note: str = "") -> ReviewDecision:
        """Approve it with words of your own. The lesson is yours then, and no run changes it.

        lesson: which one, of a version with several: the start of its id.
        """
        return self.approve(item, words={lesson: text}, note=note)

    def reject(self, item: Item | str, reason: str = "") -> ReviewDecision:
        """Refuse it. Later runs refuse the same words of a lesson, and their reflector reads the reason.

        A refused version stays in the store. A lesson that the evidence calls harmful stays in the library.
        """
        return self._decide(item, partial(self._reject, note=storable(reason)))

    def later(self, item: Item | str) -> ReviewDecision:
        """Leave it as it is. It goes on waiting, and comes last from now on."""

        def put_off(one: Found, *_: object) -> ReviewDecision:
            known = [*(key for key in self._put_off() if key != one.id), one.id]
            content = json.dumps(known[-1_000:]).encode()
            write_whole(self.libraries.directory / _LATER_FILE, content, private=True)
            return self._made(one, "later")

        return self._decide(item, put_off)

    def approve_source(self, source: str, *, note: str = "") -> tuple[ReviewDecision, ...]:
        """Approve everything that waits from one source, as `Item.source` names it, each by itself.

        What cannot be approved goes on waiting; its decision has the verdict `failed` and says why.
        """
        wanted = [one for one in self.items() if one.source == source and one.kind != "rollback"]
        if not wanted:
            raise LibraryError(
                f"nothing that waits comes from {source!r}; `agentlearn review` shows the source of each thing",
                code="unknown_source",
            )
        made = list[ReviewDecision]()
        for one in wanted[::-1]:  # the oldest first, so that newer versions replace older ones
            try:
                made.append(self.approve(one, note=note))
            except LibraryError as error:
                made.append(self._made(one, "failed", note=note, problem=error.message))
        return tuple(made)

    def candidate(self, item: Item | str, *, lesson: str = "") -> Library:
        """The version that approving it would make, to try as a canary first. Nothing is decided by that.

        lesson: of a version with several new lessons, the only one to try: the start of its id. A canary judges what it
        brings as a whole, so a lesson that helps can hide one that harms. Raises LibraryError, code `not_applicable`,
        for what cannot be tried: a lesson of a file, or one to be parked.
        """

        def made(reader: StoreReader | None) -> Library:
            one = self._find(item, look(self.libraries, reader), reader)
            history = self.libraries.history(one.library)
            match one.what:
                case PendingVersion() as version if reader is not None:
                    found = _VersionOfRun.of(version, reader, history)
                    only = [_only(version, found.new, lesson)] if lesson else found.new
                    selected = found.without([new for new in found.new if new not in only])
                    return history.as_learned(selected, **found.joined)
                case PendingLesson() if not lesson:
                    return _added(one.what, self.libraries.load(one.library))
                case _:
                    what = "is no version with several lessons" if lesson else "cannot be tried on a share"
                    raise LibraryError(f"{one.id[:_ID]!r} {what}; approve or reject it", code="not_applicable")

        return self._read(made)

    @property
    def undoable(self) -> bool:
        """Whether `undo` has a decision to take back."""
        return self._undoable is not None

    def undo(self) -> ReviewDecision:
        """Take back the last decision of this inbox on a lesson that a library holds.

        Decisions on what a run left stay. Raises LibraryError where there is nothing to take back.
        """
        if self._undoable is None:
            raise LibraryError(
                "the last decision cannot be taken back here; `agentlearn library log NAME` shows the versions, and"
                " `library rollback NAME@VERSION` goes back to one"
            )
        (one, change), self._undoable = self._undoable, None
        with self.libraries.reviewing():
            history = self.libraries.history(one.library)
            if history.state.branches[MAIN] != change.version or change.before is None:
                raise LibraryError(f"library {history.name!r} has changed since; nothing was taken back")
            shown = tuple(UnparkLesson(target=one.target) for one in change.operations if isinstance(one, ParkLesson))
            note = f"took back: {change.kind}"
            done = history.rollback(change.before, who=self.who, note=note, operations=shown)
        return self._made(one, "undone", done)

    # What waits.

    def _read(self, act: Callable[[StoreReader | None], T], reader: StoreReader | None = None) -> T:
        """What a function returns that is given the open store, or None when there is none.

        Waits while another process has the store for a moment; the function is called again where that process ended
        before it had answered.
        """
        if reader is not None or self.store is None:
            return act(reader)
        ends = time.monotonic() + PATIENCE_S
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

    def _put_off(self) -> tuple[str, ...]:
        try:
            found: Any = json.loads(own(self.libraries.directory / _LATER_FILE, self.libraries.directory).read_bytes())
        except (OSError, ValueError):
            return ()
        return tuple(map(str, found)) if isinstance(found, list) else ()

    def _note(self, found: Iterable[Found]) -> None:
        self.libraries.note_waiting(sum(not isinstance(one.what, Withheld) for one in found))

    # Decisions.

    def _decide(self, item: Item | str, act: Callable[[Found, StoreReader | None], ReviewDecision]) -> ReviewDecision:
        """Find something that waits and decide on it, while nobody else can."""

        def decide(reader: StoreReader | None) -> ReviewDecision:
            seen = look(self.libraries, reader)
            for unfinished, change in seen.unfinished:
                self._append(self._rows(unfinished, change))
            one = self._find(item, seen, reader)
            made = act(one, reader)
            self._note(other for other in seen.found if other.id != one.id or made.verdict == "later")
            return made

        with self.libraries.reviewing():
            return self._read(decide)

    def _find(self, item: Item | str, seen: Seen, reader: StoreReader | None) -> Found:
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
                f"{len(matching)} things that wait match {name!r} (found: {listed}); give more of the one you mean"
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

    def _decided_before(self, name: str, seen: Seen, reader: StoreReader | None) -> str:
        """What was decided on something, in words; empty when nothing was."""
        library, _, prefix = name.rpartition("@")
        made = [(one.names, "approved", change.who, change.at) for one, change in seen.unfinished]
        for of in self.libraries.names():
            history = self.libraries.history(of)
            if library in {"", of} and prefix and str(history.state.current).startswith(prefix):
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
        one: Found,
        reader: StoreReader | None,
        *,
        note: str,
        without: Collection[str] = (),
        accept: Collection[str] = (),
        words: Mapping[str, str] = {},
    ) -> ReviewDecision:
        history, what, text = self.libraries.history(one.library), one.what, next(iter(words.values()), "")
        signed: dict[str, Any] = {"who": self.who, "note": note, "at": clock.now()}
        if without and not isinstance(what, PendingVersion):
            raise ConfigError(
                f"--without leaves lessons out of a version, and {one.id[:_ID]!r} is a lesson; approve or reject it"
            )
        match what:
            case Withheld():
                change = history.approve(what.experience.id, text, accept=accept, **signed)
            case ToPark() if text:
                change = history.edit(what.experience.id, text, accept=accept, **signed)
            case ToPark():
                change = history.park(what.experience.id, reason=what.reason, **signed)
            case PendingLesson():
                added = partial(_added, what, text=text)
                change = history.update(added, kind="approve", run=what.row.run, decided=one.id, **signed)
                assert change is not None, "an operation that was applied changes the library"
                self._append(self._rows(one, change))
            case PendingVersion():
                assert reader is not None, "versions come from the store"
                change = self._publish(what, reader, history, without, words, signed)
                self._append(self._rows(one, change))
        self._undoable = (one, change) if isinstance(what, Withheld | ToPark) else None
        return self._made(one, "edited" if text else "approved", change)

    def _publish(
        self,
        one: PendingVersion,
        reader: StoreReader,
        history: History,
        without: Collection[str],
        words: Mapping[str, str],
        signed: Mapping[str, Any],
    ) -> Change:
        """Make a version of a run the current one, with what persons changed in the library since the run started."""
        found = _VersionOfRun.of(one, reader, history)
        whole, new, refused = found.whole, found.new, [_only(one, found.new, prefix) for prefix in without]
        selected = found.without(refused)
        if refused and [made.id for made in selected.experiences] == [*found.start.by_id]:
            raise LibraryError(f"nothing of {one.reference} is left to publish; keep one of its lessons, or reject it")
        operations: tuple[Any, ...] = tuple(RejectLesson(target=made.id, lesson=made.lesson) for made in refused)
        for lesson, text in words.items():
            chosen = _only(one, new, lesson) if lesson or len(new) != 1 else new[0]
            edited = HandEdits(selected, one.reference, HandEdits.checked(library=one.library)).edit(chosen.id, text)
            selected, operations = edited.library, (*operations, *edited.operations)
        if selected is not whole:  # what lies between is not stored
            selected = whole.next(selected.experiences, selected.withheld)
        before = len(history.changes)
        history.publish_learned(
            selected,
            **found.joined,
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

    def _reject(self, one: Found, _reader: StoreReader | None, *, note: str) -> ReviewDecision:
        self._undoable, made = None, self._made(one, "rejected", note=note)
        if isinstance(one.what, Withheld):
            change = self.libraries.history(one.library).reject(one.what.experience.id, who=self.who, note=note)
            self._undoable = (one, change)
            return self._made(one, "rejected", change)
        self._append([DecisionEntry(decision=self._row(one, "rejected", self.who, note, made.at))])
        return made

    def _row(
        self, one: Found, verdict: Literal["approved", "rejected"], who: str, note: str, at: datetime, **more: Any
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

    def _rows(self, one: Found, change: Change) -> list[EntryValue]:
        """The entries of the store that follow from a change which approved something of a run."""
        history = self.libraries.history(one.library)
        after = history.stored(change.version)
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
        one: Found | Item,
        verdict: DecisionKind,
        change: Change | None = None,
        *,
        note: str = "",
        problem: str = "",
    ) -> ReviewDecision:
        """A decision. change: what it did to the library."""
        said = {"item": one.id, "library": one.library, "verdict": verdict, "who": self.who, "problem": problem}
        if change is None:
            return ReviewDecision.model_validate({**said, "note": note, "at": clock.now()})
        lessons = len(self.libraries.history(one.library).load(change.version))
        known = {"version": change.version, "replaced": change.before, "note": change.note, "at": change.at}
        return ReviewDecision.model_validate({**said, **known, "lessons": lessons})


@dataclass(frozen=True, slots=True)
class _VersionOfRun:
    """A version that waits, as it would be published."""

    whole: Library
    start: Library
    """The version that its run started from."""
    joined: Mapping[str, Any]
    """What `History.publish_learned` needs to join it with what was decided meanwhile."""

    @classmethod
    def of(cls, one: PendingVersion, reader: StoreReader, history: History) -> Self:
        """Read it from the store."""
        whole, inputs = history.not_shown().applied(reader.library(one.version)), reader.run_inputs(one.run)
        start = EMPTY_LIBRARY if inputs is None else reader.library(inputs.library)
        since = reader.run(one.run).started_at
        return cls(whole, start, {"start": whole if inputs is None else start, "since": since, "versions": (whole,)})

    @property
    def new(self) -> list[Experience]:
        """The lessons that its run made."""
        return [one for one in self.whole.experiences if one.id not in self.start.by_id]

    def without(self, refused: Collection[Experience]) -> Library:
        """The version without some of its lessons."""
        kept = tuple(one for one in self.whole.experiences if one not in refused)
        return self.whole.next(kept) if refused else self.whole


def _only(one: PendingVersion, new: Sequence[Experience], prefix: str) -> Experience:
    """The only lesson of a version that its run made and whose id starts with the prefix."""
    matching = [lesson for lesson in new if prefix and lesson.id.startswith(prefix)]
    if len(matching) != 1:
        listed = ", ".join(repr(lesson.id[:_ID]) for lesson in (matching or new)[:8]) or "none"
        found = f"have an id that starts with {prefix!r}" if prefix else "could be meant; name one"
        number = len(matching) if prefix else len(new)
        raise LibraryError(f"{number} new lessons of {one.reference} {found} (found: {listed})", code="unknown_lesson")
    return matching[0]


def _added(one: PendingLesson, current: Library, *, text: str = "") -> Library:
    """A library with a lesson that waits, perhaps in other words. Raises LibraryError where it no longer applies."""
    after, end = applied(one, current, text)
    if not isinstance(end, Applied):
        raise LibraryError(why_not(one, end, current), code="not_applicable")
    return after
