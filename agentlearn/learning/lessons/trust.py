"""Whose text the lessons of a run could repeat, what waits for a person because of that, and what persons decided.

What a text says is not looked at: a stranger's sentence can be said in any words. A lesson inherits the strangers whose
text its reflector read, and a version with new lessons of that kind is published only when a person approves it, or has
named these authors with `trust`.

The report of a run says that its version is pending. A decision is a row of the store; it also counts for the same
version of every other run that had ended before it. A rejection also refuses the same lesson in later runs. The
decisions themselves are made in `agentlearn.live`.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from agentlearn.config.options import LessonOptions
from agentlearn.errors import LibraryError
from agentlearn.learning.lessons.stage_agent import shown_reason
from agentlearn.learning.report import LessonWorth
from agentlearn.library import LibraryStore
from agentlearn.library.curate.lesson_text import refusal_key
from agentlearn.library.curate.operations import lesson_of
from agentlearn.library.history import History
from agentlearn.library.history.change_log import ApproveLesson
from agentlearn.library.shown import NotShown
from agentlearn.store import ProposalRow, RunRow, StoreReader
from agentlearn.types.experience import EMPTY_LIBRARY, Experience, Library, held_lessons
from agentlearn.types.group import Group
from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId
from agentlearn.types.operation import OF_EVIDENCE, Modify, Operation, Quarantined
from agentlearn.types.ranking import lower_case_words
from agentlearn.types.task import SESSION
from agentlearn.types.trajectory import DEMONSTRATION, IMPORTED, LIVE, ModelTurn, ToolResult, Trajectory, UserTurn
from agentlearn.types.value import Author, AuthorKind, Value, strangers

_RECORDED = frozenset({LIVE, DEMONSTRATION, IMPORTED})
_MOST_READ = 16
"""Largest number of rollouts behind a lesson that are read to show its source."""
_MOST_CHARACTERS = 200_000
_FEWEST_SHARED = 2
_MOST_REASONS = 8
"""Largest number of reasons for refusals that a reflector is told."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def authors_read(groups: Iterable[Group], *, reasons_by: AuthorKind | None) -> tuple[Author, ...]:
    """Return the strangers whose text stands in groups: in tasks, in what rollouts read and returned, and in reasons.

    reasons_by: who writes the reasons of verdicts; None: the stages see none.
    """
    found = set[Author]()
    for group in groups:
        found.update(task.author for task in group.tasks)
        for one in group.trajectories:
            recorded, traffic = one.phase in _RECORDED, Author(kind="traffic", name=group.task.domain)
            if recorded:
                found.add(traffic)
            if not recorded or group.task_of(one).source == SESSION:  # there, what tools returned is no traffic
                found.update(author for step in one.steps if isinstance(step, ModelTurn) for author in step.strangers)
                others = (step for step in one.steps if not isinstance(step, ModelTurn))
                found.update(one.written_by if isinstance(one, ToolResult) else one.author or traffic for one in others)
            if not recorded and reasons_by is not None and shown_reason(one):
                found.add(Author(kind=reasons_by, name=group.task.domain if reasons_by == "reasons" else ""))
    return strangers(found)


def unapproved(library: Library, accepted: Collection[ExperienceId]) -> tuple[Author, ...]:
    """Return the strangers behind the lessons of a version that are not accepted yet."""
    return strangers(author for one in library.experiences if one.id not in accepted for author in one.origin.strangers)


def waiting_lessons(
    library: Library, accepted: Collection[ExperienceId], *, trust: Collection[str]
) -> Mapping[ExperienceId, Sequence[Author]]:
    """Return the lessons of a version that wait for a person because of strangers, with these strangers.

    accepted: lessons that were published before. trust: authors that somebody means to trust.
    """
    new = [one for one in library.experiences if one.id not in accepted]
    found = {one.id: [author for author in one.origin.strangers if not author.is_trusted(trust)] for one in new}
    return {lesson: authors for lesson, authors in found.items() if authors}


def refused_authors(reader: StoreReader, libraries: LibraryStore, *, before: datetime) -> frozenset[Author]:
    """Return the strangers behind what persons refused before a time: single lessons, and versions of runs."""
    found = set[Author]()
    for name in libraries.names():
        found.update(libraries.history(name).refused_strangers(before))
    refused = [one for one in reader.decisions() if one.version and one.verdict == "rejected" and one.at < before]
    shown = libraries.shown_lessons() if refused else {}
    for one in refused:
        library = reader.library(one.version or LibraryVersion(""))
        left_out = library.by_id.get(one.experience) if one.experience else None
        found.update(unapproved(library, shown) if left_out is None else left_out.origin.strangers)
    return frozenset(found)


class Acceptance(Value):
    """What persons decided on the lessons of one source."""

    source: Author
    """Whose text they were written after; the model that wrote them where no stranger's text was read."""
    approved: int = 0
    """Lessons that persons approved or edited, by themselves or with a version."""
    rejected: int = 0
    """Lessons that persons refused."""

    @property
    def share(self) -> float:
        """Share of its decided lessons that were approved."""
        return self.approved / max(1, self.approved + self.rejected)


