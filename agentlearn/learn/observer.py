"""What an onlooker of a run is told. The loop calls it in its own thread of control: methods must be quick."""

from agentlearn.calls.account import Account
from agentlearn.calls.endpoint import Endpoint
from agentlearn.learn.learner import Update
from agentlearn.learn.report import EpochLine, LearnReport
from agentlearn.task import Task
from agentlearn.trajectory import Trajectory


class Observer:
    """Does nothing with anything; override what you want to see."""

    def opened(self, account: Account, endpoint: Endpoint, train: tuple[Task, ...], test: tuple[Task, ...]) -> None:
        """Everything is open and the tasks are known. `account.stop` ends the run once its calls in flight are done."""

    def phase_started(self, phase: str, rollouts: int) -> None:
        """`before`, `epoch-N` or `after` begins, with so many rollouts."""

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        """One rollout is stored."""

    def updated(self, step: str, update: Update) -> None:
        """A batch was learned from."""

    def epoch_done(self, line: EpochLine) -> None:
        """A pass over the tasks is over."""

    def done(self, report: LearnReport) -> None:
        """The run is over."""
