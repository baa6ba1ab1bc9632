"""What the names of a library mean after a number of changes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentlearn.library.history.change import Change
from agentlearn.types.ids import LibraryVersion

MAIN = "main"
"""The branch that every library has. The name of a library alone means its current version."""

HeadEntry = tuple[LibraryVersion, datetime]
"""A version, and when the library's name began to mean it."""


@dataclass(frozen=True, slots=True)
class LibraryState:
    """What the names of a library mean."""

    branches: dict[str, LibraryVersion] = field(default_factory=dict[str, LibraryVersion])
    """The current version of each branch."""
    tags: dict[str, LibraryVersion] = field(default_factory=dict[str, LibraryVersion])
    """The version of each tag, which never changes."""
    pinned: LibraryVersion | None = None
    """The version that the library's name means until it is unpinned; None: the current version of `main`."""

    @property
    def current(self) -> LibraryVersion | None:
        """The version that the library's name means; None before the first change of `main`."""
        return self.pinned or self.branches.get(MAIN)

    def after(self, change: Change) -> "LibraryState":
        """The state after one more change."""
        match change.kind:
            case "pin":
                return replace(self, pinned=change.version)
            case "unpin":
                return replace(self, pinned=None)
            case "tag":
                return replace(self, tags={**self.tags, change.label: change.version})
            case _:
                return replace(self, branches={**self.branches, change.branch: change.version})


def state_after(changes: Iterable[Change]) -> LibraryState:
    """Return the state after all of these changes."""
    state = LibraryState()
    for change in changes:
        state = state.after(change)
    return state


def head_entries(changes: Iterable[Change]) -> tuple[HeadEntry, ...]:
    """Return each version that the library's name came to mean, with the time, oldest first."""
    state, entries = LibraryState(), list[HeadEntry]()
    for change in changes:
        before, state = state.current, state.after(change)
        if state.current is not None and state.current != before:
            entries.append((state.current, change.at))
    return tuple(entries)