def acceptance(
    reader: StoreReader | None, libraries: LibraryStore, *, before: datetime | None = None
) -> tuple[Acceptance, ...]:
    """Return what persons decided on the lessons of each source, those with the most decisions first.

    reader: the store, for what runs proposed; None: only lessons in files. before: only decisions before a time.
    """
    counts: defaultdict[Author, Counter[str]] = defaultdict(Counter)
    for name in libraries.names():
        history, known = libraries.history(name), dict[ExperienceId, Experience]()
        for change, one in history.decisions(before):
            if change.decided or change.before is None:
                continue
            target = next((edit.target for edit in change.operations if isinstance(edit, Modify)), one.target)
            if target not in known:
                with suppress(LibraryError):  # a damaged version names nobody
                    known |= {key: held for key, (held, _) in held_lessons(history.load(change.before)).items()}
            for author in known[target].origin.strangers if target in known else ():
                counts[author]["approved" if isinstance(one, ApproveLesson) else "rejected"] += 1
    for authors, verdict in [] if reader is None else _decided_by_runs(reader, before):
        for author in authors:
            counts[author][verdict] += 1
    found = (Acceptance(source=author, **numbers) for author, numbers in counts.items())
    return tuple(sorted(found, key=lambda one: (-one.approved - one.rejected, one.source.words)))


def _decided_by_runs(reader: StoreReader, before: datetime | None) -> Iterator[tuple[Sequence[Author], str]]:
    """The sources of each lesson of a run that a person decided on, and the verdict."""
    decisions = [one for one in reader.decisions() if one.phase != OF_EVIDENCE and (before is None or one.at < before)]
    left_out = {one.experience for one in decisions if one.verdict == "rejected" and one.experience}
    held = {row.ended.proposal.id: row.ended.end for row in reader.quarantined()} if decisions else {}
    writers = {run: writer_of(reader.run(run)) for run in {one.run for one in decisions}}
    for one in decisions:
        model = writers[one.run]
        if not one.of_version:
            end = held.get(one.proposal)
            authors = end.strangers if isinstance(end, Quarantined) else ()
            if one.experience is not None and one.verdict == "rejected":
                authors = tuple(
                    author for made in reader.experiences([one.experience]) for author in made.origin.strangers
                )
            yield authors or (model,), one.verdict
        elif one.version is not None:
            run_inputs = reader.run_inputs(one.run)
            before_it = EMPTY_LIBRARY if run_inputs is None else reader.library(run_inputs.library)
            for lesson in reader.library(one.version).experiences:
                if lesson.id not in before_it.by_id and lesson.id not in left_out:
                    yield lesson.origin.strangers or (model,), one.verdict


def writer_of(run: RunRow) -> Author:
    """Return the model that wrote the lessons of a run."""
    settings: dict[str, object] = json.loads(run.settings or "{}")
    return Author(kind="model", name=str(settings.get("reflector") or settings.get("model") or run.model))


class LessonSource(NamedTuple):
    """What a person needs to know of where a lesson comes from."""

    sentence: str = ""
    """The sentence of what was read that shares most words with it; empty when none shares two."""
    said_by: str = ""
    """Where the sentence stands, in words; empty without a sentence."""
    attempts: tuple[tuple[RolloutId, float], ...] = ()
    """The rollouts behind it with the lowest and the highest reward, with their rewards."""


def lesson_source(reader: StoreReader, lesson: str, rollouts: Sequence[RolloutId]) -> LessonSource:
    """Return the nearest sentence of the rollouts that a lesson was learned from, and two of these rollouts."""
    read = [whole.trajectory for whole in reader.whole(rollouts[:_MOST_READ])]
    judged = sorted(((t.id, t.reward) for t in read if t.reward is not None), key=lambda pair: pair[1])
    ends = (judged[0], judged[-1]) if len(judged) > 1 else tuple(judged)
    return LessonSource(*_nearest(lesson, list(_texts_read(reader, read))), ends)


def _texts_read(reader: StoreReader, read: Sequence[Trajectory]) -> Iterator[tuple[str, str]]:
    """Texts that others than the model wrote, with where they stand: results of tools, dialogues, reasons, tasks."""
    for one in read:
        yield from (
            (step.content, f"a result of the tool {step.tool}") for step in one.steps if isinstance(step, ToolResult)
        )
        yield from ((step.text, "what the user said") for step in one.steps if isinstance(step, UserTurn))
        if one.phase == DEMONSTRATION:
            yield from ((step.text, "a demonstration") for step in one.steps if isinstance(step, ModelTurn))
        if one.verdict is not None:
            yield one.verdict.reason, "the reason of a reward"
    yield from ((task.problem, "the task") for task in reader.tasks(list({one.task for one in read})).values())


def _nearest(lesson: str, texts: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The sentence that shares most words with a lesson, and where it stands. A frequent word counts less.

    Of a sentence that stands in several places, the first place is named; results of tools come first.
    """
    wanted = set(lower_case_words(lesson))
    shared: dict[str, tuple[set[str], str]] = {}
    for text, where in texts:
        for sentence in _SENTENCE_END.split(text[:_MOST_CHARACTERS]):
            shared.setdefault(sentence.strip(), (wanted & set(lower_case_words(sentence)), where))
    often = Counter(word for words, _ in shared.values() for word in words)
    near = [one for one, (words, _) in shared.items() if len(words) >= _FEWEST_SHARED]
    if not near:
        return "", ""
    best = max(near, key=lambda one: (sum(1 / often[word] for word in shared[one][0]), -len(one)))
    return best, shared[best][1]


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


def brings_more(one: PendingVersion, reader: StoreReader, rule: NotShown) -> bool:
    """Whether a version that waits changes what is shown, by the lessons that may be shown."""
    run_inputs = reader.run_inputs(one.run)
    start = EMPTY_LIBRARY if run_inputs is None else reader.library(run_inputs.library)
    return rule.applied(reader.library(one.version)).by_id != rule.applied(start).by_id
