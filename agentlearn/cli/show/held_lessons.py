"""Lessons that a library holds back until a person approves them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlearn.errors import LibraryError, StoreMissing
from agentlearn.library import LibraryStore
from agentlearn.library.history import History
from agentlearn.text import visible
from agentlearn.types.experience import Withheld

_ID = 12


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A pending lesson of the newest version of a library's branch main."""

    history: History
    withheld: Withheld


def held_lessons(libraries: LibraryStore, name: str | None = None) -> list[HeldBack]:
    """The pending lessons of all libraries, or of one."""
    histories = [libraries.history(one) for one in libraries.names() if name in {None, one}]
    return [
        HeldBack(history, one)
        for history in histories
        for one in history.load("main").withheld
        if one.status == "pending"
    ]


def find_held(store: Path, prefix: str) -> HeldBack | None:
    """The only pending lesson of a library whose id starts with the prefix; None where nothing fits.

    Raises LibraryError where several lessons fit, also those that a run holds.
    """
    matching = [
        one for one in held_lessons(LibraryStore(store / "libraries")) if one.withheld.experience.id.startswith(prefix)
    ]
    if not matching or not prefix:
        return None
    of_runs = _of_runs(store, prefix)
    if len(matching) + len(of_runs) > 1:
        ids = [*(one.withheld.experience.id for one in matching), *of_runs]
        listed = ", ".join(repr(one[:_ID]) for one in ids)
        raise LibraryError(
            f"{len(ids)} lessons that wait have an id that starts with {prefix!r} (found: {listed}); give more of the"
            " one that you mean",
            code="ambiguous",
        )
    return matching[0]


def held_lines(one: HeldBack) -> list[str]:
    """A pending lesson as text."""
    lesson = one.withheld.experience
    reason = visible(one.withheld.reason) or "no reason is stored"
    return [f"{lesson.id[:_ID]}  {one.history.name}  pending", f"    {visible(lesson.lesson)}", f"    {reason}"]


def held_json(one: HeldBack) -> dict[str, Any]:
    """A pending lesson for JSON output."""
    lesson = one.withheld.experience
    return {
        "id": lesson.id,
        "code": "pending",
        "reason": one.withheld.reason,
        "lesson": lesson.lesson,
        "library": one.history.name,
    }


def _of_runs(store: Path, prefix: str) -> list[str]:
    from agentlearn.learning.lessons.pending_versions import pending_lessons
    from agentlearn.store import read_store

    try:
        with read_store(store) as reader:
            ids = [one.row.ended.proposal.id for one in pending_lessons(reader)]
    except StoreMissing:
        return []
    return [one for one in ids if one.startswith(prefix)]
