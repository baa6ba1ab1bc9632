"""Training runs of a tiny model on tasks of one word: the tasks, and callbacks that stop a run."""

import json
from pathlib import Path

from agentlearn.errors import AgentlearnError, Interrupted
from agentlearn.learning.callbacks import Update
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.train.report import TrainCallbacks
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


def one_word_tasks(file: Path, *words: str) -> Path:
    """Write a task for each word."""
    file.write_text("".join(json.dumps({"problem": f"Say {one}.", "answer": one}) + "\n" for one in words))
    return file


class Stopping(TrainCallbacks):
    """Stops the run at the first rollout that ends after some updates."""

    def __init__(self, after: int, why: AgentlearnError | None = None) -> None:
        self.after, self.why, self.updates = after, why or Interrupted("stopped by the test"), 0
        self.saved: list[tuple[Path, int]] = []

    def opened(
        self,
        call_context: CallContext,
        endpoint: Endpoint,
        reflector: Endpoint,
        train: tuple[Task, ...],
        test: tuple[Task, ...],
    ) -> None:
        self.call_context = call_context

    def updated(self, step: str, update: Update) -> None:
        self.updates += 1

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        if self.updates == self.after and self.call_context.stopped is None:
            self.call_context.stop(self.why)

    def saved_early(self, path: Path, updates: int) -> None:
        self.saved.append((path, updates))
