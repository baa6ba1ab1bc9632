"""`agentlearn library pending`, `approve` and `reject`: a person decides on lessons and versions that wait."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.library_history import AcceptOption
from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.errors import ConfigError, LibraryError, StoreMissing
from agentlearn.learning.lessons.pending_versions import (
    Approved,
    PendingLesson,
    PendingVersion,
    approve,
    approve_version,
    find_version,
    pending_lessons,
    pending_versions,
    reject_lesson,
    reject_version,
)
from agentlearn.learning.lessons.trust import ShapedLesson, shaped_lessons
from agentlearn.library import LibraryStore
from agentlearn.library.history import Change, History
from agentlearn.library.history.change_log import account_name
from agentlearn.store import open_store, read_store
from agentlearn.text import visible
from agentlearn.types.experience import Withheld
from agentlearn.types.operation import LessonDecision
from agentlearn.views.figure import count_words
from agentlearn.views.records import operation_words

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
    if json:
        lessons = [
            {
                "id": one.withheld.experience.id,
                "code": "pending",
                "reason": one.withheld.reason,
                "lesson": one.withheld.experience.lesson,
                "library": one.history.name,
            }
            for one in held
        ]
        print_json(
            {
                "pending": [*map(_pending_json, waiting), *lessons],
                "versions": [_version_json(one, shaped[one.version]) for one in versions],
            }
        )
        return
    out = console()
    if not waiting and not versions and not held:
        out.print("nothing waits for a decision")
    for lines in (
        *(_version_lines(one, shaped[one.version], store) for one in versions),
        *(_pending_lines(one, store) for one in waiting),
    ):
        for line in lines:
            out.print(line)
    for one in held:
        lesson = one.withheld.experience
        out.print(f"{lesson.id[:_ID_SHOWN]}  {one.history.name}  pending")
        out.print(f"    {visible(lesson.lesson)}")
        out.print(f"    {visible(one.withheld.reason) or 'no reason is stored'}")
    if waiting or held:
        out.print(f"to add a lesson:    {command_words('library', 'approve', 'ID', store=store)}")
        out.print(f"to refuse a lesson: {command_words('library', 'reject', 'ID', store=store)}")
    if waiting or versions or held:
        out.print(f"to decide in a browser: {command_words('view', 'waiting', store=store)}")


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
        _report_held(held, change, "approved", store, json=json)
        return
    approved = asyncio.run(_approve(store, waiting, without or (), note))
    decision, replaced = approved.decision, getattr(approved, "replaced", None)
    if json:
        print_json({"decision": decision.model_dump(mode="json"), "lessons": len(approved.library)})
        return
    show = command_words("library", "show", decision.library, store=store)
    version = approved.library.version[:8]
    instead = f" and replaces version {replaced[:8]}" if replaced else ""
    lessons = count_words(len(approved.library), "lesson")
    console().print(f"approved: {decision.library}@{version} has {lessons}{instead}      {show}")


def library_reject(
    waiting: WaitingName, /, *, note: NoteOption = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Refuse a version or a lesson that waits. Later runs refuse the same words of a lesson without asking.

    A refused version stays in the store and is no longer listed. Your account's name, the time and the note are stored.
    """
    if (held := _find_held(store, waiting)) is not None:
        change = held.history.reject(held.withheld.experience.id, note=note)
        _report_held(held, change, "rejected", store, json=json)
        return
    decision = asyncio.run(_reject(store, waiting, note))
    if json:
        print_json({"decision": decision.model_dump(mode="json")})
        return
    words = f"{decision.proposal[:_ID_SHOWN]}; later runs refuse the same lesson"
    if decision.of_version and decision.version is not None:
        words = f"{decision.library}@{decision.version[:_ID_SHOWN]}; it stays in the store and is not published"
    console().print(f"rejected: {words}")


@dataclass(frozen=True, slots=True)
class _HeldBack:
    """A pending lesson of the newest version of a library's branch main."""

    history: History
    withheld: Withheld


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
    matching = [
        one for one in _held_lessons(LibraryStore(store / "libraries")) if one.withheld.experience.id.startswith(prefix)
    ]
    if not matching or not prefix:
        return None
    of_runs: list[str] = []
    with suppress(StoreMissing), read_store(store) as reader:
        proposals = (one.row.ended.proposal.id for one in pending_lessons(reader))
        of_runs = [one for one in proposals if one.startswith(prefix)]
    if len(matching) + len(of_runs) > 1:
        ids = [*(one.withheld.experience.id for one in matching), *of_runs]
        listed = ", ".join(repr(one[:_ID_SHOWN]) for one in ids)
        raise LibraryError(
            f"{len(ids)} lessons that wait have an id that starts with {prefix!r} (found: {listed}); give more of the"
            " one that you mean",
            code="ambiguous",
        )
    return matching[0]


