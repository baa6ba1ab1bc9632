"""Callbacks of a run, for progress displays and for programs. The loop calls them directly, so they must be quick."""

import threading
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agentlearn.learning.report import EpochLine, HeldOutScore, LearnReport
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.text.printing import is_seen_on_stderr
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, GroupKind
from agentlearn.types.ids import LibraryVersion
from agentlearn.types.operation import Ended
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment
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


class RolledBack(Value):
    """An earlier library version is in use again."""

    outcome: Literal["rolled_back"] = "rolled_back"
    version: LibraryVersion
    reason: str


Outcome = Advanced | Held | RolledBack


@dataclass(frozen=True, slots=True)
class Evidence:
    """Details of an update, for the store and the report."""

    ended: tuple[Ended, ...] = ()
    """Every proposal of the batch, with what became of it."""
    groups: dict[str, int] = field(default_factory=dict[str, int])
    """Number of groups by kind."""
    taught: dict[str, int] = field(default_factory=dict[str, int])
    """Number of groups by `GroupUse`: what they taught from, or why they were left out."""
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


WarningCode = Literal[
    "groups", "undecided", "failed", "limiter", "unpriced", "malformed", "fallen", "unprotected", "chat_template"
]


class RunWarning(Value):
    """A problem that the user can do something about."""

    code: WarningCode
    subject: str = ""
    """What it is about, where there can be several: the kind of group, the error code, the stage, or the epoch."""
    words: str
    """The warning in one sentence."""


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

    async def update(self, groups: AsyncIterable[Group], *, step: str, tasks: Sequence[Task] = ()) -> Update:
        """Learn from a batch. Groups arrive as they complete; the result does not depend on their order.

        step: name of the update, such as `epoch-1/2`. tasks: those of the batch.
        """
        ...


class Callbacks:
    """Base class whose methods do nothing; override those that you need."""

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        """Called once when the models are open and the tasks are known. `call_context.stop` ends the run.

        reflector: the endpoint that writes the lessons; the same object as `endpoint` when one model does both.
        """

    def starts_from(self, start: Library) -> None:
        """Called once after `opened`. start: the library that the run starts from."""

    def continued(self, updates: int) -> None:
        """Called once when a resumed run goes on learning. updates: updates that were made before."""

    def phase_started(self, phase: str, rollouts: int) -> None:
        """Called when `epoch-N`, `during:N`, `before` or `after` starts, a round of `validation:VERSION`, or a trial.

        Several changes may be tried at the same time.

        rollouts: how many it has at most. `before+after`: both are measured at once, interleaved. So are all versions
        of a round.
        """

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """Called when a rollout is stored."""

    def group_stopped(self, phase: str, saved: int) -> None:
        """Called when a group ends early because its rewards agree. saved: rollouts that are not made."""

    def group_done(self, kind: GroupKind) -> None:
        """Called when all rollouts of one task in one batch are judged."""

    def warned(self, warning: RunWarning) -> None:
        """Called once for each warning, with the numbers of that moment."""

    def service_changed(self, words: str, silent: bool) -> None:
        """Called when a model service has fallen silent and the run waits for it, and when it answers again.

        silent: whether the run waits.
        """

    def updated(self, step: str, update: Update) -> None:
        """Called when a batch has been learned from. step: such as `epoch-1/2`."""

    def epoch_done(self, line: EpochLine) -> None:
        """Called at the end of each pass over the tasks."""

    def measured(self, updates: int, score: HeldOutScore) -> None:
        """Called when held-out tasks were measured during learning. updates: updates made so far."""

    def saved_early(self, path: Path, updates: int) -> None:
        """Called when a run that trains weights ends early. path: checkpoint after this number of updates."""

    def done(self, report: LearnReport) -> None:
        """Called when a run that learns lessons has finished."""


def wants_progress(progress: bool | None, callbacks: object | None) -> bool:
    """Whether a call from Python prints its progress on stderr.

    Unless the program says so, it does where a person may see it: on a terminal, from the main thread, and without
    callbacks of the program.
    """
    if progress is not None:
        return progress
    alone = callbacks is None and threading.current_thread() is threading.main_thread()
    return alone and is_seen_on_stderr()


def calling_both(shown: Any, own: Any, base: type) -> Any:
    """Callbacks of the class `base` that call each method of a progress display, then that of the program's own."""
    if own is None:
        return shown

    def method(name: str) -> Any:
        def call(_: object, *args: Any, **kwargs: Any) -> None:
            getattr(shown, name)(*args, **kwargs)
            getattr(own, name)(*args, **kwargs)

        return call

    names = [name for name, found in vars(base).items() if callable(found) and not name.startswith("_")]
    return type(f"Shown{base.__name__}", (base,), {name: method(name) for name in names})()
