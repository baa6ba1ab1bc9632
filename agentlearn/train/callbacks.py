"""Callbacks of a training run."""

from agentlearn.learn.callbacks import Callbacks
from agentlearn.train.report import TrainReport


class TrainCallbacks(Callbacks):
    """The callbacks of every run, and one more for the report of a training run."""

    def trained(self, report: TrainReport) -> None:
        """Called once when the training run has finished."""
