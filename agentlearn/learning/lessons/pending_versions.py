"""Versions that a run left pending: which of them wait for a person, and what a decision does.

The report of the run says that its version is pending. A decision is a row of the store; it also counts for the same
version of every other run that had ended before it.

Decisions are rows of the store. An approval applies the operation to the library as it is now, by the same rules; only
the doubt that the lesson was held for does not count. A rejection also refuses the same lesson in later runs.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agentlearn.config.options import LessonOptions
from agentlearn.errors import ConfigError, LibraryError
from agentlearn.learning.report import LessonWorth
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.curate.operations import lesson_of, targets_of
from agentlearn.library.curate.similarity import refusal_key
from agentlearn.store import ProposalRow, RunRow, Store, StoreReader
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library
from agentlearn.types.ids import LibraryVersion, ProposalId, RunId
from agentlearn.types.operation import OF_VERSION, Applied, LessonDecision, Operation, Quarantined, Rejected


@dataclass(frozen=True, slots=True)
class PendingLesson:
    """A quarantined lesson that nobody has decided on."""

    row: ProposalRow
    operation: Operation
    end: Quarantined
    domain: str
    library: str
    """Name of the library that the run learned."""
    options: LessonOptions
    """The run's limits on the library."""

    @property
    def lesson(self) -> str:
        """Its text."""
        return lesson_of(self.operation)

    @property
    def key(self) -> str:
        """Its words in lower case."""
        return refusal_key(self.lesson)

    def why_not(self, end: object, library: Library) -> str:
        now = f"{self.library}@{library.version[:8]}" if len(library) else f"{self.library}, which is empty"
        gone = [target for target in targets_of(self.operation) if target not in library.by_id]
        if gone:
            return (
                f"the lesson {gone[0][:12]!r} that {self.row.ended.proposal.id[:12]!r} would replace is no longer in"
                f" {now}; reject it, and learn again if it is still wanted"
            )
        reason = end.reason if isinstance(end, Rejected | Quarantined) else "it is there already"
        return f"{self.row.ended.proposal.id[:12]!r} cannot be added to {now}: {reason}"


@dataclass(frozen=True, slots=True)
class Approved:
    """What an approval did."""

    decision: LessonDecision
    library: Library
    """The published version."""
    replaced: LibraryVersion | None = None
    """The version that the name stood for before an approved version; None when there was none."""


def pending_lessons(reader: StoreReader, *, domain: str | None = None, run: str | None = None) -> list[PendingLesson]:
    """The lessons that wait for a person, each once, those of the newest run first.

    domain: only those of this domain or library. run: only those of the run whose id starts with it. Raises ConfigError
    for an unknown run.
    """
    wanted = reader.run(run).run if run is not None else None
    decisions = [one for one in reader.decisions() if not one.of_version]
    decided = [(one.library, one.lesson_key) for one in decisions]
    rejected = {one.lesson_key for one in decisions if one.verdict == "rejected"}
    runs: dict[str, RunRow] = {}
    found: dict[tuple[str, str], PendingLesson] = {}
    for row in reader.quarantined():
        operation, end = row.ended.proposal.operation, row.ended.end
        if operation is None or not isinstance(end, Quarantined) or wanted not in {None, row.run}:
            continue
        of = runs.setdefault(row.run, runs.get(row.run) or reader.run(row.run))
        settings: dict[str, Any] = json.loads(of.settings)
        limits = {name: settings[name] for name in LessonOptions.model_fields if name in settings}
        name = str(settings.get("name") or of.domain)
        one = PendingLesson(row, operation, end, of.domain, name, LessonOptions(**limits))
        key = (one.library, one.key)
        if key not in decided and one.key not in rejected and domain in {None, one.domain, one.library}:
            found.setdefault(key, one)
    return list(found.values())


def refused_lessons(reader: StoreReader, *, before: datetime) -> frozenset[str]:
    """The lessons that persons refused before a time, as `refusal_key` returns them.

    A run asks for its start, so that a resumed run checks the same proposals in the same way.
    """
    decisions = (one for one in reader.decisions() if not one.of_version and one.at < before)
    return frozenset(one.lesson_key for one in decisions if one.verdict == "rejected")


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """A version that a run selected and did not publish, and that nobody has decided on."""

    run: RunId
    at: datetime
    """When the run ended."""
    domain: str
    library: str
    """Name under which the run would have published it."""
    version: LibraryVersion
    lessons: int
    """Number of lessons."""
    reason: str
    """Why it was not published."""
    alone: tuple[LessonWorth, ...] = ()
    """What lessons of it are worth by themselves that strangers could have shaped, as far as the run measured it."""

    @property
    def reference(self) -> str:
        """What `library approve` takes."""
        return f"{self.library}@{self.version[:12]}"

    def new_lesson(self, whole: Library, start: Library, prefix: str) -> Experience:
        """The only lesson of a version that its run made and whose id starts with the prefix."""
        new = [lesson for lesson in whole.experiences if lesson.id not in start.by_id]
        matching = [lesson for lesson in new if prefix and lesson.id.startswith(prefix)]
        if len(matching) != 1:
            listed = ", ".join(repr(lesson.id[:12]) for lesson in (matching or new)[:8]) or "none"
            raise LibraryError(
                f"{len(matching)} new lessons of {self.reference} have an id that starts with {prefix!r} (found:"
                f" {listed})",
                code="unknown_lesson",
            )
        return matching[0]


