"""The changes of a library, the difference of two versions, and the conflicts of a join, as lines and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentlearn.cli.words import count_words
from agentlearn.errors import LibraryError
from agentlearn.library import LibraryStore
from agentlearn.library.history import MAIN, Change, History, JoinConflict, LibraryDiff
from agentlearn.library.history.history import JoinedLibraries
from agentlearn.types.experience import Experience

_ID = 12
_VERSION = 8


def change_lines(history: History, branch: str | None) -> Iterator[str]:
    """One line per change, newest first, and the tags and the pin above them. branch: only changes of this one."""
    state = history.state
    if state.pinned is not None:
        yield f"pinned: the name {history.name} means version {state.pinned[:_VERSION]}"
    for name, version in state.tags.items():
        yield f"tag {name}: version {version[:_VERSION]}"
    for name, version in state.branches.items():
        if name != MAIN:
            yield f"branch {name}: version {version[:_VERSION]}"
    for change in reversed(history.changes):
        if branch in {None, change.branch}:
            yield _change_line(history, change)


def log_json(history: History, store: Path, branch: str | None) -> dict[str, Any]:
    """The log for JSON output. `versions` has the versions that the name came to mean, newest first."""
    state = history.state
    versions = [asdict(one) for one in LibraryStore(store / "libraries").log(history.name)]
    return {
        "versions": [{**one, "at": one["at"].isoformat()} for one in versions],
        "changes": [one.model_dump(mode="json") for one in reversed(history.changes) if branch in {None, one.branch}],
        "branches": state.branches,
        "tags": state.tags,
        "pinned": state.pinned,
        "tip": history.tip,
    }


def change_words(change: Change) -> str:
    """Kind, author and note of a change."""
    kind = f"{change.kind} {change.label}" if change.label else change.kind
    where = f" on {change.branch}" if change.branch != MAIN else ""
    who = f" by {change.who}" if change.who else ""
    run = f" in run {change.run}" if change.run else ""
    accepted = f", accepted {', '.join(change.accepted)}" if change.accepted else ""
    return f"{kind}{where}{who}{run}{accepted}{f': {change.note}' if change.note else ''}"


def diff_lines(found: LibraryDiff) -> Iterator[str]:
    """One line per lesson that changed."""
    yield f"from version {found.before[:_VERSION]} to {found.after[:_VERSION]}"
    if found.empty:
        yield "both hold the same lessons in the same order"
    for one in found.added:
        yield f"+ {one.id[:_ID]}  {one.lesson}"
    for one in found.removed:
        yield f"- {one.id[:_ID]}  {one.lesson}"
    for edit in found.edited:
        yield f"~ {', '.join(one.id[:_ID] for one in edit.before)} -> {edit.after.id[:_ID]}  {edit.after.lesson}"
        for one in edit.before:
            yield f"    was: {one.lesson}"
        for words in edit.words:
            yield f"    {words.before or '(nothing)'} -> {words.after or '(nothing)'}"
    for one in found.moved:
        yield f"> {one.id[:_ID]}  moved: {one.lesson}"
    for change in found.status:
        yield f"! {change.experience.id[:_ID]}  {change.before} -> {change.after}: {change.experience.lesson}"


def conflict_lines(conflicts: Sequence[JoinConflict]) -> Iterator[str]:
    """The lessons that two libraries disagree on."""
    for number, one in enumerate(conflicts, 1):
        yield f"conflict {number}: {one.kind.replace('_', ' ')}"
        for side, lessons in (("before", one.base), ("ours", one.ours), ("theirs", one.theirs)):
            for lesson in lessons or ([None] if side != "before" else []):
                yield f"    {side:7} {_lesson(lesson)}"


def join_json(done: JoinedLibraries) -> dict[str, Any]:
    """A join for JSON output."""
    base = done.join.base
    return {
        "change": None if done.change is None else done.change.model_dump(mode="json"),
        "base": None if base is None else base.version,
        "theirs": done.theirs,
        "conflicts": [one.model_dump(mode="json") for one in done.join.conflicts],
        "taken": [one.model_dump(mode="json") for one in done.join.taken],
        "dropped": [one.model_dump(mode="json") for one in done.join.dropped],
    }


def _lesson(one: Experience | None) -> str:
    return "(removed)" if one is None else f"{one.id[:_ID]}  {one.lesson}"


def _change_line(history: History, change: Change) -> str:
    try:
        library = history.load(change.version)
        size = f"{count_words(len(library), 'lesson')}, {library.tokens} tokens"
    except LibraryError:
        size = "its file cannot be read"
    when = f"{change.at:%Y-%m-%d %H:%M}"
    return f"{history.name}@{change.version[:_VERSION]}  {size}  {when}  {change_words(change)}"
