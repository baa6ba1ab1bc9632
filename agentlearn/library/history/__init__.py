"""`History`: the changes of one library, its branches, and everything that can be asked of them or done."""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agentlearn.errors import LibraryError
from agentlearn.library.history.canary import DEFAULT_MARGIN, Canary, running_canary
from agentlearn.library.history.change_log import (
    MAIN,
    STILL,
    ApproveLesson,
    Change,
    ChangeKind,
    ChangeLog,
    HeadEntry,
    HistoryOperation,
    LibraryState,
    LogWriter,
    ParkLesson,
    RejectLesson,
    VersionFiles,
    account_name,
    checked_name,
    is_version_prefix,
    parked_by,
)
from agentlearn.library.policy import Policy
from agentlearn.library.shown import RESTS_ON_ERASED, NotShown
from agentlearn.text import clock, storable
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, held_lessons
from agentlearn.types.ids import ExperienceId, LibraryVersion
from agentlearn.types.value import Author

if TYPE_CHECKING:  # applications that use lessons do not change them
    from agentlearn.config.options import LessonOptions
    from agentlearn.library.history.hand_edits import HandEdit, HandEdits, LibraryDiff
    from agentlearn.library.history.three_way import BlamedLesson

_OF_RUNS = frozenset({"add", "modify", "merge"})
"""How runs make lessons."""
_TAKING_BACK = frozenset[ChangeKind]({"rollback", "edit", "remove"})
"""Changes with which a person takes something back."""


