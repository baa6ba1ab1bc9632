"""`agentlearn library pending`, `approve` and `reject`: a person decides on lessons that may be harmful."""

import asyncio
import getpass
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from agentlearn.cli.options import JsonOption, StoreOption
from agentlearn.cli.output import console, print_json
from agentlearn.config import DEFAULT_STORE
from agentlearn.config.command_words import command_words
from agentlearn.text import visible

if TYPE_CHECKING:
    from agentlearn.learning.lessons.quarantine import Approved, PendingLesson
    from agentlearn.types.decision import LessonDecision

LessonId = Annotated[str, Parameter(help="Id of a lesson that `library pending` lists; its start is enough.")]
NoteOption = Annotated[str, Parameter(help="A remark that is stored with the decision.")]
_ID_SHOWN = 12
_ROLLOUTS_SHOWN = 3


def library_pending(
    domain: Annotated[str | None, Parameter(help="Only lessons for this domain or library.")] = None,
    /,
    *,
    run: Annotated[str | None, Parameter(help="Only lessons of this run; the start of its id is enough.")] = None,
    store: StoreOption = DEFAULT_STORE,
    json: JsonOption = False,
) -> None:
    """List the lessons that wait for your decision, with the doubt and the rollouts they come from."""
    from agentlearn.learning.lessons.quarantine import pending_lessons
    from agentlearn.store import read_store

    with read_store(store) as reader:
        waiting = pending_lessons(reader, domain=domain, run=run)
    if json:
        print_json({"pending": [_pending_json(one) for one in waiting]})
        return
    out = console()
    if not waiting:
        out.print("no lesson waits for a decision")
    for one in waiting:
        for line in _pending_lines(one, store):
            out.print(line)
    if waiting:
        out.print(f"to add one:    {command_words('library', 'approve', 'ID', store=store)}")
        out.print(f"to refuse one: {command_words('library', 'reject', 'ID', store=store)}")


def library_approve(
    lesson: LessonId, /, *, note: NoteOption = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Add a quarantined lesson to the current version of its library, and publish the result.

    The other rules still hold. Your account's name, the time and the note are stored.
    """
    approved = asyncio.run(_approve(store, lesson, note))
    decision = approved.decision
    if json:
        print_json({"decision": decision.model_dump(mode="json"), "lessons": len(approved.library)})
        return
    show = command_words("library", "show", decision.library, store=store)
    version = approved.library.version[:8]
    console().print(f"approved: {decision.library}@{version} has {len(approved.library)} lessons      {show}")


def library_reject(
    lesson: LessonId, /, *, note: NoteOption = "", store: StoreOption = DEFAULT_STORE, json: JsonOption = False
) -> None:
    """Refuse a quarantined lesson. Later runs refuse the same words without asking.

    Your account's name, the time and the note are stored.
    """
    decision = asyncio.run(_reject(store, lesson, note))
    if json:
        print_json({"decision": decision.model_dump(mode="json")})
        return
    console().print(f"rejected: {decision.proposal[:_ID_SHOWN]}; later runs refuse the same lesson")


async def _approve(store: Path, lesson: str, note: str) -> "Approved":
    from agentlearn.learning.lessons.quarantine import approve
    from agentlearn.library import LibraryStore
    from agentlearn.store import open_store

    async with open_store(store, create=False) as opened:
        libraries = LibraryStore(store / "libraries")
        return await approve(opened, libraries, lesson, who=_who(), note=note, at=datetime.now(UTC))


async def _reject(store: Path, lesson: str, note: str) -> "LessonDecision":
    from agentlearn.learning.lessons.quarantine import reject_lesson
    from agentlearn.store import open_store

    async with open_store(store, create=False) as opened:
        return await reject_lesson(opened, lesson, who=_who(), note=note, at=datetime.now(UTC))


def _who() -> str:
    """The name of this account, or its number when it has none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def _pending_lines(one: "PendingLesson", store: Path) -> list[str]:
    from agentlearn.cli.show.proposal_words import operation_words

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


def _pending_json(one: "PendingLesson") -> dict[str, Any]:
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
