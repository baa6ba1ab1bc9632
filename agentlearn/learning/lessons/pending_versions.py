"""Versions that a run left pending: which of them wait for a person, and what a decision does.

The report of the run says that its version is pending. A decision is a row of the store; it also counts for the same
version of every other run that had ended before it.

Decisions are rows of the store. An approval applies the operation to the library as it is now, by the same rules; only
the doubt that the lesson was held for does not count. A rejection also refuses the same lesson in later runs.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from agentlearn.config.options import LessonOptions
from agentlearn.errors import LibraryError
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
    found: dict[tuple[str, str], PendingLesson] = {}
    for one in _held(reader, wanted):
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


async def approve(
    store: Store, library_store: LibraryStore, prefix: str, *, who: str, note: str, at: datetime
) -> Approved:
    """Apply a quarantined operation to the current version of its library and publish the result.

    prefix: the start of the proposal's id. Raises LibraryError when no such lesson waits, or when the library has
    changed so that the operation no longer fits.
    """
    one = _find(store, prefix)
    library = library_store.load(f"{one.library}@main") if one.library in library_store.names() else EMPTY_LIBRARY
    options = one.options.model_copy(update={"change_written": True})  # a person decides
    context = CheckContext(options=options, waived=frozenset({one.end.code}), library=one.library)
    made, after = None, library
    if not any(target in library.by_id for target in targets_of(one.operation)):
        # the lesson itself, if an approval that was cut off has published it already
        made = next((found for found in library.experiences if found.lesson == one.lesson), None)
    if made is None:
        after, (ended,) = next_version([one.row.ended.proposal], library, context)
        if not isinstance(ended.end, Applied) or ended.end.experience is None:
            raise LibraryError(_why_not(one, ended.end, library), code="not_applicable")
        made = after.by_id[ended.end.experience]
    decision = _quarantine_decision(one, "approved", who=who, note=note, at=at).model_copy(
        update={"version": after.version, "experience": made.id}
    )
    library_store.publish(one.library, after, kind="approve", run=one.row.run, who=who, note=note)
    await store.save_decision(decision, after)
    return Approved(decision, after)


async def reject_lesson(store: Store, prefix: str, *, who: str, note: str, at: datetime) -> LessonDecision:
    """Record that a person refuses a quarantined lesson. Raises LibraryError when no such lesson waits."""
    decision = _quarantine_decision(_find(store, prefix), "rejected", who=who, note=note, at=at)
    await store.save_decision(decision)
    return decision


def _held(reader: StoreReader, run: str | None) -> Iterable[PendingLesson]:
    runs: dict[str, RunRow] = {}
    for row in reader.quarantined():
        operation, end = row.ended.proposal.operation, row.ended.end
        if operation is None or not isinstance(end, Quarantined) or run not in {None, row.run}:
            continue
        of = runs.setdefault(row.run, runs.get(row.run) or reader.run(row.run))
        settings: dict[str, Any] = json.loads(of.settings)
        limits = {name: settings[name] for name in LessonOptions.model_fields if name in settings}
        yield PendingLesson(
            row, operation, end, of.domain, str(settings.get("name") or of.domain), LessonOptions(**limits)
        )


def _find(reader: StoreReader, prefix: str) -> PendingLesson:
    """The only waiting lesson whose proposal id starts with the prefix."""
    waiting = pending_lessons(reader)
    matching = [one for one in waiting if prefix and one.row.ended.proposal.id.startswith(prefix)]
    if len(matching) == 1:
        return matching[0]
    decisions = (one for one in reader.decisions() if not one.of_version)
    decided = next((one for one in decisions if prefix and one.proposal.startswith(prefix)), None)
    if not matching and decided is not None:
        raise _decided_already(f"the lesson {prefix!r}", decided)
    number = f"{len(matching)} lessons that wait have" if matching else "no lesson that waits for a decision has"
    listed = ", ".join(repr(one.row.ended.proposal.id[:12]) for one in (matching or waiting)[:8]) or "none"
    raise LibraryError(
        f"{number} an id that starts with {prefix!r} (found: {listed}); `agentlearn library pending` lists them",
        code="unknown_lesson",
    )


def _decided_already(what: str, decided: LessonDecision) -> LibraryError:
    words = f"{what} was {decided.verdict} by {decided.who!r} on {decided.at:%Y-%m-%d}; a decision is not changed"
    return LibraryError(words, code="decided_already")


def _why_not(one: PendingLesson, end: object, library: Library) -> str:
    now = f"{one.library}@{library.version[:8]}" if len(library) else f"{one.library}, which is empty"
    gone = [target for target in targets_of(one.operation) if target not in library.by_id]
    if gone:
        return (
            f"the lesson {gone[0][:12]!r} that {one.row.ended.proposal.id[:12]!r} would replace is no longer in {now};"
            " reject it, and learn again if it is still wanted"
        )
    reason = end.reason if isinstance(end, Rejected | Quarantined) else "it is there already"
    return f"{one.row.ended.proposal.id[:12]!r} cannot be added to {now}: {reason}"


def _quarantine_decision(one: PendingLesson, verdict: Any, *, who: str, note: str, at: datetime) -> LessonDecision:
    return LessonDecision(
        run=one.row.run,
        phase=one.row.phase,
        batch=one.row.batch,
        proposal=one.row.ended.proposal.id,
        verdict=verdict,
        lesson_key=one.key,
        who=who,
        note=note,
        at=at,
        library=one.library,
    )


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
    for one in filter(None, map(_pending, runs)):
        decided = any((d.library, d.version) == (one.library, one.version) and d.at >= one.at for d in decisions)
        if not decided and current.get(one.library) != one.version and domain in {None, one.domain, one.library}:
            found.setdefault((one.library, one.version), one)
    return list(found.values())


def find_version(reader: StoreReader, published: LibraryStore, reference: str) -> PendingVersion | None:
    """The only pending version of a reference, `NAME@VERSION` or the start of a version.

    None when there is none and the reference may be something else. Raises LibraryError for `NAME@VERSION` that is not
    pending, and for a reference to several versions, or to a version and a lesson.
    """
    waiting = pending_versions(reader, published)
    name, at, prefix = reference.rpartition("@")
    matching = [one for one in waiting if prefix and one.version.startswith(prefix) and name in {"", one.library}]
    if not matching and not at:
        return None
    ids = () if at else (one.row.ended.proposal.id for one in pending_lessons(reader))
    if (lesson := next((one for one in ids if one.startswith(prefix)), None)) is not None:
        raise LibraryError(
            f"{reference!r} names the lesson {lesson[:12]!r} and the version {matching[0].reference!r}; give more of"
            " the one that you mean",
            code="ambiguous",
        )
    if len(matching) == 1:
        return matching[0]
    decided = [one for one in reader.decisions() if one.of_version and one.library == name]
    current = next((one.version for one in published.list() if one.name == name), "")
    if not matching and prefix and current.startswith(prefix):
        raise LibraryError(f"version {reference!r} is published already", code="decided_already")
    done = next((one for one in decided[::-1] if prefix and (one.version or "").startswith(prefix)), None)
    if not matching and done is not None:
        raise _decided_already(f"version {reference!r}", done)
    listed = ", ".join(repr(one.reference) for one in (matching or waiting)[:8]) or "none"
    number = f"{len(matching)} versions that wait match" if matching else "no version that waits for a decision matches"
    raise LibraryError(
        f"{number} {reference!r} (found: {listed}); `agentlearn library pending` lists them", code="unknown_version"
    )


async def approve_version(
    store: Store,
    published: LibraryStore,
    one: PendingVersion,
    *,
    without: Collection[str] = (),
    who: str,
    note: str,
    at: datetime,
) -> Approved:
    """Publish a pending version under the name that its run had for it.

    What persons changed in the library since the run started is joined into it, so that none of their lessons is lost.
    without: starts of ids of new lessons that are refused; the others are published. Raises LibraryError for an id that
    names no new lesson of the version, or several.
    """
    whole, run_inputs = store.library(one.version), store.run_inputs(one.run)
    start = EMPTY_LIBRARY if run_inputs is None else store.library(run_inputs.library)
    refused = [_new_lesson(one, whole, start, prefix) for prefix in without]
    selected = whole
    if refused:
        kept = tuple(lesson for lesson in whole.experiences if lesson not in refused)
        selected = Library(parent=whole.version, experiences=kept, withheld=whole.withheld)
        await store.save_version(selected, run=one.run)
    decision = _decision(one, "approved", who=who, note=note, at=at)
    for lesson in refused:
        row = store.proposals_of([lesson.id])[-1]
        about = {"phase": row.phase, "batch": row.batch, "proposal": row.ended.proposal.id, "experience": lesson.id}
        words = {"lesson_key": refusal_key(lesson.lesson), "verdict": "rejected"}
        await store.save_decision(decision.model_copy(update={**about, **words}))
    replaced = {found.name: found.version for found in published.list()}.get(one.library)
    library = published.history(one.library).publish_learned(
        selected,
        start=whole if run_inputs is None else start,
        since=store.run(one.run).started_at,
        kind="approve",
        run=one.run,
        who=who,
        note=note,
    )
    if library.version != selected.version:
        await store.save_version(library, run=one.run)
    await store.save_decision(decision)
    return Approved(decision, library, replaced)


async def reject_version(store: Store, one: PendingVersion, *, who: str, note: str, at: datetime) -> LessonDecision:
    """Record that a person refuses a pending version. The store keeps it; `library pending` lists it no more."""
    decision = _decision(one, "rejected", who=who, note=note, at=at)
    await store.save_decision(decision)
    return decision


def _new_lesson(one: PendingVersion, whole: Library, start: Library, prefix: str) -> Experience:
    """The only lesson of a version that its run made and whose id starts with the prefix."""
    new = [lesson for lesson in whole.experiences if lesson.id not in start.by_id]
    matching = [lesson for lesson in new if prefix and lesson.id.startswith(prefix)]
    if len(matching) != 1:
        listed = ", ".join(repr(lesson.id[:12]) for lesson in (matching or new)[:8]) or "none"
        raise LibraryError(
            f"{len(matching)} new lessons of {one.reference} have an id that starts with {prefix!r} (found: {listed})",
            code="unknown_lesson",
        )
    return matching[0]


def _pending(run: RunRow) -> PendingVersion | None:
    if run.kind != "learn" or not run.report or '"pending"' not in run.report:
        return None
    report: dict[str, Any] = json.loads(run.report)
    selection = report.get("selection") or {}
    if selection.get("status") != "pending":
        return None
    return PendingVersion(
        run=run.run,
        at=run.at,
        domain=run.domain,
        library=str(report["library"]["name"]),
        version=LibraryVersion(selection["selected"]),
        lessons=int(report["library"]["lessons"]),
        reason=str(selection["reason"]),
        alone=tuple(map(LessonWorth.model_validate, selection.get("alone", ()))),
    )


def _decision(
    one: PendingVersion, verdict: Literal["approved", "rejected"], *, who: str, note: str, at: datetime
) -> LessonDecision:
    return LessonDecision(
        run=one.run,
        phase=OF_VERSION,
        batch=0,
        proposal=ProposalId(""),
        verdict=verdict,
        lesson_key="",
        who=who,
        note=note,
        at=at,
        library=one.library,
        version=one.version,
    )