class History:
    """The history of one library of a store.

    directory: the folder of all libraries. name: the library, which need not exist yet. Every method reads the files
    again, so several processes can use one library. References are `X` of `NAME@X`: a branch or the start of a version;
    None means what the library's name means. Methods that change something take a branch, who did it (default: this
    account), a note, and the time (default: now), and return the change.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.name = checked_name(name)
        self._files = VersionFiles(directory, name)
        self._log = ChangeLog(directory / name)
        self.folder = directory / name

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, oldest first; none for a library that does not exist."""
        return self._log.read().changes

    @property
    def tip(self) -> str:
        """Hash of the last line of the log. Keep it to tell later whether a line up to it was changed."""
        return self._log.read().tip

    @property
    def state(self) -> LibraryState:
        """What the names of the library mean now."""
        return self._log.read().state

    @property
    def heads(self) -> tuple[HeadEntry, ...]:
        """Each version that the library's name came to mean, with the time, oldest first."""
        lines = (line.split(" ", 1) for line in self._log.read().head.decode().splitlines())
        return tuple((LibraryVersion(version), datetime.fromisoformat(at)) for version, at in lines)

    @property
    def exists(self) -> bool:
        """Whether the library has a version."""
        return self._log.exists()

    @property
    def policy(self) -> Policy:
        """Who decides about lessons that wait. Raises LibraryError."""
        return Policy.of(self.folder)

    def refuse_lone_approval(self) -> None:
        """Raise LibraryError where the policy leaves the approval of lessons to a vote."""
        if (policy := self.policy).votes:
            propose = f"agentlearn library propose {self.name}"
            raise LibraryError(f"{policy.space!r} votes on lessons of {self.name!r}; run: {propose}", code="needs_vote")

    def versions(self) -> tuple[LibraryVersion, ...]:
        """Every version that has a file, sorted."""
        return self._files.listed()

    def resolve(self, reference: str | None = None) -> LibraryVersion:
        """Return the version that a reference means. Raises LibraryError."""
        return self._resolved(self.state, reference)

    def load(self, reference: str | None = None) -> Library:
        """Return the library of a reference as agents may see it. Raises LibraryError.

        Lessons that may not be shown, see `NotShown`, are withheld in it, and a warning says so.
        """
        state = self.state
        library, rule = self._opened(state, self._resolved(state, reference))
        if any(why == RESTS_ON_ERASED and one not in state.parked for one, why in rule.left_out(library).items()):
            with suppress(LibraryError):  # `store forget` was killed before it did it; a reader may not be able to
                self.park_erased(who="")
        return rule.applied(library, self._named(reference))

    def _opened(self, state: LibraryState, version: LibraryVersion) -> tuple[Library, NotShown]:
        """A version as it was published, and what no version shows. Raises LibraryError."""
        (_, main), (_, library) = self._files.several((state.branches.get(MAIN, version), version))
        if isinstance(library, LibraryError):
            raise library
        return library, NotShown.of(self._files.directory, state.parked, main)

    def stored(self, reference: str | None = None) -> Library:
        """Return the library of a reference as it was published, for what looks back. Raises LibraryError."""
        return self._files.load(self.resolve(reference))

    def load_each(self, versions: Iterable[LibraryVersion]) -> Iterator[tuple[LibraryVersion, Library | LibraryError]]:
        """Yield these versions in their order, as they were published, or why one cannot be read."""
        return self._files.several(versions)

    def not_shown(self) -> NotShown:
        """Return the lessons that no version shows. Raises LibraryError."""
        main = self.state.branches.get(MAIN)
        return self._opened(self.state, main)[1] if main else NotShown.of(self._files.directory, {})

    def branch_of(self, reference: str | None) -> str:
        """Return the branch that a reference names; `main` for None.

        Raises LibraryError for a version, which never changes.
        """
        if reference is None or reference == MAIN or reference in self.state.branches:
            return reference or MAIN
        version = self.resolve(reference)
        raise LibraryError(
            f"{self.name}@{reference} never changes; make a branch from it first: agentlearn library branch"
            f" {self.name}@{version[:12]} NEW-NAME"
        )

    def refused_words(self, before: datetime | None = None) -> frozenset[str]:
        """Lessons that persons refused, as `refusal_key` returns them. before: only those of changes before a time."""
        from agentlearn.library.curate.lesson_text import refusal_key

        decided = (one for _, one in self.decisions(before))
        return frozenset(refusal_key(one.lesson) for one in decided if isinstance(one, RejectLesson))

    def refused_strangers(self, before: datetime | None = None) -> frozenset[Author]:
        """The strangers behind the waiting lessons that persons refused. before: only those refused before a time."""
        known, found = dict[ExperienceId, Experience](), set[Author]()
        for change, one in self.decisions(before):
            if isinstance(one, ApproveLesson):
                continue
            if one.target not in known and change.before is not None:
                with suppress(LibraryError):  # a damaged version names nobody
                    known |= {key: held for key, (held, _) in held_lessons(self._files.load(change.before)).items()}
            found.update(known[one.target].origin.strangers if one.target in known else ())
        return frozenset(found)

    def decisions(self, before: datetime | None = None) -> list[tuple[Change, ApproveLesson | RejectLesson]]:
        """Return what persons decided on waiting lessons, without what a rollback took back, until a time."""
        found = list[tuple[Change, ApproveLesson | RejectLesson]]()
        for change in self.changes:
            if before is not None and change.at >= before:
                continue
            if change.kind == "rollback" and found:
                with suppress(LibraryError):  # a damaged version takes nothing back
                    again = held_lessons(self._files.load(change.version))
                    held = {key: status for key, (_, status) in again.items()}
                    stays = [held.get(one.target) == "shown" if one.op == "approve" else one.target not in held
                             for _, one in found]  # fmt: skip
                    found = [one for one, kept in zip(found, stays, strict=True) if kept]
            found += [(change, one) for one in change.operations if isinstance(one, ApproveLesson | RejectLesson)]
        return found

    def diff(self, before: str | None = None, after: str | None = None) -> "LibraryDiff":
        """Return what changed between two references. before: None for the version before `after`."""
        from agentlearn.library.history.hand_edits import LibraryDiff

        later = self.stored(after)
        if before is not None:
            return LibraryDiff.of(self.stored(before), later)
        changes = self.changes
        found = next((one.before for one in reversed(changes) if one.moves and one.version == later.version), None)
        earlier = self._files.load(found) if found else EMPTY_LIBRARY
        return LibraryDiff.of(earlier, later)

    def blame(self, lesson: str, reference: str | None = None) -> "tuple[BlamedLesson, ...]":
        """Return a lesson and all that it goes back to, each with the changes that brought and removed it.

        lesson: the start of its id. reference: where to look; lessons of any other version are found too. Raises
        LibraryError.
        """
        from agentlearn.library.history.hand_edits import HandEdits
        from agentlearn.library.history.three_way import Ancestry

        library, ancestry = self.load(reference), Ancestry.in_store(self._files.directory, self.name)
        here = any(one.startswith(lesson) for one in held_lessons(library))
        elsewhere = [one for one in ancestry.experiences if lesson and one.startswith(lesson)]
        found_elsewhere = not here and len(elsewhere) == 1
        identity = elsewhere[0] if found_elsewhere else HandEdits(library, self._named(reference)).find(lesson)
        return ancestry.blame(identity, self.changes)

    def add(self, lesson: str, *, tags: Sequence[str] = (), **how: Any) -> Change:
        """Add a lesson at the end. accept: codes of rules to set aside. options: limits on the library."""
        return self._edit("add", lambda edits: edits.add(lesson, tuple(tags)), create=True, **how)

    def edit(self, lesson: str, words: str, *, tags: Sequence[str] = (), **how: Any) -> Change:
        """Replace the words of a lesson, given by the start of its id. The result is a new lesson in its place.

        accept: codes of rules to set aside. options: limits on the library.
        """
        return self._edit("edit", lambda edits: edits.edit(lesson, words, tuple(tags)), **how)

    def remove(self, lesson: str, **how: Any) -> Change:
        """Remove a lesson, shown or withheld. Older versions keep it."""
        return self._edit("remove", lambda edits: edits.remove(lesson), **how)

    def park(self, lesson: str, *others: str, reason: str = "", **how: Any) -> Change:
        """Keep lessons without showing them to agents, in one change."""
        return self._edit("park", lambda edits: edits.park((lesson, *others), storable(reason)), **how)

    def park_erased(self, again: Collection[ExperienceId] = (), **signed: Any) -> None:
        """Log that no version shows the lessons that rest on erased records, and end a canary that does.

        What the log says already stays as it is. again: lessons to park also where a person has shown them again.
        """
        with self._writing() as writer:
            running, state = running_canary(writer.logged.changes), writer.logged.state
            rule = NotShown.of(self._files.directory, {})
            held = (rule.left_out(one) for _, one in self.load_each(self.versions()) if isinstance(one, Library))
            logged = {one for one, why in state.parked.items() if why is not None or one not in again}
            if not (lessons := frozenset[ExperienceId]().union(*held) - logged):
                return
            if running is not None and self._files.load(running.version).by_id.keys() & lessons:
                ended: dict[str, Any] = {**signed, "note": "it shows lessons that rest on erased records"}
                self._append(writer, "end_canary", running.version, MAIN, **ended)
            operations = tuple(ParkLesson(target=one, reason=RESTS_ON_ERASED) for one in sorted(lessons))
            self._append(writer, "park", state.branches[MAIN], MAIN, operations=operations, **signed)

    def unpark(self, lesson: str, **how: Any) -> Change:
        """Show a parked lesson again, after the same check as for a new one. accept: codes of rules to set aside."""
        return self._edit("unpark", lambda edits: edits.show(lesson, "parked"), **how)

    def approve(self, lesson: str, words: str = "", **how: Any) -> Change:
        """Show a lesson that waits for a person, after the same check as for a new one.

        words: what it is to say instead. accept: codes of rules to set aside. receipt: a vote accepted it, which the
            policy of the library may demand.
        """
        return self._edit("approve", lambda edits: edits.show(lesson, "pending", words), **how)

    def reject(self, lesson: str, **how: Any) -> Change:
        """Refuse a lesson that waits for a person. It leaves the library, and its words are refused later."""
        return self._edit("reject", lambda edits: edits.reject(lesson), **how)

    def publish(
        self,
        library: Library,
        *,
        kind: ChangeKind = "publish",
        base: LibraryVersion | None = None,
        operations: Sequence[HistoryOperation] = (),
        run: str = "",
        branch: str = MAIN,
        **signed: Any,
    ) -> Change | None:
        """Make a library the current version of a branch; None when it is already.

        kind: what made it. base: the version that a run started from. operations: what was done to single lessons.
        """
        with self._writing() as writer:
            state = writer.logged.state
            branch = branch if branch == MAIN else self._known(state, branch)
            self._files.save(library, state.branches.get(branch))
            if state.branches.get(branch) == library.version:
                return None
            return self._append(
                writer, kind, library.version, branch, base=base, operations=tuple(operations), run=run, **signed
            )

    def publish_learned(
        self,
        selected: Library,
        *,
        start: Library,
        since: datetime,
        versions: Iterable[Library] = (),
        kind: ChangeKind = "learn",
        **signed: Any,
    ) -> Library:
        """Make the version that a run selected the current one of `main`, and return the version that is current then.

        What persons and canaries changed on `main` after the run had started is joined into it: lessons that were
        written, edited, imported, approved, promoted, parked or removed. Such a version is made from both. start: the
        version that the run started from. since: when it started. versions: those that it made, which have no file.
        """
        with self._writing() as writer:
            head = writer.logged.state.branches.get(MAIN)
            library = self._learned(writer.logged.changes, selected, start, since, versions)
            self._files.save(library, head)
            if head != library.version:
                self._files.save(selected, head)
                made = self._append(writer, kind, library.version, MAIN, base=start.version, **signed)
                return self._files.load(made.version)
            return library

    def as_learned(
        self, selected: Library, *, start: Library, since: datetime, versions: Iterable[Library] = ()
    ) -> Library:
        """The version that `publish_learned` would make the current one. Nothing is stored."""
        return self._learned(self.changes, selected, start, since, versions)

    def _learned(
        self,
        changes: Sequence[Change],
        selected: Library,
        start: Library,
        since: datetime,
        versions: Iterable[Library],
    ) -> Library:
        head = LibraryState.of(changes).branches.get(MAIN)
        if head is None:
            return selected
        began = LibraryState.of(one for one in changes if one.at < since).branches.get(MAIN)
        decided = set[ExperienceId]()
        for one in changes:
            if one.kind in {"approve", "promote"} and one.at >= since:
                before = self._files.load(one.before).by_id if one.before is not None else {}
                decided |= self._files.load(one.version).by_id.keys() - before.keys()
        return self._joined_with_persons(selected, start, head, began, versions, decided)

    def _joined_with_persons(
        self,
        selected: Library,
        start: Library,
        head: LibraryVersion,
        began: LibraryVersion | None,
        versions: Iterable[Library],
        decided: Collection[ExperienceId],
    ) -> Library:
        """What a run selected, with what persons changed on `main` meanwhile. began: `main` when the run started.

        decided: lessons of runs that a person approved, or a canary brought, meanwhile.
        """
        from agentlearn.library.history.three_way import Ancestry

        ours, base = self._files.load(head), self._files.load(began) if began else EMPTY_LIBRARY
        unseen = {one.id for one in base.written if one.id not in held_lessons(start)}
        if head == began and (not unseen or selected.document):
            return selected
        new = (one for one in ours.experiences if one.id not in base.by_id and one.id not in decided)
        learned = {one.id for one in new if one.origin.kind in _OF_RUNS}
        sides: list[Library] = []
        for library, left_out in ((ours, learned), (base, unseen)):
            kept = tuple(one for one in library.experiences if one.id not in left_out)
            rest = Library(
                parent=library.parent,
                joined=library.joined,
                experiences=kept,
                withheld=library.withheld,
                document=library.document,
                files=library.files,
            )
            sides.append(rest if left_out else library)
        ancestry = Ancestry.in_store(self._files.directory, self.name, (*versions, selected, start, sides[0]))
        joined = ancestry.join(sides[0], selected, sides[1])
        if held_lessons(joined) == held_lessons(selected):
            return selected
        return selected.next(joined.experiences, joined.withheld, joined=head)

    def update(
        self,
        change: Callable[[Library], Library],
        *,
        kind: ChangeKind,
        copied: Callable[[], Mapping[ExperienceId, Collection[ExperienceId]]] = dict,
        files: Iterable[bytes] = (),
        branch: str = MAIN,
        **signed: Any,
    ) -> Change | None:
        """Make what a function returns the current version of a branch; None when it returns what it was given.

        change: gets the version that is current while nobody else can write; the empty library where there is none.
        copied: called after it; returns the lessons of this store that lessons of the new version were copied from.
        files: the bytes of the files that the new version names and that may not be stored yet.
        """
        with self._writing() as writer:
            before = self._current(writer.logged.state, branch, create=True)
            after = change(before)
            if after.version == before.version:
                return None
            self._files.keep(files)
            self._files.save(after)
            sources = {one: tuple(sorted(found)) for one, found in sorted(copied().items())}
            return self._append(writer, kind, after.version, branch, copied=sources, **signed)

    def rollback(self, to: str, *, branch: str = MAIN, **signed: Any) -> Change:
        """Make an older version the current one of a branch again. Nothing is removed."""
        with self._writing() as writer:
            state = writer.logged.state
            version = self._resolved(state, to)
            self._files.load(version)
            if state.branches.get(branch) == version:
                raise LibraryError(
                    f"{self._named(branch)} is version {version[:12]!r} already; `agentlearn library log {self.name}`"
                    " lists the others",
                    code="no_change",
                )
            return self._append(writer, "rollback", version, self._known(state, branch), **signed)

    def branch(self, name: str, *, reference: str | None = None, **signed: Any) -> Change:
        """Make a branch that begins with the version of a reference."""
        checked_name(name, "branch")
        with self._writing() as writer:
            state = writer.logged.state
            if name in state.branches or name == MAIN:
                raise LibraryError(
                    f"library {self.name!r} has {name!r} already; `agentlearn library log {self.name}` lists its"
                    " branches, choose another name"
                )
            return self._append(writer, "branch", self._resolved(state, reference), name, **signed)

    @property
    def canary(self) -> Canary | None:
        """The canary that runs; None when none does."""
        return running_canary(self.changes)

    def still_read(self, version: LibraryVersion) -> bool:
        """Whether a conversation that began with a version may go on reading it.

        It may while the version is the current one, has only been followed by others, or is the canary. What a person
        takes back, by a rollback, an edit or a removal, reaches every conversation at once.
        """
        moves = [one for one in self.changes if one.branch == MAIN and one.kind not in STILL]
        places = [place for place, one in enumerate(moves) if one.version == version]
        if places:
            return not any(one.kind in _TAKING_BACK for one in moves[places[-1] + 1 :])
        return (running := self.canary) is not None and running.version == version

    def start_canary(self, library: Library, *, share: float, margin: float | None = None, **signed: Any) -> Change:
        """Let a share of episodes read this version, or change the share of the canary that runs.

        A version that waits for a person can be given too: `who` has then decided that a share of episodes reads it.
        share: above 0 and at most 1/2. margin: in reward, 0 to 1; it stays as long as the canary runs; None: that of
        the canary that runs, else `DEFAULT_MARGIN`. signed: `who`, `note`, `at`; and `feedback_days`, how many days an
        episode without feedback is waited for, which stays too; None: as long as feedback is seen to take. Raises
        LibraryError while another version is the canary, and for the current version.
        """
        with self._writing() as writer:
            running, state, refusal = running_canary(writer.logged.changes), writer.logged.state, ""
            current, rule = self._opened(state, self._resolved(state, None))
            library = rule.applied(library)
            version = library.version
            if margin is None:
                margin = DEFAULT_MARGIN if running is None else running.margin
            if library.experiences == current.experiences:
                refusal = f"shows the lessons of {version[:12]!r} already; a canary is another version"
            elif running is not None and running.version != version:
                refusal = (
                    f"has the canary {running.version[:12]!r} since {running.since:%Y-%m-%d %H:%M}; end it first:"
                    f" agentlearn library canary {self.name} --stop"
                )
            elif running is not None and running.margin != margin:
                refusal = f"has this canary with the margin {running.margin:g}, which stays as long as the canary runs"
            elif running is not None and signed.get("feedback_days") not in (None, running.feedback_days):
                refusal = "has this canary already; how long it waits for feedback stays as long as it runs"
            elif running is not None and running.share == share:
                refusal = f"has this canary with the share {share:g} already"
            if refusal:
                raise LibraryError(f"library {self.name!r} {refusal}")
            if version not in self.versions():
                self.refuse_lone_approval()
            self._files.save(library)
            return self._append(writer, "canary", version, MAIN, share=share, margin=margin, **signed)

    def end_canary(
        self, canary: Canary | None = None, *, promote: bool = False, figures: Mapping[str, float] = {}, **signed: Any
    ) -> Change:
        """End the canary that runs. promote: make its version the current one, in the same change.

        canary: the one that was decided on; None: any. figures: what a decision by rule rests on. Raises LibraryError,
        code `no_canary`, where no canary runs or another one than that.
        """
        with self._writing() as writer:
            running = running_canary(writer.logged.changes)
            if running is None or (canary is not None and running.started != canary.started):
                raise LibraryError(
                    f"library {self.name!r} has {'no' if running is None else 'another'} canary now;"
                    f" agentlearn library canary {self.name} shows it",
                    code="no_canary",
                )
            self._files.load(running.version)
            decided = {"decided": running.version} if promote else {}
            kind: ChangeKind = "promote" if promote else "end_canary"
            return self._append(writer, kind, running.version, MAIN, figures=dict(figures), **decided, **signed)

    def _edit(
        self,
        kind: ChangeKind,
        edit: "Callable[[HandEdits], HandEdit]",
        *,
        accept: Collection[str] = (),
        options: "LessonOptions | None" = None,
        branch: str = MAIN,
        create: bool = False,
        **signed: Any,
    ) -> Change:
        """Apply an operation to the current version of a branch. create: make the library if it does not exist."""
        from agentlearn.library.history.hand_edits import HandEdits

        context, where = HandEdits.checked(accept, options, self.refused_words(), self.name), self._named(branch)
        if not self.exists:
            if not create:
                self._refuse_unknown()
            edit(HandEdits(EMPTY_LIBRARY, where, context))  # a refused lesson leaves no folder behind
        with self._writing() as writer:
            library = self._current(writer.logged.state, branch, create=create)
            after, operations = edit(HandEdits(library, where, context))
            self._files.save(after)
            accepted = tuple(sorted(set(accept)))
            return self._append(writer, kind, after.version, branch, operations=operations, accepted=accepted, **signed)

    def _current(self, state: LibraryState, branch: str, *, create: bool) -> Library:
        """The current version of a branch. create: the empty library where `main` has none."""
        if create and branch == MAIN and MAIN not in state.branches:
            return EMPTY_LIBRARY
        stored, rule = self._opened(state, state.branches[self._known(state, branch)])
        library = rule.applied(stored)
        self._files.save(library)
        return library

    @contextmanager
    def _writing(self) -> Generator[LogWriter]:
        try:
            with self._log.writing() as writer:
                yield writer
        except OSError as error:
            raise LibraryError(f"library {self.name!r} could not be changed: {error}", code="not_written") from error

    def _append(
        self,
        writer: LogWriter,
        kind: ChangeKind,
        version: LibraryVersion,
        branch: str,
        *,
        who: str | None = None,
        note: str = "",
        at: datetime | None = None,
        receipt: bool = False,
        **fields: Any,
    ) -> Change:
        if kind == "approve" and not receipt:
            self.refuse_lone_approval()
        state = writer.logged.state
        if branch == MAIN and kind not in STILL:  # only `unpark` shows a parked lesson again
            parked = state.parked | parked_by(fields.get("operations", ()))
            library = NotShown.of(self._files.directory, parked).applied(self._files.load(version))
            self._files.save(library)
            version = library.version
        return writer.append(
            kind=kind,
            version=version,
            branch=branch,
            before=state.current if kind in STILL else state.branches.get(branch),
            who=storable(account_name() if who is None else who),
            note=storable(note),
            at=at or clock.now(),
            **fields,
        )

    def _known(self, state: LibraryState, branch: str) -> str:
        if branch in state.branches:
            return branch
        if not state.branches:
            self._refuse_unknown()
        found = ", ".join(map(repr, sorted(state.branches)))
        raise LibraryError(
            f"library {self.name!r} has no branch {branch!r} (found: {found}); make it with: agentlearn library branch"
            f" {self.name} {branch}",
            code="unknown_version",
        )

    def _refuse_unknown(self) -> NoReturn:
        from agentlearn.library.store import LibraryStore  # here: it imports this module

        raise LibraryStore(self.folder.parent).unknown(self.name)

    def _resolved(self, state: LibraryState, reference: str | None) -> LibraryVersion:
        if reference is None:
            if state.current is None:
                self._refuse_unknown()
            return state.current or EMPTY_LIBRARY.version
        if reference in state.branches:
            return state.branches[reference]
        versions = self.versions()
        matching = [one for one in versions if is_version_prefix(reference) and one.startswith(reference)]
        if len(matching) == 1:
            return matching[0]
        wrong = f"{len(matching)} versions" if matching else "no version"
        named = [] if matching else [one for one in state.branches if one != MAIN]
        found = ", ".join(map(repr, [*named, *(one[:8] for one in matching or versions)]))
        raise LibraryError(
            f"library {self.name!r} has {wrong} starting with {reference!r} (found: {found or 'none'})",
            code="unknown_version",
        )

    def _named(self, reference: str | None) -> str:
        return self.name if reference in {None, MAIN} else f"{self.name}@{reference}"
