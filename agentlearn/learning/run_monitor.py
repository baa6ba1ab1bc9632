"""Counts what happens in a run and reports it to the callbacks."""

from dataclasses import dataclass, field, replace

from agentlearn.config import RunSettings
from agentlearn.config.command_words import command_words
from agentlearn.learning.batch import Batch
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.learner import Update
from agentlearn.learning.run_stats import RunStats
from agentlearn.learning.warnings import RunWarning, fallen_reward, run_warnings
from agentlearn.log import get_log
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.types.group import GroupKind
from agentlearn.types.trajectory import Trajectory


@dataclass(slots=True)
class RunMonitor:
    """Keeps a run's counts up to date, calls its callbacks, and reports each warning once."""

    settings: RunSettings
    call_context: CallContext
    callbacks: Callbacks
    endpoint_states: tuple[EndpointState, ...]
    """State of every endpoint in use, each once."""
    stats: RunStats = field(default_factory=RunStats)
    _reported: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Code and subject of the warnings that were reported."""
    _noticed: list[RunWarning] = field(default_factory=list[RunWarning])
    """Warnings that do not depend on the counts of the moment."""

    def __post_init__(self) -> None:
        for state in self.endpoint_states:
            state.outage.tell = self.callbacks.service_changed

    def rollout_done(self, trajectory: Trajectory) -> None:
        """Count a finished rollout and report it."""
        if (failure := trajectory.failure) is not None:
            get_log(task=trajectory.task, rollout=trajectory.id).warning(
                "rollout.failed", code=failure.code, boundary=failure.boundary, reason=failure.message
            )
        self.stats.add_rollout(trajectory)
        self.callbacks.rollout_done(trajectory.phase, trajectory)
        self._report_warnings()

    def stored_rollout_read(self, batch: Batch, trajectory: Trajectory) -> None:
        """Count a rollout that another run made and report it."""
        self.stats.add_stored_rollout(batch.epoch, trajectory)
        self.callbacks.rollout_done(batch.phase, trajectory)

    def group_stopped(self, batch: Batch, saved: int) -> None:
        """Count a group that stopped early and report it. saved: rollouts that it did not need."""
        self.stats.add_stopped(saved)
        self.callbacks.group_stopped(batch.phase, saved)

    def group_done(self, kind: GroupKind) -> None:
        """Count a complete group and report it."""
        self.stats.add_group(kind)
        self.callbacks.group_done(kind)
        self._report_warnings()

    def updated(self, batch: Batch, update: Update) -> None:
        """Count an update and report it."""
        self.stats.add_update(batch.epoch, update)
        self.callbacks.updated(batch.step, update)
        self._report_warnings()

    def notice(self, warning: RunWarning) -> None:
        """Report a warning that holds until the end of the run."""
        self._noticed.append(warning)
        self._report_warnings()

    def epoch_done(self, epoch: int, best: str) -> None:
        """Warn if the reward fell in an epoch that is over. best: the best version so far, in words."""
        warning = fallen_reward(
            epoch,
            self.stats.task_rewards(epoch - 1),
            self.stats.task_rewards(epoch),
            comparisons=max(1, self.settings.epochs - 1),
            seed=self.settings.seed,
            best=best,
        )
        if warning is not None:
            self.notice(warning)

    def refuse_silence(self) -> None:
        """Raise an error when a model has answered none of its calls. Call it when no call is in flight."""
        for state in self.endpoint_states:
            state.refuse_silence(self.call_context.budget)

    def warnings(self, *, ended: bool = False) -> tuple[RunWarning, ...]:
        """Return all warnings that hold now. ended: whether no more groups will follow."""
        snapshot = self.stats.snapshot(self.settings, self.call_context.budget, self.endpoint_states)
        trace = command_words("trace", self.call_context.run, store=self.settings.store)
        return (*run_warnings(replace(snapshot, trace=trace), ended=ended), *self._noticed)

    def _report_warnings(self) -> None:
        """Report each warning once."""
        for warning in self.warnings():
            if (warning.code, warning.subject) not in self._reported:
                self._reported.add((warning.code, warning.subject))
                self.callbacks.warned(warning)
