"""Gradient GRPO as a learner: computes advantages and training rows from groups, and updates the weights.

The weights do not change while groups wait, so all groups of an update were sampled by the same weights.
"""

import asyncio
import time
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.errors import WeightsDiffer
from agentlearn.learning.callbacks import Advanced, Evidence, Held, Outcome, Update
from agentlearn.train.distill.teaching import (
    ANSWER_TOKENS,
    HINT_AFTER,
    Teaching,
    early_end,
    no_place_for_lessons,
    nothing_left,
)
from agentlearn.train.distributed.torchrun import all_processes, whole_hash
from agentlearn.train.further_rewards import FurtherRewards
from agentlearn.train.settings import TrainSettings
from agentlearn.train.trainable import Sampler
from agentlearn.train.update.advantages import BatchAdvantages, batch_advantages, length_penalised
from agentlearn.train.update.metrics import UNEXPLAINED, StepMetrics
from agentlearn.train.update.sequences import TrainingRow, training_rows
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.types.experience import Library
from agentlearn.types.group import Group, GroupKind
from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory, Treatment


@dataclass(slots=True)
class DynamicSampling:
    """The groups that wait for the next update. An update learns from all of them."""

    wanted: int
    """Number of groups for an update."""
    limit: int | None
    """Largest number of batches sampled for an update; None: every batch is an update, with all its groups."""
    groups: list[Group] = field(default_factory=list[Group])
    batches: int = 0
    """Number of batches that the waiting groups come from."""

    def add(self, groups: Sequence[Group], advantages: Mapping[RolloutId, float]) -> None:
        """Add the groups of a batch. With a limit, groups in which every advantage is 0 are left out."""
        self.batches += 1
        self.groups += [
            group for group in groups if self.limit is None or any(advantages.get(one.id) for one in group.trajectories)
        ]

    @property
    def enough(self) -> bool:
        """Whether the update can be made."""
        return self.limit is None or len(self.groups) >= self.wanted or self.batches >= self.limit

    @property
    def waits_because(self) -> str:
        """Why the update waits."""
        return (
            f"{len(self.groups)} of {self.wanted} groups have rewards that differ, after {self.batches} of at most "
            f"{self.limit} batches; the update waits for more"
        )

    def take(self) -> list[Group]:
        """Return the waiting groups in order of their tasks, and start again with none."""
        taken, self.groups, self.batches = self.groups, [], 0
        return sorted(taken, key=lambda group: group.task.id)


@dataclass(slots=True)
class WeightVersions:
    """The weights that rollouts were made with, by the number of optimiser steps that a rollout is stored with.

    An update makes any number of optimiser steps: none when no gradient was finite, several with minibatches. Staleness
    is counted in updates, so this keeps after which update each number of steps was reached.
    """

    step: int = 0
    """Optimiser steps of the weights that the sampler has."""
    _steps: list[int] = field(default_factory=list[int])
    """Known numbers of steps, rising."""
    _updates: dict[int, int] = field(default_factory=dict[int, int])
    """The last update after which the weights had that number of steps."""

    @classmethod
    def of(cls, step: int, update: int, metrics: Mapping[int, Mapping[str, float]]) -> "WeightVersions":
        """Return the versions of a run that has made `update` updates and `step` steps.

        metrics: the stored metrics of its updates by number, of which those before its first update need no entry.
        """
        versions = cls()
        versions.add(0, 0)
        for number, values in sorted(metrics.items()):
            if number < update and "optimiser_steps" in values:
                versions.add(int(values["optimiser_steps"]), number)
        versions.add(step, update)
        return versions

    def add(self, step: int, update: int) -> None:
        """Note that the sampler has the weights after this update."""
        if step not in self._updates:
            insort(self._steps, step)
        self._updates[step] = max(update, self._updates.get(step, 0))
        self.step = step

    def staleness(self, step: int, update: int) -> int:
        """Return how many updates were made since weights of that many steps, when `update` updates were made.

        0 for weights from after the present ones, which a resumed run can find in the store.
        """
        at = bisect_right(self._steps, step)
        return max(0, update - self._updates[self._steps[at - 1]]) if at else update


