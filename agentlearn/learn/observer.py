"""What an onlooker of a run is told. The loop calls it in its own thread of control: methods must be quick."""

from agentlearn.calls.account import Account
from agentlearn.calls.endpoint import Endpoint
from agentlearn.group import GroupKind
from agentlearn.learn.caution import Caution
from agentlearn.learn.gradient.report import TrainReport
from agentlearn.learn.learner import Update
from agentlearn.learn.report import EpochLine, LearnReport, Score
from agentlearn.task import Task
from agentlearn.trajectory import Trajectory


class Observer:
    """Does nothing with anything; override what you want to see."""

    def opened(
        self,
        account: Account,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        """Everything is open and the tasks are known. `account.stop` ends the run once its calls in flight are done.

        reflector: the stages' endpoint; the same object where they ask the rollouts' own.
        """

    def phase_started(self, phase: str, rollouts: int) -> None:
        """`before`, `epoch-N` or `after` begins, with so many rollouts."""

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """One rollout is stored."""

    def group_done(self, kind: GroupKind) -> None:
        """All rollouts of one task in one batch are judged; only a mixed group teaches."""

    def warned(self, caution: Caution) -> None:
        """Something wants mending; each caution is told once, with the figures of that moment."""

    def updated(self, step: str, update: Update) -> None:
        """A batch was learned from."""

    def epoch_done(self, line: EpochLine) -> None:
        """A pass over the tasks is over."""

    def measured(self, updates: int, score: Score) -> None:
        """The held-out tasks were measured in the midst of learning, after so many updates."""

    def done(self, report: LearnReport) -> None:
        """The run that learned lessons is over."""

    def trained(self, report: TrainReport) -> None:
        """The run that trained weights is over."""
