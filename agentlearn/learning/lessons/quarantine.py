"""Quarantined lessons: which of them wait for a person, and what a decision does.

Decisions are rows of the store. An approval applies the operation to the library as it is now, by the same rules; only
the doubt that the lesson was held for does not count. A rejection also refuses the same lesson in later runs.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentlearn.config.options import LessonOptions
from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.curate import CheckContext, next_version
from agentlearn.library.curate.operations import lesson_of, targets_of
from agentlearn.library.curate.similarity import refusal_key
from agentlearn.store import ProposalRow, RunRow, Store, StoreReader
from agentlearn.types.decision import LessonDecision
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library
from agentlearn.types.operation import Applied, Operation, Quarantined, Rejected


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


def pending_lessons(reader: StoreReader, *, domain: str | None = None, run: str | None = None) -> list[PendingLesson]:
    """The lessons that wait for a person, each once, those of the newest run first.

    domain: only those of this domain or library. run: only those of the run whose id starts with it. Raises ConfigError
    for an unknown run.
    """
    wanted = reader.run(run).run if run is not None else None
    decisions = _decisions(reader)
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
    return frozenset(one.lesson_key for one in _decisions(reader) if one.verdict == "rejected" and one.at < before)


async def approve(
    store: Store, library_store: LibraryStore, prefix: str, *, who: str, note: str, at: datetime
) -> Approved:
    """Apply a quarantined operation to the current version of its library and publish the result.

    prefix: the start of the proposal's id. Raises LibraryError when no such lesson waits, or when the library has
    changed so that the operation no longer fits.
    """
    one = _find(store, prefix)
    library = _current(library_store, one.library)
    options = one.options.model_copy(update={"change_written": True})  # a person decides
    context = CheckContext(options=options, waived=frozenset({one.end.code}), library=one.library)
    made = _same_lesson(library, one)
    after = library
    if made is None:
        after, (ended,) = next_version([one.row.ended.proposal], library, context)
        if not isinstance(ended.end, Applied) or ended.end.experience is None:
            raise LibraryError(_why_not(one, ended.end, library), code="not_applicable")
        made = after.by_id[ended.end.experience]
    decision = _decision(one, "approved", who=who, note=note, at=at).model_copy(
        update={"version": after.version, "experience": made.id}
    )
    library_store.publish(one.library, after, kind="approve", run=one.row.run, who=who, note=note)
    await store.save_decision(decision, after)
    return Approved(decision, after)


async def reject_lesson(store: Store, prefix: str, *, who: str, note: str, at: datetime) -> LessonDecision:
    """Record that a person refuses a quarantined lesson. Raises LibraryError when no such lesson waits."""
    decision = _decision(_find(store, prefix), "rejected", who=who, note=note, at=at)
    await store.save_decision(decision)
    return decision


def _decisions(reader: StoreReader) -> list[LessonDecision]:
    """The decisions about lessons."""
    return [one for one in reader.decisions() if not one.of_version]


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
    decided = next((one for one in _decisions(reader) if prefix and one.proposal.startswith(prefix)), None)
    if not matching and decided is not None:
        raise LibraryError(
            f"the lesson {prefix!r} was {decided.verdict} by {decided.who!r} on {decided.at:%Y-%m-%d}; a decision is"
            " not changed",
            code="decided_already",
        )
    number = f"{len(matching)} lessons that wait have" if matching else "no lesson that waits for a decision has"
    listed = ", ".join(repr(one.row.ended.proposal.id[:12]) for one in (matching or waiting)[:8]) or "none"
    raise LibraryError(
        f"{number} an id that starts with {prefix!r} (found: {listed}); `agentlearn library pending` lists them",
        code="unknown_lesson",
    )


def _current(library_store: LibraryStore, name: str) -> Library:
    return library_store.load(f"{name}@main") if name in library_store.names() else EMPTY_LIBRARY


def _same_lesson(library: Library, one: PendingLesson) -> Experience | None:
    """The lesson itself, if an approval that was cut off has published it already."""
    if any(target in library.by_id for target in targets_of(one.operation)):
        return None
    return next((found for found in library.experiences if found.lesson == one.lesson), None)


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


def _decision(one: PendingLesson, verdict: Any, *, who: str, note: str, at: datetime) -> LessonDecision:
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
