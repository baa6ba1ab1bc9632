"""`agentlearn library pending`, `approve` and `reject`: a person decides on lessons and versions that wait."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from agentlearn.cli.library_history import AcceptOption
from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import print_result
from agentlearn.cli.sharing import proposal_lines
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import LibraryError, StoreMissing
from agentlearn.learning.lessons.pending_versions import (
    Decider,
    PendingLesson,
    PendingVersion,
    pending_lessons,
    pending_versions,
)
from agentlearn.learning.lessons.trust import ShapedLesson, shaped_lessons
from agentlearn.library import LibraryStore
from agentlearn.library.history import Change, History
from agentlearn.library.history.change_log import account_name
from agentlearn.store import open_store, read_store
from agentlearn.text import visible
from agentlearn.types.experience import Withheld
from agentlearn.views.figure import count_words
from agentlearn.views.records import operation_words

T = TypeVar("T")
WaitingName = Annotated[
    str, Parameter(help="Id of a lesson, or NAME@VERSION, that `library pending` lists; the start of either is enough.")
]
NoteOption = Annotated[str, Parameter(help="A remark that is stored with the decision.")]
_ID_SHOWN = 12
_ROLLOUTS_SHOWN = 3
_LESSONS_SHOWN = 20
_SENTENCE_SHOWN = 300


def library_pending(
    domain: Annotated[str | None, Parameter(help="Only what is for this domain or library.")] = None,
    /,
    *,
    run: Annotated[str | None, Parameter(help="Only what this run made; the start of its id is enough.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """List the versions and lessons that wait for your decision, each with the reason why it waits."""
    libraries = LibraryStore(store / "libraries")
    held = _held_lessons(libraries, domain) if run is None else []
    try:
        with read_store(store) as reader:
            versions = pending_versions(reader, libraries, domain=domain, run=run)
            waiting = pending_lessons(reader, domain=domain, run=run)
            shown = libraries.shown_lessons() if versions else {}
            shaped = {one.version: shaped_lessons(reader, reader.library(one.version), shown) for one in versions}
    except StoreMissing:
        if not held:
            raise
        versions, waiting, shaped = [], [], {}
    named = (libraries.history(one) for one in libraries.names() if domain in {None, one})
    proposals = [line for history in named for line in proposal_lines(history)]
    document = {
        **({"proposals": proposals} if proposals else {}),
        "pending": [*map(_pending_json, waiting), *(one.as_json() for one in held)],
        "versions": [_version_json(one, shaped[one.version]) for one in versions],
    }

    def lines() -> Iterator[str]:
        if not waiting and not versions and not held and not proposals:
            yield "nothing waits for a decision"
        for version in versions:
            yield from _version_lines(version, shaped[version.version], store)
        for lesson in waiting:
            yield from _pending_lines(lesson, store)
        yield from proposals
        for one in held:
            yield f"{one.withheld.experience.id[:_ID_SHOWN]}  {one.history.name}  pending"
            yield f"    {visible(one.withheld.experience.lesson)}"
            yield f"    {visible(one.withheld.reason) or 'no reason is stored'}"
        if waiting or held:
            yield f"to add a lesson:    {command_words('library', 'approve', 'ID', store=store)}"
            yield f"to refuse a lesson: {command_words('library', 'reject', 'ID', store=store)}"
        if waiting or versions or held:
            yield f"to decide in a browser: {command_words('view', 'waiting', store=store)}"

    print_result(document, lines(), json=json)


def library_approve(
    waiting: WaitingName,
    /,
    *,
    accept: AcceptOption = (),
    without: Annotated[
        list[str] | None,
        Parameter(help="Id of a new lesson of the version that you refuse; the others are published. Repeatable."),
    ] = None,
    note: NoteOption = "",
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """Publish a version that a run left pending, or add a quarantined lesson to its library and publish the result.

    A pending lesson of a library is shown from then on. For a lesson, the other rules still hold. Your account's name,
    the time and the note are stored.
    """
    if not without and (held := _find_held(store, waiting)) is not None:
        change = held.history.approve(held.withheld.experience.id, accept=accept, note=note)
        held.report(change, "approved", store, json=json)
        return
    approved = _decide(store, note, lambda person: person.approve(waiting, without or ()))
    library, decision = approved.library, approved.decision
    show = command_words("library", "show", decision.library, store=store)
    instead = f" and replaces version {approved.replaced[:8]}" if approved.replaced else ""
    lessons = count_words(len(library), "lesson")
    print_result(
        {"decision": decision.model_dump(mode="json"), "lessons": len(library)},
        [f"approved: {decision.library}@{library.version[:8]} has {lessons}{instead}      {show}"],
        json=json,
    )


def library_reject(
    waiting: WaitingName, /, *, note: NoteOption = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Refuse a version or a lesson that waits. Later runs refuse the same words of a lesson without asking.

    A refused version stays in the store and is no longer listed. Your account's name, the time and the note are stored.
    """
    if (held := _find_held(store, waiting)) is not None:
        change = held.history.reject(held.withheld.experience.id, note=note)
        held.report(change, "rejected", store, json=json)
        return
    decision = _decide(store, note, lambda person: person.reject(waiting))
    words = f"{decision.proposal[:_ID_SHOWN]}; later runs refuse the same lesson"
    if decision.of_version and decision.version is not None:
        words = f"{decision.library}@{decision.version[:_ID_SHOWN]}; it stays in the store and is not published"
    print_result({"decision": decision.model_dump(mode="json")}, [f"rejected: {words}"], json=json)


