"""What the loop needs of a way of learning. Training-free and gradient GRPO are two learners over one loop."""

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
    """The state moved on."""

    outcome: Literal["advanced"] = "advanced"
    version: str
    """What is in use now: a library's version, or the hash of weights."""
    parent: str


class Held(Value):
    """The state stayed as it was."""

    outcome: Literal["held"] = "held"
    reason: str


class Pending(Value):
    """A new state waits for a gate; the old one stays in use."""

    outcome: Literal["pending"] = "pending"
    version: LibraryVersion


class RolledBack(Value):
    """An earlier state came back."""

    outcome: Literal["rolled_back"] = "rolled_back"
    version: LibraryVersion
    reason: str


Outcome = Advanced | Held | Pending | RolledBack


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an update rests on, for the store and the report."""

    ended: tuple[Ended, ...] = ()
    """Every proposal of the batch with its end."""
    groups: dict[str, int] = field(default_factory=dict[str, int])
    """Groups by kind: mixed, all_right, all_wrong, undecided, failed."""
    faults: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Per stage, misshapen replies and lost units by code."""
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Numbers of the update, by name; kept in the store."""


@dataclass(frozen=True, slots=True)
class Update:
    """What one batch did to the state."""

    outcome: Outcome
    library: Library
    """In use from now on."""
    evidence: Evidence


class Learner(Protocol):
    """A way of learning over groups."""

    @property
    def library(self) -> Library:
        """The library in use."""
        ...

    @property
    def done(self) -> int:
        """Batches that the state has learned from already: a run that is taken up again goes on after them."""
        ...

    def assign(self, task: Task, g: int) -> Treatment:
        """What the g-th rollout of a task is run under; depends on (seed, task, g), never on time or order."""
        ...

    async def update(self, groups: AsyncIterable[Group], *, step: str) -> Update:
        """Learn from a batch. Groups come as they complete; the result depends on the set, not on the order.

        step: where in the run, such as `epoch-1/2`.
        """
        ...

    def snapshot(self) -> str:
        """The state as JSON."""
        ...

    def restore(self, snapshot: str) -> None:
        """Take up a state that `snapshot` gave."""
        ...
