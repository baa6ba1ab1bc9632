"""From a lesson back to the rollouts that it was learned from, and from a rollout or a task on to its lessons."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agentlearn.cli.show.change_lines import change_words
from agentlearn.cli.show.origins import lesson_origins, origins_json
from agentlearn.config.command_words import command_words
from agentlearn.library import LibraryStore
from agentlearn.library.history import BlamedLesson
from agentlearn.library.history.lesson_blame import HeldLesson
from agentlearn.store import ProposalRow, StoreReader, read_store
from agentlearn.types.experience import Library

_ID = 12


def blame_lines(store: Path, name: str, chain: Sequence[BlamedLesson]) -> Iterator[str]:
    """A lesson and those before it, each with its changes, its proposal and its groups."""
    origins = lesson_origins(store, _as_library(chain))
    for one in chain:
        lesson = one.experience
        yield f"{lesson.id[:_ID]}  {lesson.lesson}"
        yield f"    {one.status or 'not in the current version'}; {_kind(one)}"
        if one.brought is not None:
            yield f"    brought by change {one.brought.number} ({change_words(one.brought)})"
        if one.left is not None:
            yield f"    left with change {one.left.number} ({change_words(one.left)})"
        for origin in origins.get(lesson.id, ()):
            yield f"    proposal {origin.proposal[:_ID]} of run {origin.run}, {origin.phase}/{origin.batch}"
            for group in origin.groups:
                yield f"    from group {group}: {command_words('trace', group, store=store)}"
        known = {held.experience.id for held in chain}
        for parent in one.replaces:
            gone = "" if parent in known else ", which no version in the files holds"
            yield f"    replaces {parent[:_ID]}{gone}"
    yield f"all changes:  {command_words('library', 'log', name, store=store)}"


def blame_json(store: Path, chain: Sequence[BlamedLesson]) -> dict[str, Any]:
    """The same for JSON output."""
    origins = lesson_origins(store, _as_library(chain))
    return {"lessons": [one.model_dump(mode="json") for one in chain], "origins": origins_json(origins)}


def taught_by(store: Path, *, rollout: str | None, task: str | None) -> tuple[HeldLesson, ...]:
    """The lessons that were learned from a rollout or a task, and those made from them. Raises StoreError."""
    with read_store(store) as reader:
        rows = list(_of_rollout(reader, rollout) if rollout is not None else _of_task(reader, task or ""))
        approved = {(one.run, one.phase, one.batch, one.proposal): one.experience for one in reader.decisions()}
    made = [
        getattr(row.ended.end, "experience", None)
        or approved.get((row.run, row.phase, row.batch, row.ended.proposal.id))
        for row in rows
    ]
    return LibraryStore(store / "libraries").lessons_from([one for one in made if one is not None])


def taught_lines(taught: Sequence[HeldLesson]) -> Iterator[str]:
    """One block per lesson, with the versions that hold it."""
    if not taught:
        yield "no lesson in a published version was learned from it"
    for one in taught:
        yield f"{one.experience.id[:_ID]}  {one.experience.lesson}"
        for reference in one.versions:
            name, _, version = reference.partition("@")
            yield f"    in {name}@{version[:_ID]}"


def _of_rollout(reader: StoreReader, prefix: str) -> Iterable[ProposalRow]:
    rollout = reader.trajectory(prefix).id
    first = reader.proposals_from(rollout)
    return _carried(reader, first)


def _of_task(reader: StoreReader, prefix: str) -> Iterable[ProposalRow]:
    task = reader.task(prefix).id
    runs = [one.run for one in reader.runs(limit=1_000_000) if one.kind == "learn"]
    first = [row for run in runs for row in reader.proposals(run) if row.ended.proposal.task == task]
    return _carried(reader, first)


def _carried(reader: StoreReader, first: Sequence[ProposalRow]) -> list[ProposalRow]:
    """The proposals, and those of the same batches that carry them on."""
    wanted = {(row.run, row.phase, row.batch, row.ended.proposal.id) for row in first}
    carried = [
        row
        for run in dict.fromkeys(row.run for row in first)
        for row in reader.proposals(run)
        if any((row.run, row.phase, row.batch, one) in wanted for one in row.ended.proposal.rests_on)
    ]
    return [*first, *carried]


def _as_library(chain: Sequence[BlamedLesson]) -> Library:
    lessons = {one.experience.id: one.experience for one in chain}
    return Library(experiences=tuple(lessons.values()))


def _kind(one: BlamedLesson) -> str:
    match one.experience.origin.kind:
        case "person":
            return "written by a person"
        case "import":
            return "imported"
        case kind:
            return f"learned ({kind})"