def _decide(store: Path, note: str, act: Callable[[Decider], Awaitable[T]]) -> T:
    async def decided() -> T:
        async with open_store(store, create=False) as opened:
            at = datetime.now(UTC)
            return await act(Decider(opened, LibraryStore(store / "libraries"), account_name(), note, at))

    return asyncio.run(decided())


@dataclass(frozen=True, slots=True)
class _HeldBack:
    """A pending lesson of the newest version of a library's branch main."""

    history: History
    withheld: Withheld

    def report(self, change: Change, word: str, store: Path, *, json: bool) -> None:
        """Print what a decision on it did."""
        diff = command_words("library", "diff", self.history.name, store=store)
        lesson = f"{self.withheld.experience.id[:_ID_SHOWN]} of {self.history.name}"
        line = f"{word}: {lesson}; version {change.version[:_ID_SHOWN]}      {diff}"
        print_result({"change": change.model_dump(mode="json")}, [line], json=json)

    def as_json(self) -> dict[str, Any]:
        """Return it as one of the pending lessons."""
        lesson = self.withheld.experience
        return {
            "id": lesson.id,
            "code": "pending",
            "reason": self.withheld.reason,
            "lesson": lesson.lesson,
            "library": self.history.name,
        }


def _held_lessons(libraries: LibraryStore, name: str | None = None) -> list[_HeldBack]:
    """The pending lessons of all libraries, or of one."""
    histories = [libraries.history(one) for one in libraries.names() if name in {None, one}]
    return [
        _HeldBack(history, one)
        for history in histories
        for one in history.load("main").withheld
        if one.status == "pending"
    ]


def _find_held(store: Path, prefix: str) -> _HeldBack | None:
    """The only pending lesson of a library whose id starts with the prefix; None where nothing fits.

    Raises LibraryError where several lessons fit, also those that a run holds.
    """
    held = _held_lessons(LibraryStore(store / "libraries"))
    matching = [one for one in held if one.withheld.experience.id.startswith(prefix)]
    if not matching or not prefix:
        return None
    ids = [one.withheld.experience.id for one in matching]
    with suppress(StoreMissing), read_store(store) as reader:
        proposals = (one.row.ended.proposal.id for one in pending_lessons(reader))
        ids += [one for one in proposals if one.startswith(prefix)]
    if len(ids) > 1:
        listed = ", ".join(repr(one[:_ID_SHOWN]) for one in ids)
        raise LibraryError(
            f"{len(ids)} lessons that wait have an id that starts with {prefix!r} (found: {listed}); give more of the"
            " one that you mean",
            code="ambiguous",
        )
    return matching[0]


