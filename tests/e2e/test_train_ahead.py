"""Sampling ahead of the updates with a served model: never further than allowed, and overlapping."""

import itertools
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentlearn.learning.callbacks import Update
from agentlearn.train import trainable
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from tests.support.letters_training import Stopping, letters_fields, one_word_tasks, resumed, stopped
from tests.support.tiny_model import saved, tiny_network

pytestmark = pytest.mark.slow

STAND_IN = (sys.executable, "-m", "tests.support.vllm_stand_in")
_COUNT = itertools.count()
MOST = 3


def alternating(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return 0 and 1 in turn, so that every group has both, as the stand-in always answers the same."""
    return float(next(_COUNT) % 2)


class Recording(Stopping):
    """Keeps what happens in order, and stops the run after some updates."""

    def __init__(self, stop_after: int = 0) -> None:
        super().__init__()
        self.said: list[tuple[str, Any]] = []
        self.stop_after = stop_after

    def continued(self, updates: int) -> None:
        self.updates = updates

    def rollout_done(self, phase: str, trajectory: Trajectory) -> None:
        if phase.startswith("epoch"):
            self.said.append(("rollout", trajectory.batch))

    def updated(self, step: str, update: Update) -> None:
        self.updates += 1
        self.said.append(("updated", dict(update.evidence.metrics)))
        if self.updates == self.stop_after:
            self.stop()


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


def test_sampling_overlaps_updates_and_is_at_most_three_batches_ahead_also_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(trainable, "vllm_endpoint", partial(trainable.vllm_endpoint, command=STAND_IN))
    fields = letters_fields(
        f"vllm:{saved(tmp_path / 'tiny', tiny_network(context=512))}",
        one_word_tasks(tmp_path / "letters.jsonl", *map(str, range(10))),
        tmp_path / "store",
        reward="tests.e2e.test_train_ahead:alternating",
        test_share=0.2,
        evaluate=True,
        eval_rollouts=1,
        eval_every=3,
        save_every=2,
        max_staleness=MOST,
        batch_size=1,
        concurrency=2,
        max_output_tokens=4,
        gradient={"learning_rate": 1e-3, "minibatches": 2},
    )
    first, rest = Recording(stop_after=3), Recording()
    stopped(fields, first)
    assert_bounded(told(first))
    ahead = [
        batch - sum(word == "updated" for word, _ in first.said[:at]) - 1
        for at, (word, batch) in enumerate(first.said)
        if word == "rollout"
    ]
    assert 1 <= max(ahead) <= MOST
    report = resumed(tmp_path / "store", rest)
    assert_bounded(told(rest))
    assert [line.update for line in report.updates] == list(range(1, 9))
    assert len(told(rest)) == 8 - 3  # a run that is stopped leaves a checkpoint of its last update
    assert report.stale == 0
    # Stopped between its third update and the measurement that was due after it, the resumed run measures first.
    assert [point.updates for point in report.curve] == [0, 3, 6, 8]
    assert report.weights.sha256_before != report.weights.sha256_after
