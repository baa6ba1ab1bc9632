"""Gradient GRPO as a learner: computes advantages and training rows from groups, and updates the weights."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.learning.learner import Advanced, Evidence, Held, Outcome, Update
from agentlearn.train.distributed.torchrun import broadcast_command
from agentlearn.train.sampler import Sampler
from agentlearn.train.settings import TrainSettings
from agentlearn.train.update.advantages import BatchAdvantages, batch_advantages, length_penalised
from agentlearn.train.update.metrics import StepMetrics
from agentlearn.train.update.sequences import training_rows
from agentlearn.train.update.training_row import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.model import weights_hash
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory
from agentlearn.types.treatment import Treatment


@dataclass(frozen=True, slots=True)
class _Batch:
    """The training rows of one batch, its advantages, and counts of its turns."""

    advantages: BatchAdvantages
    rows: tuple[TrainingRow, ...]
    clean: int
    forked: int


@dataclass(slots=True)
class GradientLearner:
    """Its state: the weights of `updater.model`, the optimiser, and the number of batches learned from."""

    start: Library
    """Library whose lessons are in every prompt. It does not change."""
    settings: TrainSettings
    updater: Updater
    sampler: Sampler
    checkpoints: CheckpointStore
    done: int = 0
    """Number of batches learned from so far."""
    total: int = 0
    """Number of batches of the whole run. After the last one, a checkpoint is always saved."""
    first_sha256: str = ""
    """Hash of the weights that the run started with."""
    seconds: Counter[str] = field(default_factory=Counter[str])
    """Seconds spent on `sampling`, `updating` and `synchronising`."""

    @property
    def library(self) -> Library:
        """The library that the run started with."""
        return self.start

    def assign(self, task: Task, g: int) -> Treatment:
        """Return a treatment with the current weights, named by the number of optimiser steps."""
        return Treatment(
            model=self.settings.endpoint,
            library=self.start.version,
            temperature=self.settings.temperature,
            weights_step=self.updater.steps,
        )

    async def update(self, groups: AsyncIterable[Group], *, step: str) -> Update:
        """Learn from one batch, in up to `iterations` x `minibatches` optimiser steps."""
        began = time.perf_counter()
        collected = sorted([group async for group in groups], key=lambda group: group.task.id)
        sampled = time.perf_counter()
        before = self.updater.steps
        batch = self._batch(collected)
        async with self.sampler.paused():
            metrics = await asyncio.to_thread(self._step, batch)
        updated = time.perf_counter()
        if metrics.steps:
            await self.sampler.synchronise(self.updater.model)
        synchronised = time.perf_counter()
        parts = {"sampling": sampled - began, "updating": updated - sampled, "synchronising": synchronised - updated}
        self.seconds.update(parts)
        self.done += 1
        if self.done % self.settings.save_every == 0 or self.done == self.total:
            await asyncio.to_thread(self._save)
        kinds = Counter(group.kind() for group in collected)
        figures = {
            **metrics.figures,
            **{f"seconds/{name}": value for name, value in parts.items()},
            **{f"staleness/{age}": float(rows) for age, rows in metrics.staleness.items()},
            "groups": float(len(collected)),
            "groups/mixed": float(kinds["mixed"]),
            "optimiser_steps": float(self.updater.steps),
            "rows": float(metrics.rows),
            "rows/stale": float(metrics.stale),
            "rows/masked": float(metrics.masked),
            "skipped": float(metrics.skipped),
            "tokens": float(metrics.tokens),
            "turns/clean": float(batch.clean),
            "turns/forked": float(batch.forked),
        }
        note = metrics.skip_note
        return Update(
            outcome=self._outcome(before),
            library=self.start,
            evidence=Evidence(groups=dict(kinds), notes=(f"{step}: {note}",) if note else (), metrics=figures),
        )

    def restore(self, checkpoint: str) -> None:
        """Restore the state from a checkpoint's folder."""
        broadcast_command("restore", checkpoint)
        self.done = self.checkpoints.restore(self.updater, Path(checkpoint))

    def publish(self) -> Path:
        """Write the current weights to the folder of the result; returns its path. Blocks."""
        broadcast_command("publish")
        return self.checkpoints.publish(self.updater)

    def _step(self, batch: _Batch) -> StepMetrics:
        broadcast_command("step", batch.rows)
        return self.updater.step(batch.rows, forks=batch.forked, zero_std_share=batch.advantages.zero_std_share)

    def _save(self) -> None:
        broadcast_command("save", self.done)
        self.checkpoints.save(self.updater, self.done)

    def _batch(self, groups: Sequence[Group]) -> _Batch:
        given = self.settings.gradient
        found = batch_advantages(
            groups, scaling=given.advantages, eps=given.advantage_eps, rewards=self._penalised_rewards(groups)
        )
        made = [
            training_rows(
                trajectory,
                advantage=found.by_rollout[trajectory.id],
                reward=trajectory.reward or 0.0,
                staleness=self._staleness(trajectory),
            )
            for group in groups
            for trajectory in group.decided
        ]
        return _Batch(
            advantages=found,
            rows=tuple(row for one in made for row in one.rows),
            clean=sum(one.clean for one in made),
            forked=sum(one.forked for one in made),
        )

    def _penalised_rewards(self, groups: Sequence[Group]) -> dict[RolloutId, float] | None:
        """Rewards with a penalty for length, by rollout; None without `overlong: punish`."""
        window = self.settings.gradient.overlong_window
        if self.settings.gradient.overlong != "punish" or window is None:
            return None
        return {
            one.id: length_penalised(
                one.reward or 0.0, _longest_answer(one), longest=self.settings.max_output_tokens, window=window
            )
            for group in groups
            for one in group.decided
        }

    def _staleness(self, trajectory: Trajectory) -> int:
        """Number of optimiser steps made since the rollout was planned."""
        step = trajectory.treatment.weights_step
        return 0 if step is None else self.updater.steps - step

    def _outcome(self, before: int) -> Outcome:
        if self.updater.steps == before:
            return Held(reason="no row had an advantage, or no gradient was finite")
        return Advanced(version=f"step-{self.updater.steps}", parent=f"step-{before}")

    def weights_sha256(self) -> str:
        """Hash of the current weights."""
        return weights_hash(self.updater.model)


def _longest_answer(trajectory: Trajectory) -> int:
    """Number of tokens in its longest answer."""
    turns = (one.tokens for one in trajectory.steps if isinstance(one, ModelTurn))
    return max((len(tokens.ids) for tokens in turns if tokens is not None), default=0)
