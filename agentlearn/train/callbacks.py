"""Callbacks of a training run."""

from agentlearn.learning.callbacks import Callbacks
from agentlearn.train.report import TrainReport


class TrainCallbacks(Callbacks):
    """Callbacks of a training run: those of every run, and one for its report."""

    def trained(self, report: TrainReport) -> None:
        """Called once when the training run has finished."""