async def _approve(store: Path, waiting: str, without: Sequence[str], note: str) -> Approved:

    async with open_store(store, create=False) as opened:
        libraries, at = LibraryStore(store / "libraries"), datetime.now(UTC)
        version = find_version(opened, libraries, waiting)
        if version is not None:
            who = account_name()
            return await approve_version(opened, libraries, version, without=without, who=who, note=note, at=at)
        if without:
            raise ConfigError(
                f"--without leaves lessons out of a version, and {waiting!r} is a lesson; approve or reject it",
                code="not_a_version",
            )
        return await approve(opened, libraries, waiting, who=account_name(), note=note, at=at)


async def _reject(store: Path, waiting: str, note: str) -> LessonDecision:

    async with open_store(store, create=False) as opened:
        version, at = find_version(opened, LibraryStore(store / "libraries"), waiting), datetime.now(UTC)
        if version is not None:
            return await reject_version(opened, version, who=account_name(), note=note, at=at)
        return await reject_lesson(opened, waiting, who=account_name(), note=note, at=at)


def _report_held(held: _HeldBack, change: Change, word: str, store: Path, *, json: bool) -> None:
    if json:
        print_json({"change": change.model_dump(mode="json")})
        return
    diff = command_words("library", "diff", held.history.name, store=store)
    identity = held.withheld.experience.id[:_ID_SHOWN]
    console().print(f"{word}: {identity} of {held.history.name}; version {change.version[:_ID_SHOWN]}      {diff}")


def _version_lines(one: PendingVersion, shaped: Sequence[ShapedLesson], store: Path) -> list[str]:
    return [
        f"{one.reference}  {count_words(one.lessons, 'lesson')}  not published",
        f"    {visible(one.reason)}",
        *(line for lesson in shaped[:_LESSONS_SHOWN] for line in _shaped_lines(one, lesson)),
        *([f"    and {len(shaped) - _LESSONS_SHOWN} more"] if len(shaped) > _LESSONS_SHOWN else []),
        f"    run {one.run}      {command_words('library', 'show', one.reference, store=store)}",
        f"    to publish it:  {command_words('library', 'approve', one.reference, store=store)}"
        + ("  (--without ID leaves a lesson out)" if shaped else ""),
        f"    to refuse it:   {command_words('library', 'reject', one.reference, store=store)}",
    ]


def _shaped_lines(version: PendingVersion, one: ShapedLesson) -> list[str]:
    alone = next((worth.delta.sentence for worth in version.alone if worth.lesson == one.lesson.id), "not measured")
    authors = ", ".join(author.words for author in one.lesson.origin.strangers)
    attempts = " and ".join(f"{rollout} ({reward:.2f})" for rollout, reward in one.attempts)
    return [
        f"    {one.lesson.id[:_ID_SHOWN]}  {visible(one.lesson.lesson)}",
        f"      written after reading {visible(authors)}",
        *([f"      nearest sentence: {visible(one.sentence[:_SENTENCE_SHOWN])!r}"] if one.sentence else []),
        *([f"      it stands in {visible(one.said_by)}"] if one.sentence else []),
        *([f"      lowest and highest attempt: {attempts}"] if attempts else []),
        f"      by itself: {alone}",
    ]


def _version_json(one: PendingVersion, shaped: Sequence[ShapedLesson]) -> dict[str, Any]:
    return {
        "library": one.library,
        "version": one.version,
        "lessons": one.lessons,
        "reason": one.reason,
        "domain": one.domain,
        "run": one.run,
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


def _pending_lines(one: PendingLesson, store: Path) -> list[str]:

    proposal, row = one.row.ended.proposal, one.row
    shown = list(proposal.evidence[:_ROLLOUTS_SHOWN])
    more = len(proposal.evidence) - len(shown)
    rollouts = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return [
        f"{proposal.id[:_ID_SHOWN]}  {one.library}  {one.end.code}",
        f"    {visible(operation_words(one.operation, proposal.raw, {}))}",
        f"    {visible(one.end.reason)}",
        f"    run {row.run}, {row.phase}/{row.batch}; from {rollouts or 'no rollout'}",
        *([f"    {command_words('trace', shown[0], store=store)}"] if shown else []),
    ]


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