def pending_versions(
    reader: StoreReader, published: LibraryStore, *, domain: str | None = None, run: str | None = None
) -> list[PendingVersion]:
    """The versions that wait for a person, each once, those of the newest run first.

    domain: only those of this domain or library. run: only those of the run whose id starts with it. Raises ConfigError
    for an unknown run.
    """
    runs = reader.runs(limit=1_000_000) if run is None else [reader.run(run)]
    current = {one.name: one.version for one in published.list()}
    decisions = [one for one in reader.decisions() if one.of_version]
    found: dict[tuple[str, str], PendingVersion] = {}
    for row in runs:
        if row.kind != "learn" or not row.report or '"pending"' not in row.report:
            continue
        report: dict[str, Any] = json.loads(row.report)
        selection = report.get("selection") or {}
        if selection.get("status") != "pending":
            continue
        one = PendingVersion(
            run=row.run,
            at=row.at,
            domain=row.domain,
            library=str(report["library"]["name"]),
            version=LibraryVersion(selection["selected"]),
            lessons=int(report["library"]["lessons"]),
            reason=str(selection["reason"]),
            alone=tuple(map(LessonWorth.model_validate, selection.get("alone", ()))),
        )
        decided = any((d.library, d.version) == (one.library, one.version) and d.at >= one.at for d in decisions)
        if not decided and current.get(one.library) != one.version and domain in {None, one.domain, one.library}:
            found.setdefault((one.library, one.version), one)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Decider:
    """A person who decides on what waits: by the start of a lesson's id, `NAME@VERSION` or the start of a version."""

    store: Store
    libraries: LibraryStore
    who: str
    note: str
    at: datetime

    async def approve(self, reference: str, without: Collection[str] = ()) -> Approved:
        """Publish a pending version, or apply a quarantined operation to its library and publish the result.

        without: starts of ids of new lessons of a version that are refused; the others are published. Raises
        LibraryError when nothing of that name waits, or when the library has changed so that the operation no longer
        fits.
        """
        version = self._version(reference)
        if version is not None:
            return await self._approve_version(version, without)
        if without:
            raise ConfigError(
                f"--without leaves lessons out of a version, and {reference!r} is a lesson; approve or reject it",
                code="not_a_version",
            )
        one = self._lesson(reference)
        known = one.library in self.libraries.names()
        library = self.libraries.load(f"{one.library}@main") if known else EMPTY_LIBRARY
        options = one.options.model_copy(update={"change_written": True})  # a person decides
        context = CheckContext(options=options, waived=frozenset({one.end.code}), library=one.library)
        made, after = None, library
        if not any(target in library.by_id for target in targets_of(one.operation)):
            # the lesson itself, if an approval that was cut off has published it already
            made = next((found for found in library.experiences if found.lesson == one.lesson), None)
        if made is None:
            after, (ended,) = next_version([one.row.ended.proposal], library, context)
            if not isinstance(ended.end, Applied) or ended.end.experience is None:
                raise LibraryError(one.why_not(ended.end, library), code="not_applicable")
            made = after.by_id[ended.end.experience]
        decision = self._of_lesson(one, "approved")
        decision = decision.model_copy(update={"version": after.version, "experience": made.id})
        self.libraries.publish(one.library, after, kind="approve", run=one.row.run, who=self.who, note=self.note)
        await self.store.save_decision(decision, after)
        return Approved(decision, after)

    async def reject(self, reference: str) -> LessonDecision:
        """Record that a person refuses what waits. A refused version stays in the store.

        Raises LibraryError when nothing of that name waits.
        """
        version = self._version(reference)
        if version is not None:
            decision = self._of_version(version, "rejected")
        else:
            decision = self._of_lesson(self._lesson(reference), "rejected")
        await self.store.save_decision(decision)
        return decision

    async def _approve_version(self, one: PendingVersion, without: Collection[str]) -> Approved:
        """Publish a pending version under the name that its run had for it.

        What persons changed in the library since the run started is joined into it, so that none of their lessons is
        lost.
        """
        store = self.store
        whole, run_inputs = store.library(one.version), store.run_inputs(one.run)
        start = EMPTY_LIBRARY if run_inputs is None else store.library(run_inputs.library)
        refused = [one.new_lesson(whole, start, prefix) for prefix in without]
        selected = whole
        if refused:
            kept = tuple(lesson for lesson in whole.experiences if lesson not in refused)
            selected = Library(parent=whole.version, experiences=kept, withheld=whole.withheld)
            await store.save_version(selected, run=one.run)
        decision = self._of_version(one, "approved")
        for lesson in refused:
            row = store.proposals_of([lesson.id])[-1]
            about = {"phase": row.phase, "batch": row.batch, "proposal": row.ended.proposal.id, "experience": lesson.id}
            words = {"lesson_key": refusal_key(lesson.lesson), "verdict": "rejected"}
            await store.save_decision(decision.model_copy(update={**about, **words}))
        replaced = {found.name: found.version for found in self.libraries.list()}.get(one.library)
        library = self.libraries.history(one.library).publish_learned(
            selected,
            start=whole if run_inputs is None else start,
            since=store.run(one.run).started_at,
            kind="approve",
            run=one.run,
            who=self.who,
            note=self.note,
        )
        if library.version != selected.version:
            await store.save_version(library, run=one.run)
        await store.save_decision(decision)
        return Approved(decision, library, replaced)

    def _version(self, reference: str) -> PendingVersion | None:
        """The only pending version of a reference; None when there is none and it may name a lesson.

        Raises LibraryError for `NAME@VERSION` that is not pending, and for a reference to several versions, or to a
        version and a lesson.
        """
        waiting = pending_versions(self.store, self.libraries)
        name, at, prefix = reference.rpartition("@")
        matching = [one for one in waiting if prefix and one.version.startswith(prefix) and name in {"", one.library}]
        if not matching and not at:
            return None
        ids = () if at else (one.row.ended.proposal.id for one in pending_lessons(self.store))
        if (lesson := next((one for one in ids if one.startswith(prefix)), None)) is not None:
            raise LibraryError(
                f"{reference!r} names the lesson {lesson[:12]!r} and the version {matching[0].reference!r}; give more"
                " of the one that you mean",
                code="ambiguous",
            )
        if len(matching) == 1:
            return matching[0]
        if not matching and prefix:
            current = next((one.version for one in self.libraries.list() if one.name == name), "")
            if current.startswith(prefix):
                raise LibraryError(f"version {reference!r} is published already", code="decided_already")
            decided = [one for one in self.store.decisions() if one.of_version and one.library == name]
            for done in decided[::-1]:
                if (done.version or "").startswith(prefix):
                    raise _decided_already(f"version {reference!r}", done)
        listed = ", ".join(repr(one.reference) for one in (matching or waiting)[:8]) or "none"
        number = (
            f"{len(matching)} versions that wait match" if matching else "no version that waits for a decision matches"
        )
        raise LibraryError(
            f"{number} {reference!r} (found: {listed}); `agentlearn library pending` lists them", code="unknown_version"
        )

    def _lesson(self, prefix: str) -> PendingLesson:
        """The only waiting lesson whose proposal id starts with the prefix."""
        waiting = pending_lessons(self.store)
        matching = [one for one in waiting if prefix and one.row.ended.proposal.id.startswith(prefix)]
        if len(matching) == 1:
            return matching[0]
        decisions = (one for one in self.store.decisions() if not one.of_version)
        decided = next((one for one in decisions if prefix and one.proposal.startswith(prefix)), None)
        if not matching and decided is not None:
            raise _decided_already(f"the lesson {prefix!r}", decided)
        number = f"{len(matching)} lessons that wait have" if matching else "no lesson that waits for a decision has"
        listed = ", ".join(repr(one.row.ended.proposal.id[:12]) for one in (matching or waiting)[:8]) or "none"
        raise LibraryError(
            f"{number} an id that starts with {prefix!r} (found: {listed}); `agentlearn library pending` lists them",
            code="unknown_lesson",
        )

    def _of_version(self, one: PendingVersion, verdict: Literal["approved", "rejected"]) -> LessonDecision:
        return LessonDecision(
            run=one.run,
            phase=OF_VERSION,
            batch=0,
            proposal=ProposalId(""),
            verdict=verdict,
            lesson_key="",
            who=self.who,
            note=self.note,
            at=self.at,
            library=one.library,
            version=one.version,
        )

    def _of_lesson(self, one: PendingLesson, verdict: Literal["approved", "rejected"]) -> LessonDecision:
        return LessonDecision(
            run=one.row.run,
            phase=one.row.phase,
            batch=one.row.batch,
            proposal=one.row.ended.proposal.id,
            verdict=verdict,
            lesson_key=one.key,
            who=self.who,
            note=self.note,
            at=self.at,
            library=one.library,
        )


def _decided_already(what: str, decided: LessonDecision) -> LibraryError:
    words = f"{what} was {decided.verdict} by {decided.who!r} on {decided.at:%Y-%m-%d}; a decision is not changed"
    return LibraryError(words, code="decided_already")
