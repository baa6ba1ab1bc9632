"""Callbacks of a run, for progress displays and for programs. The loop calls them directly, so they must be quick."""

import threading
from pathlib import Path
from typing import Any

from agentlearn.learning.learner import Update
from agentlearn.learning.report import EpochLine, HeldOutScore, LearnReport
from agentlearn.learning.warnings import RunWarning
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.printing import is_seen_on_stderr
from agentlearn.types.experience import Library
from agentlearn.types.group import GroupKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


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
        """Called when `epoch-N`, `during:N`, `before` or `after` starts, or a round of `validation:VERSION`.

        rollouts: how many it has at most. `before+after`: both are measured at once, interleaved. So are all versions
        of a round.
        """

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """Called when a rollout is stored."""

    def group_stopped(self, phase: str, saved: int) -> None:
        """Called when a group ends early because its rewards agree. saved: rollouts that are not made."""

    def group_done(self, kind: GroupKind) -> None:
        """Called when all rollouts of one task in one batch are judged. Only a `mixed` group teaches."""

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
