"""Versions and lessons that a run left for a person: which of them wait, and what earlier refusals said.

The report of the run says that its version is pending. A decision is a row of the store; it also counts for the same
version of every other run that had ended before it. A rejection also refuses the same lesson in later runs. The
decisions themselves are made in `agentlearn.live`.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentlearn.config.options import LessonOptions
from agentlearn.learning.report import LessonWorth
from agentlearn.library import LibraryStore
from agentlearn.library.curate.operations import lesson_of
from agentlearn.library.curate.similarity import refusal_key
from agentlearn.library.history import History
from agentlearn.store import ProposalRow, RunRow, StoreReader
from agentlearn.types.ids import LibraryVersion, RunId
from agentlearn.types.operation import OF_EVIDENCE, Operation, Quarantined


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


def pending_lessons(reader: StoreReader, *, domain: str | None = None, run: str | None = None) -> list[PendingLesson]:
    """The lessons that wait for a person, each once, those of the newest run first.

    domain: only those of this domain or library. run: only those of the run whose id starts with it. Raises ConfigError
    for an unknown run.
    """
    wanted = reader.run(run).run if run is not None else None
    decisions = [one for one in reader.decisions() if not one.of_version and one.phase != OF_EVIDENCE]
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
    decisions = (one for one in reader.decisions() if one.lesson_key and one.at < before)
    return frozenset(one.lesson_key for one in decisions if one.verdict == "rejected")


_MOST_REASONS = 8


def refusal_reasons(reader: StoreReader, history: History, *, before: datetime) -> tuple[str, ...]:
    """Return why persons refused lessons and versions of a library before a time, in their own words, the latest first.

    Only the reasons are given, and not the refused words: a stranger may have shaped those, and a model that reads them
    could propose them again.
    """
    refused = [one for one in reader.decisions() if one.library == history.name and one.verdict == "rejected"]
    said = [(one.at, one.note) for one in refused if one.phase != OF_EVIDENCE]
    said += [(one.at, one.note) for one in history.changes if one.kind == "reject"]
    latest = sorted((one for one in said if one[0] < before and one[1].strip()), reverse=True)
    return tuple(dict.fromkeys(" ".join(note.split()) for _, note in latest))[:_MOST_REASONS]


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
