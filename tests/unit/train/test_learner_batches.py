"""What the gradient learner makes of a batch: rows, advantages, pauses, transfers, checkpoints and notes."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from agentlearn.learning.callbacks import Advanced, Held, Update
from agentlearn.train import gradient_learner
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.settings import train_settings
from agentlearn.train.update.metrics import StepMetrics
from agentlearn.train.update.sequences import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.group import Group
from tests.support.batches import RecordingSampler, in_order, sampled_group
from tests.support.tiny_lm import tiny_lm, tiny_tokenizer


class RecordingUpdater(Updater):
    """An updater that keeps the rows of each batch."""

    def __init__(self, sampler: RecordingSampler, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self.seen: list[list[TrainingRow]] = []
        self.sampler = sampler

    def step(self, rows: Sequence[TrainingRow], **named: Any) -> StepMetrics:
        self.sampler.events.append("step")
        self.seen.append(list(rows))
        return super().step(rows, **named)


class Learning:
    """A learner of a tiny model, with its sampler and updater."""

    def __init__(self, folder: Path, *, total: int = 9, gradient: dict[str, Any] | None = None, **fields: Any) -> None:
        # The rollouts are made up, so their log-probabilities are not those of the model.
        given = {"learning_rate": 1e-3, "loss": "grpo", "largest_difference": 1e3, **(gradient or {})}
        self.settings = train_settings({"domain": "math", "model": "x", "gradient": given, **fields})
        self.sampler = RecordingSampler()
        self.updater = RecordingUpdater(self.sampler, tiny_lm(), self.settings.gradient)
        checkpoints = CheckpointStore(folder / "checkpoints", folder / "out", tiny_tokenizer(), keep=99)
        self.learner = GradientLearner(
            EMPTY_LIBRARY, self.settings, self.updater, self.sampler, checkpoints, total=total
        )
        self.folder = folder / "checkpoints"

    def update(self, *groups: Group) -> Update:
        return asyncio.run(self.learner.update(in_order(groups), step="batch 1"))

    def advantages(self, *groups: Group) -> dict[str, float]:
        self.update(*groups)
        return {row.rollout: row.advantage for row in self.updater.seen[-1]}


def test_the_sampler_is_paused_during_a_step_and_gets_the_weights_after_it(tmp_path: Path) -> None:
    learning = Learning(tmp_path)
    assert isinstance(learning.update(sampled_group("one", [0.0, 1.0])).outcome, Advanced)
    assert learning.sampler.events == ["pause", "step", "go on", "synchronise"]
    learning.sampler.events.clear()
    assert isinstance(learning.update(sampled_group("one", [1.0, 1.0])).outcome, Held)
    assert learning.sampler.events == ["pause", "step", "go on"]  # the weights are the same


def test_a_restored_learner_knows_how_far_it_was(tmp_path: Path) -> None:
    learning = Learning(tmp_path, save_every=1)
    for step in range(2):
        learning.update(sampled_group("one", [0.0, 1.0], weights_step=step))
    again = Learning(tmp_path)
    newest = again.learner.checkpoints.newest()
    assert newest is not None
    again.learner.restore(str(newest), {1: {"optimiser_steps": 1.0}})
    assert (again.learner.done, again.updater.steps) == (2, 2)
    assert again.learner.weights_sha256() == learning.learner.weights_sha256()


def test_rows_are_stale_by_the_updates_since_their_rollout_was_planned(tmp_path: Path) -> None:
    learning = Learning(tmp_path, gradient={"iterations": 3}, model="vllm:x", max_staleness=1)
    group = sampled_group("one", [0.0, 1.0])
    assert learning.learner.assign(group.task, 0).weights_step == 0
    learning.update(group)
    treatment = learning.learner.assign(group.task, 0)
    assert (treatment.weights_step, treatment.temperature) == (3, learning.settings.temperature)
    old, new = (sampled_group(name, [0.0, 1.0], weights_step=step) for name, step in (("one", 0), ("two", 3)))
    kept = learning.update(old, new).evidence.metrics
    assert (kept["staleness/0"], kept["staleness/1"], kept["rows/stale"]) == (2.0, 2.0, 0.0)
    late = learning.update(sampled_group("one", [0.0, 1.0]), sampled_group("two", [0.0, 1.0], weights_step=None))
    assert (late.evidence.metrics["staleness/2"], late.evidence.metrics["rows/stale"]) == (2.0, 2.0)
    assert [[row.staleness for row in rows] for rows in learning.updater.seen] == [[0, 0], [1, 1, 0, 0], [0, 0]]


def test_skipped_steps_are_noted_and_all_counts_reach_the_store(tmp_path: Path) -> None:
    learning = Learning(tmp_path, gradient={"advantages": "none"})
    spoiled = learning.update(sampled_group("one", [0.0, 1e27]), sampled_group("two", [1.0, 1.0]))
    assert spoiled.evidence.notes == (
        (
            "batch 1: 1 of 1 optimiser steps were skipped because the loss or the gradient was not finite; they "
            "changed no weights. Lower learning_rate, or set delta"
        ),
    )
    kept = spoiled.evidence.metrics
    assert (kept["skipped"], kept["groups"], kept["groups/mixed"], kept["rows"]) == (1.0, 2.0, 1.0, 4.0)
    assert kept["frac_reward_zero_std"] == 0.5
    assert (kept["turns/clean"], kept["turns/forked"], kept["forks"]) == (0.0, 0.0, 0.0)
    assert isinstance(spoiled.outcome, Held)


def test_other_processes_are_told_of_each_step_save_restore_and_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[object, ...]] = []

    def tell(*words: object) -> AbstractContextManager[None]:
        told.append(words)
        return nullcontext()

    monkeypatch.setattr(gradient_learner, "all_processes", tell)
    learning = Learning(tmp_path, save_every=1)
    learning.update(sampled_group("one", [0.0, 1.0]))
    newest = str(learning.learner.checkpoints.newest())
    learning.learner.restore(newest, {})
    learning.learner.publish()
    assert [words[0] for words in told] == ["step", "save", "restore", "publish"]
    assert [row.rollout for row in cast("Any", told[0][1])] == ["one-0", "one-1"]
    assert told[1:3] == [("save", 1), ("restore", newest)]
