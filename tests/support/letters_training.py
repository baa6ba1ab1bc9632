"""Training runs of a tiny model on tasks of one word: tasks, settings, and runs that are stopped and resumed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentlearn.errors import AgentlearnError, Interrupted
from agentlearn.learning.callbacks import Update
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import Endpoint
from agentlearn.store import read_store
from agentlearn.train.report import TrainCallbacks, TrainReport
from agentlearn.train.run_training import run_training
from agentlearn.train.settings import resumed_train_settings, train_settings
from agentlearn.types.ids import RunId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory

WORDS = ("plum", "fig", "date", "pear", "lime", "kiwi", "melon", "quince")


def one_word_tasks(file: Path, *words: str) -> Path:
    """Write a task for each word."""
    file.write_text("".join(json.dumps({"problem": f"Say {one}.", "answer": one}) + "\n" for one in words))
    return file


def letters_fields(model: Path | str, tasks: Path, store: Path, **changes: Any) -> dict[str, Any]:
    """The settings of a small run. A change of `gradient` is added to its settings."""
    gradient = {"learning_rate": 1e-2} | changes.pop("gradient", {"loss": "grpo"})
    return {
        "domain": "letters",
        "reward": "tests.support.letters:share_of_early_letters",
        "data": str(tasks),
        "test_share": 0.0,
        "evaluate": False,
        "model": str(model),
        "epochs": 1,
        "batch_size": 2,
        "group_size": 4,
        "max_output_tokens": 8,
        "report_to": "none",
        "store": store,
        "gradient": gradient,
    } | changes


def trained(fields: dict[str, Any], callbacks: TrainCallbacks | None = None) -> TrainReport:
    """Train. Fails after two minutes."""

    async def run() -> TrainReport:
        async with asyncio.timeout(120):
            return await run_training(train_settings(fields), callbacks)

    return asyncio.run(run())


def stopped(fields: dict[str, Any], callbacks: TrainCallbacks, why: type[AgentlearnError] = Interrupted) -> RunId:
    """Train until the callbacks stop the run, and return its id."""
    with pytest.raises(why):
        trained(fields, callbacks)
    return run_in(fields["store"])


def run_in(store: Path) -> RunId:
    """The id of the only run of a store, which is interrupted."""
    with read_store(store) as reader:
        (run,) = reader.runs()
    assert run.state == "interrupted"
    return run.run


def resumed(store: Path, callbacks: TrainCallbacks | None = None) -> TrainReport:
    """Train on after a stop."""
    run, settings = resumed_train_settings(run_in(store), store, {})
    return asyncio.run(run_training(settings, callbacks, resume=run))


class Stopping(TrainCallbacks):
    """Stops a run at the first rollout that ends after some updates, at a rollout, or after an update that ends it."""

    def __init__(
        self, after: int = -1, why: AgentlearnError | None = None, *, rollouts: int = 0, at_end: bool = False
    ) -> None:
        self.after, self.why, self.updates = after, why or Interrupted("stopped by the test"), 0
        self.rollouts, self.at_end = rollouts, at_end
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

    def stop(self) -> None:
        """Stop the run now."""
        if self.call_context.stopped is None:
            self.call_context.stop(self.why)

    def updated(self, step: str, update: Update) -> None:
        self.updates += 1
        if self.at_end and update.ends:
            self.stop()

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        self.rollouts -= 1
        if self.updates == self.after or self.rollouts == 0:
            self.stop()

    def saved_early(self, path: Path, updates: int) -> None:
        self.saved.append((path, updates))
