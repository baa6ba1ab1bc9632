"""Gradient GRPO as a learner: groups become advantages and rows, and rows the weights that are drawn with next."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.errors import ConfigError
from agentlearn.learn.learner import Advanced, Evidence, Held, Outcome, Update
from agentlearn.train.distributed.torchrun import say
from agentlearn.train.sampler import Sampler
from agentlearn.train.settings import TrainSettings
from agentlearn.train.update.advantages import Advantages, advantages, punished
from agentlearn.train.update.metrics import StepMetrics
from agentlearn.train.update.sequences import reward_of, rows_of
from agentlearn.train.update.training_row import TrainingRow
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.model import weights_hash
from agentlearn.train.weights.run_checkpoints import Checkpoints
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory, Verdict
from agentlearn.types.treatment import Treatment


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows of one batch, and what they were made of."""

    groups: tuple[Group, ...]
    advantages: Advantages
    rows: tuple[TrainingRow, ...]
    clean: int
    forked: int


@dataclass(slots=True)
class GradientLearner:
    """State: the weights of `updater.model`, its optimiser, and how many batches they have learned from."""

    start: Library
    """The lessons in every prompt; they do not change."""
    settings: TrainSettings
    updater: Updater
    sampler: Sampler
    checkpoints: Checkpoints
    done: int = 0
    total: int = 0
    """Batches of the whole run; after the last a checkpoint is kept."""
    first_sha256: str = ""
    """Of the weights that the run began with."""
    seconds: Counter[str] = field(default_factory=Counter[str])
    """Wall time of `sampling`, `updating` and `synchronising`."""

    @property
    def library(self) -> Library:
        """The library that the run began with."""
        return self.start

    def assign(self, task: Task, g: int) -> Treatment:
        """The weights of now, named by the optimiser steps that made them."""
        return Treatment(
            model=self.settings.endpoint,
            library=self.start.version,
            temperature=self.settings.temperature,
            weights_step=self.updater.steps,
        )

    async def update(self, groups: AsyncIterable[Group], *, step: str) -> Update:
        """One batch; `iterations` x `minibatches` optimiser steps."""
        began = time.perf_counter()
        collected = sorted([_judged(group) async for group in groups], key=lambda group: group.task.id)
        sampled = time.perf_counter()
        before = self.updater.steps
        batch = self._batch(collected)
        async with self.sampler.held():
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
        said = metrics.said
        return Update(
            outcome=self._outcome(before),
            library=self.start,
            evidence=Evidence(groups=dict(kinds), notes=(f"{step}: {said}",) if said else (), metrics=figures),
        )

    def snapshot(self) -> str:
        """Path of the newest checkpoint, whose state this is. Raises ConfigError where none was kept yet."""
        newest = self.checkpoints.newest()
        if newest is None:
            raise ConfigError("there is no checkpoint yet; the first comes after save_every updates", code="no_state")
        return str(newest)

    def restore(self, snapshot: str) -> None:
        """Take up the state of a checkpoint."""
        say("restore", snapshot)
        self.done = self.checkpoints.restore(self.updater, Path(snapshot))

    def publish(self) -> Path:
        """Write the weights of now to their place; its path. Blocks."""
        say("publish")
        return self.checkpoints.publish(self.updater)

    def _step(self, batch: _Batch) -> StepMetrics:
        say("step", batch.rows)
        return self.updater.step(batch.rows, forks=batch.forked, zero_std_share=batch.advantages.zero_std_share)

    def _save(self) -> None:
        say("save", self.done)
        self.checkpoints.save(self.updater, self.done)

    def _batch(self, groups: Sequence[Group]) -> _Batch:
        given = self.settings.gradient
        found = advantages(groups, scaling=given.advantages, eps=given.advantage_eps, rewards=self._punished(groups))
        made = [
            rows_of(
                trajectory,
                advantage=found.by_rollout[trajectory.id],
                reward=trajectory.reward or 0.0,
                staleness=self._staleness(trajectory),
            )
            for group in groups
            for trajectory in group.decided
        ]
        return _Batch(
            groups=tuple(groups),
            advantages=found,
            rows=tuple(row for one in made for row in one.rows),
            clean=sum(one.clean for one in made),
            forked=sum(one.forked for one in made),
        )

    def _punished(self, groups: Sequence[Group]) -> dict[RolloutId, float] | None:
        """Rewards less the punishment for length, where it is asked for."""
        window = self.settings.gradient.overlong_window
        if self.settings.gradient.overlong != "punish" or window is None:
            return None
        return {
            one.id: punished(one.reward or 0.0, _longest(one), longest=self.settings.answer_tokens, window=window)
            for group in groups
            for one in group.decided
        }

    def _staleness(self, trajectory: Trajectory) -> int:
        """Optimiser steps made since the rollout was planned."""
        step = trajectory.treatment.weights_step
        return 0 if step is None else self.updater.steps - step

    def _outcome(self, before: int) -> Outcome:
        if self.updater.steps == before:
            return Held(reason="no row had an advantage, or no step was finite")
        return Advanced(version=f"step-{self.updater.steps}", parent=f"step-{before}")

    def weights_sha256(self) -> str:
        """Of the weights of now."""
        return weights_hash(self.updater.model)


def _judged(group: Group) -> Group:
    """The group with a reward of 0 where the model itself gave nothing to judge."""
    return Group(task=group.task, trajectories=tuple(_with_reward(one) for one in group.trajectories))


def _with_reward(trajectory: Trajectory) -> Trajectory:
    if trajectory.failure is None or reward_of(trajectory) is None:
        return trajectory
    verdict = Verdict(status="no_answer", reward=0.0, reason=trajectory.failure.code)
    return trajectory.model_copy(update={"verdict": verdict, "failure": None})


def _longest(trajectory: Trajectory) -> int:
    """Tokens of its longest answer."""
    turns = (one.tokens for one in trajectory.steps if isinstance(one, ModelTurn))
    return max((len(tokens.ids) for tokens in turns if tokens is not None), default=0)
