"""Canaries of a library: versions that a share of episodes reads, as its history says. Functions of the changes alone.

A canary begins with a change `canary`. It ends with `promote` or `end_canary`, and with every change after which the
library's name means another version, because it was compared with the version before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from agentlearn.library.history.change_log import Change, LibraryState
from agentlearn.types.ids import LibraryVersion

DEFAULT_MARGIN = 0.02
"""2 points of reward."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A version that a share of episodes reads, or did."""

    version: LibraryVersion
    baseline: LibraryVersion
    """The version that all other episodes read."""
    shares: tuple[tuple[datetime, float], ...]
    """Each share of episodes, above 0 and at most 1/2, and since when, oldest first."""
    margin: float
    """By how much its mean reward may be lower, at most, for the version to be promoted."""
    who: str
    """Who started it."""
    started: int
    """Number of the change that began it."""
    ended: Change | None = None
    """The change that ended it; None while it runs."""
    feedback_days: float | None = None
    """Days that an episode without feedback is waited for; None: as long as feedback is seen to take."""

    @property
    def since(self) -> datetime:
        """When it began."""
        return self.shares[0][0]

    @property
    def share(self) -> float:
        """The share of episodes that read it last."""
        return self.shares[-1][1]

    def share_at(self, at: datetime) -> float:
        """The share of the episodes that began at a time; 0 before it began."""
        return next((share for since, share in reversed(self.shares) if since <= at), 0.0)


def canaries(changes: Iterable[Change]) -> tuple[Canary, ...]:
    """Return every canary of a library, oldest first. Only the last one can be running."""
    state, found = LibraryState(), list[Canary]()
    for change in changes:
        before = state.current
        state.take(change)
        running = found.pop() if found and found[-1].ended is None else None
        if change.kind == "canary" and change.share and before is not None:
            if running is None or running.version != change.version:
                found += [] if running is None else [replace(running, ended=change)]
                asked = (change.margin or 0.0, change.who, change.number, None, change.feedback_days)
                running = Canary(change.version, before, (), *asked)
            running = replace(running, shares=(*running.shares, (change.at, change.share)))
        elif running is not None and (change.kind in {"end_canary", "pin"} or state.current != before):
            running = replace(running, ended=change)
        found += [] if running is None else [running]
    return tuple(found)


def running_canary(changes: Iterable[Change]) -> Canary | None:
    """Return the canary that runs; None when none does."""
    return next((one for one in canaries(changes)[-1:] if one.ended is None), None)
