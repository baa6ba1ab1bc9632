"""The interface between the loop and a way of learning. Training-free and gradient GRPO both implement it."""

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.operation import Ended
from agentlearn.types.task import Task
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value


class Advanced(Value):
    """The update changed the state."""

    outcome: Literal["advanced"] = "advanced"
    version: str
    """The new state: a library version, or the step of the weights."""
    parent: str
    """The state before the update."""


class Held(Value):
    """The update changed nothing."""

    outcome: Literal["held"] = "held"
    reason: str


class Pending(Value):
    """A new library version waits for approval; the old one stays in use."""

    outcome: Literal["pending"] = "pending"
    version: LibraryVersion


class RolledBack(Value):
    """An earlier library version is in use again."""

    outcome: Literal["rolled_back"] = "rolled_back"
    version: LibraryVersion
    reason: str


Outcome = Advanced | Held | Pending | RolledBack


@dataclass(frozen=True, slots=True)
class Evidence:
    """Details of an update, for the store and the report."""

    ended: tuple[Ended, ...] = ()
    """Every proposal of the batch, with what became of it."""
    groups: dict[str, int] = field(default_factory=dict[str, int])
    """Number of groups by kind."""
    faults: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Per stage, malformed replies and failed units of work by error code."""
    notes: tuple[str, ...] = ()
    """Notes for the report."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers of the update by name, kept in the store."""


@dataclass(frozen=True, slots=True)
class Update:
    """The result of learning from one batch."""

    outcome: Outcome
    library: Library
    """Library in use from now on."""
    evidence: Evidence
    ends: str = ""
    """Why the run ends after this update; empty: it goes on."""


class Learner(Protocol):
    """Learns from groups of rollouts."""

    @property
    def library(self) -> Library:
        """The library in use."""
        ...

    @property
    def done(self) -> int:
        """Number of batches that the state includes; a resumed run continues after them."""
        ...

    def assign(self, task: Task, g: int) -> Treatment:
        """Return the treatment of the g-th rollout of a task. It depends on (seed, task, g), not on time or order."""
        ...

    async def update(self, groups: AsyncIterable[Group], *, step: str) -> Update:
        """Learn from a batch. Groups arrive as they complete; the result does not depend on their order.

        step: name of the update, such as `epoch-1/2`.
        """
        ...
