"""What an onlooker of a run is told. The loop calls it in its own thread of control: methods must be quick."""

from agentlearn.learn.learner import Update
from agentlearn.learn.report import EpochLine, HeldOutScore, LearnReport
from agentlearn.learn.warnings import RunWarning
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.types.group import GroupKind
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


class Callbacks:
    """Does nothing with anything; override what you want to see."""

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        """Called once the models are open and the tasks are known. `call_context.stop` ends the run.

        reflector: the stages' endpoint; the same object where they ask the rollouts' own.
        """

    def phase_started(self, phase: str, rollouts: int) -> None:
        """`before`, `epoch-N` or `after` begins, with so many rollouts."""

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """One rollout is stored."""

    def group_done(self, kind: GroupKind) -> None:
        """All rollouts of one task in one batch are judged; only a mixed group teaches."""

    def warned(self, warning: RunWarning) -> None:
        """Something wants mending; each caution is told once, with the figures of that moment."""

    def updated(self, step: str, update: Update) -> None:
        """A batch was learned from."""

    def epoch_done(self, line: EpochLine) -> None:
        """A pass over the tasks is over."""

    def measured(self, updates: int, score: HeldOutScore) -> None:
        """The held-out tasks were measured in the midst of learning, after so many updates."""

    def done(self, report: LearnReport) -> None:
        """The run that learned lessons is over."""
