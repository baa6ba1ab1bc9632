"""Sampling ahead of the updates with a served model: never further than allowed, and overlapping."""

import asyncio
import itertools
import json
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentlearn.errors import Interrupted  # noqa: E402
from agentlearn.learning.callbacks import Update  # noqa: E402
from agentlearn.store import read_store  # noqa: E402
from agentlearn.train import trainable  # noqa: E402
from agentlearn.train.report import TrainCallbacks  # noqa: E402
from agentlearn.train.run_training import run_training  # noqa: E402
from agentlearn.train.settings import (  # noqa: E402
    TrainSettings,
    resumed_train_settings,
    train_settings,
)
from agentlearn.types.task import Task  # noqa: E402
from agentlearn.types.trajectory import Trajectory  # noqa: E402
from tests.support.tiny_model import saved, tiny_network  # noqa: E402

STAND_IN = (sys.executable, "-m", "tests.support.vllm_stand_in")
_COUNT = itertools.count()
MOST = 3


def alternating(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 0 and 1 in turn, so that every group has both, as the stand-in always answers the same."""
    return float(next(_COUNT) % 2)


class Recording(TrainCallbacks):
    """Keeps what happens in order, and stops the run after some updates."""

    def __init__(self, stop_after: int = 0) -> None:
        self.said: list[tuple[str, Any]] = []
        self.stop_after, self.updates = stop_after, 0
        self.call_context: Any = None

    def opened(self, call_context: Any, *rest: Any) -> None:
        self.call_context = call_context

    def continued(self, updates: int) -> None:
        self.updates = updates

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        if phase.startswith("epoch"):
            self.said.append(("rollout", trajectory.batch))

    def updated(self, step: str, update: Update) -> None:
        self.updates += 1
        self.said.append(("updated", dict(update.evidence.metrics)))
        if self.updates == self.stop_after:
            self.call_context.stop(Interrupted("stopped by the test"))


def settings_in(folder: Path) -> TrainSettings:
    file = folder / "letters.jsonl"
    file.write_text("".join(json.dumps({"problem": f"Say {n}.", "answer": str(n)}) + "\n" for n in range(10)))
    model = saved(folder / "tiny", tiny_network(context=512))
    return train_settings(
        {
            "domain": "letters",
            "reward": "tests.e2e.test_train_ahead:alternating",
            "data": str(file),
            "test_share": 0.2,
            "eval_rollouts": 1,
            "eval_every": 3,
            "model": f"vllm:{model}",
            "max_staleness": MOST,
            "epochs": 1,
            "batch_size": 1,
            "group_size": 4,
            "concurrency": 2,
            "max_output_tokens": 4,
            "save_every": 2,
            "store": folder / "store",
            "gradient": {"learning_rate": 1e-3, "minibatches": 2},
        }
    )


def told(recording: Recording) -> list[dict[str, float]]:
    return [values for word, values in recording.said if word == "updated"]


def assert_bounded(updates: list[dict[str, float]]) -> None:
    for values in updates:
        ages = Counter(
            {int(name.split("/")[1]): rows for name, rows in values.items() if name.startswith("staleness/")}
        )
        assert max(ages) <= MOST
        assert ages.total() == values["rows"] == 4
        assert values["rows/stale"] == 0


@pytest.mark.slow
def test_sampling_overlaps_updates_and_is_at_most_three_batches_ahead_also_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(trainable, "vllm_endpoint", partial(trainable.vllm_endpoint, command=STAND_IN))
    settings = settings_in(tmp_path)
    first = Recording(stop_after=3)
    with pytest.raises(Interrupted):
        asyncio.run(run_training(settings, first))
    assert_bounded(told(first))
    ahead = [batch - sum(word == "updated" for word, _ in first.said[:at]) - 1
             for at, (word, batch) in enumerate(first.said) if word == "rollout"]  # fmt: skip
    assert 1 <= max(ahead) <= MOST
    with read_store(settings.store) as reader:
        (run,) = reader.runs()
    resumed, again = resumed_train_settings(run.run, settings.store, {})
    rest = Recording()
    report = asyncio.run(run_training(again, rest, resume=resumed))
    assert_bounded(told(rest))
    assert [line.update for line in report.updates] == list(range(1, 9))
    assert len(told(rest)) == 8 - 3  # a run that is stopped leaves a checkpoint of its last update
    assert report.stale == 0
    # Stopped between its third update and the measurement that was due after it, the resumed run measures first.
    assert [point.updates for point in report.curve] == [0, 3, 6, 8]
    assert report.weights.sha256_before != report.weights.sha256_after