def _version_lines(one: PendingVersion, shaped: Sequence[ShapedLesson], store: Path) -> Iterator[str]:
    yield f"{one.reference}  {count_words(one.lessons, 'lesson')}  not published"
    yield f"    {visible(one.reason)}"
    worth = {found.lesson: found.delta.sentence for found in one.alone}
    for found in shaped[:_LESSONS_SHOWN]:
        yield f"    {found.lesson.id[:_ID_SHOWN]}  {visible(found.lesson.lesson)}"
        authors = ", ".join(author.words for author in found.lesson.origin.strangers)
        yield f"      written after reading {visible(authors)}"
        if found.sentence:
            yield f"      nearest sentence: {visible(found.sentence[:_SENTENCE_SHOWN])!r}"
            yield f"      it stands in {visible(found.said_by)}"
        if found.attempts:
            attempts = " and ".join(f"{rollout} ({reward:.2f})" for rollout, reward in found.attempts)
            yield f"      lowest and highest attempt: {attempts}"
        yield f"      by itself: {worth.get(found.lesson.id, 'not measured')}"
    if len(shaped) > _LESSONS_SHOWN:
        yield f"    and {len(shaped) - _LESSONS_SHOWN} more"
    yield f"    run {one.run}      {command_words('library', 'show', one.reference, store=store)}"
    without = "  (--without ID leaves a lesson out)" if shaped else ""
    yield f"    to publish it:  {command_words('library', 'approve', one.reference, store=store)}{without}"
    yield f"    to refuse it:   {command_words('library', 'reject', one.reference, store=store)}"


def _version_json(one: PendingVersion, shaped: Sequence[ShapedLesson]) -> dict[str, Any]:
    return {
        **{name: getattr(one, name) for name in ("library", "version", "lessons", "reason", "domain", "run")},
        "shaped": [
            {
                "id": lesson.lesson.id,
                "lesson": lesson.lesson.lesson,
                "strangers": [author.model_dump(mode="json") for author in lesson.lesson.origin.strangers],
                "sentence": lesson.sentence,
                "said_by": lesson.said_by,
                "attempts": [{"rollout": rollout, "reward": reward} for rollout, reward in lesson.attempts],
            }
            for lesson in shaped
        ],
        "alone": [worth.model_dump(mode="json") for worth in one.alone],
    }


def _pending_lines(one: PendingLesson, store: Path) -> Iterator[str]:
    proposal, row = one.row.ended.proposal, one.row
    shown = list(proposal.evidence[:_ROLLOUTS_SHOWN])
    more = len(proposal.evidence) - len(shown)
    rollouts = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    yield f"{proposal.id[:_ID_SHOWN]}  {one.library}  {one.end.code}"
    yield f"    {visible(operation_words(one.operation, proposal.raw, {}))}"
    yield f"    {visible(one.end.reason)}"
    yield f"    run {row.run}, {row.phase}/{row.batch}; from {rollouts or 'no rollout'}"
    if shown:
        yield f"    {command_words('trace', shown[0], store=store)}"


def _pending_json(one: PendingLesson) -> dict[str, Any]:
    proposal, row = one.row.ended.proposal, one.row
    return {
        "id": proposal.id,
        "code": one.end.code,
        "reason": one.end.reason,
        "lesson": one.lesson,
        "operation": one.operation.model_dump(mode="json"),
        "domain": one.domain,
        "library": one.library,
        "run": row.run,
        "phase": row.phase,
        "batch": row.batch,
        "task": proposal.task,
        "evidence": list(proposal.evidence),
    }