FP32_DIFFERENCE, LARGEST_DIFFERENCE = 0.002, 0.1
"""Defaults of `largest_difference` in nats: where sampler and trainer compute in fp32 (measured: 1e-6 to 1e-4), and
with 16-bit formats, a server or dropout (measured: up to 0.02)."""


_ROWS_FOR_HINT = 16
"""Smallest number of rows without a reward above 0 that is worth a note."""
_COUNTED: tuple[GroupKind, ...] = ("mixed", "all_right", "all_wrong")
"""Kinds of groups that the metrics count."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """The training rows of one batch, its advantages, and counts of its turns."""

    advantages: BatchAdvantages
    rows: tuple[TrainingRow, ...]
    """Without rows whose weights are too old."""
    stale: int
    """Number of rows whose weights are too old."""
    staleness: Counter[int]
    """Number of all rows by their staleness in updates."""
    clean: int
    forked: int
    untaught: int
    """Number of rows that no teacher's prompt could be made for."""


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
    teaching: Teaching | None = None
    """Lessons that are distilled into the weights; None: none."""
    total: int = 0
    """Number of batches of the whole run. After the last one, a checkpoint is always saved."""
    versions: WeightVersions = field(default_factory=lambda: WeightVersions.of(0, 0, {}))
    """The weights that the sampler has and had."""
    threshold: float = 1.0
    """Reward from which an answer counts as right."""
    first_sha256: str = ""
    """Hash of the weights that the run started with."""
    seconds: Counter[str] = field(default_factory=Counter[str])
    """Seconds spent on `sampling`, `updating` and `synchronising`."""
    rewards: FurtherRewards = field(init=False)
    """Rewards in addition to the domain's own."""
    waiting: DynamicSampling = field(init=False)
    """Groups that wait for the next update."""
    ended: str = field(init=False, default="")
    """Why nothing more is learned; empty while learning goes on."""
    unkept: Update | None = field(init=False, default=None)
    """An update that is made and whose metrics nobody has stored yet."""
    saved: int = field(init=False, default=0)
    """Number of batches in the newest checkpoint."""
    _updating: bool = field(init=False, default=False)
    """Whether weights have changed that no update counts yet."""
    _hinted: bool = field(init=False, default=False)
    _figures: list[Mapping[str, float]] = field(init=False, default_factory=list[Mapping[str, float]])
    """Metrics of all updates so far."""
    _save_due: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.rewards = FurtherRewards.load(self.settings.gradient)
        self.waiting = DynamicSampling(self.settings.batch_size, self.settings.gradient.dynamic_sampling_limit)

    @property
    def library(self) -> Library:
        """The library that the run started with."""
        return self.start

    def assign(self, task: Task, g: int) -> Treatment:
        """Return a treatment with the weights that the sampler has, named by the number of optimiser steps."""
        guided = self.teaching is not None and self.teaching.guides(g)
        return Treatment(
            model=self.settings.endpoint,
            library=self.teaching.library.version if self.teaching is not None and guided else self.start.version,
            temperature=self.settings.temperature,
            weights_step=self.versions.step,
        )

    async def update(self, groups: AsyncIterable[Group], *, step: str) -> Update:
        """Learn from one batch, in up to `iterations` x `minibatches` optimiser steps."""
        began = time.perf_counter()
        collected = sorted([group async for group in groups], key=lambda group: group.task.id)
        sampled = time.perf_counter()
        if self.ended:
            return await self._skip(collected)
        if self.teaching is not None:
            await self.teaching.read(group.task for group in collected)
        await self.rewards.judge(collected)
        self.waiting.add(collected, self._advantages(collected).by_rollout)
        if not self.waiting.enough and self.done + 1 < self.total:
            return await self._wait(collected, step=step, seconds=sampled - began)
        batch = self._batch(self.waiting.take())
        self.rewards.forget()
        # A thread cannot be cancelled. So an update that has begun is finished, and its weights can be saved.
        learning = asyncio.ensure_future(self._learn(batch, collected, step=step, seconds=sampled - began))
        try:
            return await asyncio.shield(learning)
        except asyncio.CancelledError:
            await asyncio.wait([learning])
            raise

    async def _learn(self, batch: _Batch, groups: Sequence[Group], *, step: str, seconds: float) -> Update:
        """Update the weights. seconds: how long the groups were sampled. Raises WeightsDiffer."""
        sampled, before, self._updating = time.perf_counter(), self.updater.steps, True
        async with self.sampler.paused():
            metrics = await asyncio.to_thread(self._step, batch)
        self._refuse_other_probabilities(metrics.figures.get(UNEXPLAINED), step)
        updated = time.perf_counter()
        if metrics.steps:
            await self.sampler.synchronise(self.updater.model)
        synchronised = time.perf_counter()
        parts = {"sampling": seconds, "updating": updated - sampled, "synchronising": synchronised - updated}
        self.seconds.update(parts)
        figures = {
            **metrics.figures,
            **self._batch_figures(groups),
            **{f"seconds/{name}": value for name, value in parts.items()},
            **{f"staleness/{age}": float(rows) for age, rows in sorted(batch.staleness.items())},
            "rows": float(metrics.rows),
            "rows/stale": float(batch.stale),
            "rows/masked": float(metrics.masked),
            "skipped": float(metrics.skipped),
            "tokens": float(metrics.tokens),
            "turns/clean": float(batch.clean),
            "turns/forked": float(batch.forked),
        }
        if self.teaching is not None:
            figures["rows/untaught"] = float(batch.untaught)
        self._figures.append(figures)
        self.ended = early_end(self._figures, self.settings.gradient)
        self._updating = False
        notes = tuple(f"{step}: {note}" for note in (metrics.skip_note, self.rewards.note) if note)
        self.unkept = Update(
            outcome=self._outcome(before),
            library=self.start,
            evidence=Evidence(
                groups=dict(Counter(group.kind() for group in groups)), notes=(*notes, *self._hints()), metrics=figures
            ),
            ends=self.ended,
        )
        made = self.unkept
        await self._batch_done()
        return made

    def _refuse_other_probabilities(self, difference: float | None, step: str) -> None:
        """Raise WeightsDiffer when the sampler's log-probabilities are not the trainer's, apart from rounding."""
        settings, given = self.settings, self.settings.gradient
        local = settings.sampler == "local"
        if difference is None or (not local and (given.top_p < 1 or given.top_k > 0 or given.min_p > 0)):
            return  # a server reports the probabilities among the tokens that are left
        exact = local and given.dtype == "fp32" and given.lora_dropout == 0
        limit = given.largest_difference or (FP32_DIFFERENCE if exact else LARGEST_DIFFERENCE)
        if not difference <= limit:
            raise WeightsDiffer(
                f"{step}: the sampler {settings.sampler!r} and the trainer give the sampled tokens log-probabilities"
                f" that differ by {difference:.3g} nats on average, and rounding explains at most {limit:g}; so the run"
                " would train on wrong numbers, and it ends without publishing weights; use another sampler or model,"
                " or raise largest_difference if you know the cause",
                code="sampler_differs",
            )

    @property
    def no_reward(self) -> str:
        """A note when no rollout has got a reward above 0; empty when one has, and while too few are known."""
        figures = [one for one in self._figures if "reward" in one]
        rows = sum(one.get("rows", 0.0) for one in figures)
        if rows < _ROWS_FOR_HINT or any(one["reward"] for one in figures):
            return ""
        return (
            "every reward so far is 0, so nothing is learned. Usually the reward gives 0 to right answers (call it"
            " yourself on one), or the model cannot follow our long instructions (--only-instructions"
            " with --instructions sends only your own)"
        )

    def _hints(self) -> tuple[str, ...]:
        """A note, once, when the rewards of the updates so far left hardly anything to learn."""
        if self._hinted or self.settings.gradient.loss == "distill":
            return ()
        if words := self.no_reward:
            self._hinted = True
            return (words,)
        words = nothing_left(self._figures, HINT_AFTER)
        self._hinted = bool(words)
        return (f"{words}; use other tasks, or end such runs early with stop_after_equal",) if words else ()

    async def _skip(self, groups: Sequence[Group]) -> Update:
        """Learn nothing from a batch that was sampled before the run ended early."""
        kinds = dict(Counter(group.kind() for group in groups))
        evidence = Evidence(groups=kinds, metrics=self._batch_figures(groups))
        made = Update(outcome=Held(reason=self.ended), library=self.start, evidence=evidence, ends=self.ended)
        self.unkept = made
        await self._batch_done()
        return made

    async def _wait(self, groups: Sequence[Group], *, step: str, seconds: float) -> Update:
        """Keep the groups for a later update."""
        self.seconds.update({"sampling": seconds})
        note = self.rewards.note
        figures = {**self._batch_figures(groups), "seconds/sampling": seconds}
        self._figures.append(figures)
        made = Update(
            outcome=Held(reason=self.waiting.waits_because),
            library=self.start,
            evidence=Evidence(
                groups=dict(Counter(group.kind() for group in groups)),
                notes=(f"{step}: {note}",) if note else (),
                metrics=figures,
            ),
        )
        self.unkept = made
        await self._batch_done()
        return made

    async def _batch_done(self) -> None:
        """Count a batch, and save a checkpoint if that is due and no group waits: waiting groups are not saved."""
        self.done += 1
        self.versions.add(self.updater.steps, self.done)
        self._save_due |= self.done % self.settings.save_every == 0 or self.done == self.total or bool(self.ended)
        if self._save_due and not self.waiting.batches:
            await asyncio.to_thread(self.save)
            self._save_due = False

    def _batch_figures(self, groups: Sequence[Group]) -> dict[str, float]:
        """Metrics of the groups that were just sampled."""
        kinds = Counter(group.kind(self.threshold) for group in groups)
        figures = {
            "groups": float(len(groups)),
            **{f"groups/{kind}": float(kinds[kind]) for kind in _COUNTED},
            "optimiser_steps": float(self.updater.steps),
            **self.rewards.figures(),
            **self._answer_figures(groups),
        }
        if self.waiting.limit is None:
            return figures
        rewards = [reward for group in groups for reward in group.rewards_G]
        mean = {"reward": sum(rewards) / len(rewards)} if rewards else {}
        return figures | mean | {"groups/waiting": float(len(self.waiting.groups))}

    def _answer_figures(self, groups: Sequence[Group]) -> dict[str, float]:
        """In a run that distils lessons: how long answers without lessons are."""
        if self.teaching is None:
            return {}
        alone = [one for group in groups for one in group.trajectories if not self.teaching.guided(one)]
        lengths = [sum(map(len, _answers(one))) for one in alone if one.outcome == "ok"]
        return {ANSWER_TOKENS: sum(lengths) / len(lengths)} if lengths else {}

    def restore(self, checkpoint: str, metrics: Mapping[int, Mapping[str, float]]) -> None:
        """Restore the state from a checkpoint's folder. metrics: stored metrics of the run's updates by number."""
        with all_processes("restore", checkpoint):
            self.done = self.checkpoints.restore(self.updater, Path(checkpoint))
        self.versions = WeightVersions.of(self.updater.steps, self.done, metrics)
        self.saved = self.done
        self._figures = [values for number, values in sorted(metrics.items()) if number <= self.done]
        self.ended = early_end(self._figures, self.settings.gradient)
        self.waiting.take()
        self.rewards.forget()

    def publish(self) -> Path:
        """Write the current weights to the folder of the result; returns its path. Blocks."""
        with all_processes("publish"):
            return self.checkpoints.publish(self.updater)

    def save(self) -> Path:
        """Save a checkpoint of the current weights; returns its path. Blocks."""
        done = self.done - self.waiting.batches
        with all_processes("save", done):
            path = self.checkpoints.save(self.updater, done)
        self.saved = done
        return path

    @property
    def unsaved(self) -> int:
        """Number of updates that are in no checkpoint and can be saved. Groups that wait are not saved."""
        return 0 if self._updating else max(0, self.done - self.waiting.batches - self.saved)

    def _step(self, batch: _Batch) -> StepMetrics:
        with all_processes("step", batch.rows):
            return self.updater.step(batch.rows, forks=batch.forked, zero_std_share=batch.advantages.zero_std_share)

    def _batch(self, groups: Sequence[Group]) -> _Batch:
        found = self._advantages(groups)
        made = [
            training_rows(
                trajectory,
                advantage=self._advantage(trajectory, found),
                reward=trajectory.reward or 0.0,
                staleness=self._staleness(trajectory),
                prompts=None if self.teaching is None else self.teaching.prompts(trajectory),
            )
            for group in groups
            for trajectory in group.decided
            if trajectory.id in found.by_rollout
        ]
        rows = [row for one in made for row in one.rows]
        untaught = sum(one.untaught for one in made)
        if untaught and not any(row.taught for row in rows):
            raise no_place_for_lessons(self.settings.model)
        fresh = tuple(row for row in rows if row.staleness <= self.settings.max_staleness)
        return _Batch(
            advantages=found,
            rows=fresh,
            stale=len(rows) - len(fresh),
            staleness=Counter(row.staleness for row in rows),
            clean=sum(one.clean for one in made),
            forked=sum(one.forked for one in made),
            untaught=untaught,
        )

    def _advantage(self, trajectory: Trajectory, found: BatchAdvantages) -> float:
        """The advantage of a rollout; 0 for one that was sampled with lessons, which its reward says nothing about."""
        guided = self.teaching is not None and self.teaching.guided(trajectory)
        return 0.0 if guided else found.by_rollout[trajectory.id]

    def _advantages(self, groups: Sequence[Group]) -> BatchAdvantages:
        given, own = self.settings.gradient, self._own_rewards(groups)
        return batch_advantages(
            groups,
            scaling=given.advantages,
            eps=given.advantage_eps,
            rewards=own,
            several=self.rewards.several(own),
        )

    def _own_rewards(self, groups: Sequence[Group]) -> dict[RolloutId, float]:
        """The domain's rewards by rollout, with a penalty for length with `overlong: punish`."""
        window = self.settings.gradient.overlong_window
        decided = [one for group in groups for one in group.decided]
        if self.settings.gradient.overlong != "punish" or window is None:
            return {one.id: one.reward or 0.0 for one in decided}
        return {
            one.id: length_penalised(
                one.reward or 0.0, _longest_answer(one), longest=self.settings.max_output_tokens, window=window
            )
            for one in decided
        }

    def _staleness(self, trajectory: Trajectory) -> int:
        """Number of updates made since the rollout was planned."""
        step = trajectory.treatment.weights_step
        return 0 if step is None else self.versions.staleness(step, self.done)

    def _outcome(self, before: int) -> Outcome:
        if self.updater.steps == before:
            return Held(reason="no row had an advantage, or no gradient was finite")
        return Advanced(version=f"step-{self.updater.steps}", parent=f"step-{before}")

    def weights_sha256(self) -> str:
        """Hash of the current weights."""
        return whole_hash(self.updater.model)


def _longest_answer(trajectory: Trajectory) -> int:
    """Number of tokens in its longest answer."""
    return max(map(len, _answers(trajectory)), default=0)


def _answers(trajectory: Trajectory) -> list[tuple[int, ...]]:
    """The sampled tokens of each answer."""
    turns = (one.tokens for one in trajectory.steps if isinstance(one, ModelTurn))
    return [tokens.ids for tokens in turns if tokens is not None]
