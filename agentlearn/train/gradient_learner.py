"""Gradient GRPO as a learner: computes advantages and training rows from groups, and updates the weights.

The weights do not change while groups wait, so all groups of an update were sampled by the same weights.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.errors import ConfigError, WeightsDiffer
from agentlearn.learning.callbacks import Advanced, Evidence, Held, Outcome, Update
from agentlearn.train.distributed.torchrun import all_processes, whole_hash
from agentlearn.train.settings import TrainSettings
from agentlearn.train.trainable import Sampler
from agentlearn.train.update.advantages import BatchAdvantages, FurtherRewards, batch_advantages, length_penalised
from agentlearn.train.update.metrics import (
    ANSWER_TOKENS,
    ENTROPY,
    UNEXPLAINED,
    UNEXPLAINED_ROW,
    StepMetrics,
    collapsed,
    early_end,
    hints,
    one_reward,
    spread,
)
from agentlearn.train.update.sequences import Teaching, TrainingRow, training_rows
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.types.experience import Library
from agentlearn.types.group import Group
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory, Treatment


@dataclass(slots=True)
class WeightVersions:
    """The weights that rollouts were made with, by the number of optimiser steps that a rollout is stored with.

    An update makes any number of optimiser steps: none when no gradient was finite, several with minibatches. Staleness
    is counted in updates, so this keeps after which update each number of steps was reached.
    """

    step: int = 0
    """Optimiser steps of the weights that the sampler has."""
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
        self._updates[step] = max(update, self._updates.get(step, 0))
        self.step = step

    def staleness(self, step: int | None, update: int) -> int:
        """Return how many updates were made since weights of that many steps, when `update` updates were made.

        0 for weights from after the present ones, which a resumed run can find in the store, and for unknown ones.
        """
        if step is None:
            return 0
        last = max((made for steps, made in self._updates.items() if steps <= step), default=0)
        return max(0, update - last)


FP32_DIFFERENCE, LARGEST_DIFFERENCE = 0.002, 0.1
"""Defaults of `largest_difference` in nats: where sampler and trainer compute in fp32 (measured: 1e-6 to 1e-4), and
with 16-bit formats or a server (measured: up to 0.02)."""


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
    waiting: list[Group] = field(init=False, default_factory=list[Group])
    """Groups that wait for the next update, with dynamic sampling."""
    _waiting_batches: int = field(init=False, default=0)
    """Number of batches that the waiting groups come from."""
    ended: str = field(init=False, default="")
    """Why nothing more is learned; empty while learning goes on."""
    unkept: Update | None = field(init=False, default=None)
    """An update that is made and whose metrics nobody has stored yet."""
    saved: int = field(init=False, default=0)
    """Number of batches in the newest checkpoint."""
    _updating: bool = field(init=False, default=False)
    """Whether weights have changed that no update counts yet."""
    _hinted: set[str] = field(init=False, default_factory=set[str])
    """What was said about the whole run, each once."""
    _figures: list[Mapping[str, float]] = field(init=False, default_factory=list[Mapping[str, float]])
    """Metrics of all updates so far."""
    _save_due: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.rewards = FurtherRewards.load(self.settings.gradient)

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

    async def update(self, groups: AsyncIterable[Group], *, step: str, tasks: Sequence[Task] = ()) -> Update:
        """Learn from one batch, in up to `iterations` x `minibatches` optimiser steps."""
        began = time.perf_counter()
        collected = sorted([group async for group in groups], key=lambda group: group.task.id)
        seconds, limit = time.perf_counter() - began, self.settings.gradient.dynamic_sampling_limit
        if self.ended:  # nothing is learned from a batch that was sampled before the run ended early
            return await self._batch_done(Held(reason=self.ended), collected, self._batch_figures(collected))
        if self.teaching is not None:
            await self.teaching.read(group.task for group in collected)
        await self.rewards.judge(collected)
        known = self._advantages(collected).by_rollout
        self._waiting_batches += 1
        self.waiting += [one for one in collected if limit is None or any(known.get(t.id) for t in one.trajectories)]
        wanted, batches = self.settings.batch_size, self._waiting_batches
        if limit is not None and len(self.waiting) < wanted and batches < limit and self.done + 1 < self.total:
            self.seconds.update({"sampling": seconds})
            figures = {**self._batch_figures(collected), "seconds/sampling": seconds}
            self._figures.append(figures)
            why = (
                f"{len(self.waiting)} of {wanted} groups have rewards that differ, after {batches} of at most {limit}"
                " batches; the update waits for more"
            )
            notes = (f"{step}: {self.rewards.note}",) if self.rewards.note else ()
            return await self._batch_done(Held(reason=why), collected, figures, notes)
        rows, made, zero_std_share = self._rows(sorted(self.waiting, key=lambda group: group.task.id))
        self._forget_waiting()
        # A thread cannot be cancelled. So an update that has begun is finished, and its weights can be saved.
        learning = asyncio.ensure_future(
            self._learn(rows, made, collected, zero_std_share=zero_std_share, step=step, seconds=seconds)
        )
        try:
            return await asyncio.shield(learning)
        except asyncio.CancelledError:
            await asyncio.wait([learning])
            raise

    def _forget_waiting(self) -> None:
        self.waiting, self._waiting_batches = [], 0
        self.rewards.parts.clear()

    async def _learn(
        self,
        rows: Sequence[TrainingRow],
        made: Mapping[str, float],
        groups: Sequence[Group],
        *,
        zero_std_share: float,
        step: str,
        seconds: float,
    ) -> Update:
        """Update the weights. made: metrics of the rows. seconds: how long the groups were sampled.

        Raises WeightsDiffer.
        """

        def train() -> StepMetrics:
            with all_processes("step", rows):
                return self.updater.step(rows, forks=int(made["turns/forked"]), zero_std_share=zero_std_share)

        sampled, before, self._updating = time.perf_counter(), self.updater.steps, True
        async with self.sampler.paused():
            metrics = await asyncio.to_thread(train)
        self._refuse_other_probabilities(metrics, step)
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
            **made,
            "rows": float(metrics.rows),
            "rows/masked": float(metrics.masked),
            "skipped": float(metrics.skipped),
            "tokens": float(metrics.tokens),
        }
        self._figures.append(figures)
        self.ended = early_end(self._figures, self.settings.gradient)
        self._updating = False
        notes = [f"{step}: {note}" for note in (metrics.skip_note, self.rewards.note) if note]
        if self.settings.gradient.loss != "distill":
            known = hints(self._figures, self.threshold)
            notes += [hint for kind, hint in known.items() if kind not in self._hinted]
            self._hinted |= known.keys()
        outcome: Outcome = Held(reason="no row had an advantage, or no gradient was finite")
        if self.updater.steps != before:
            outcome = Advanced(version=f"step-{self.updater.steps}", parent=f"step-{before}")
        return await self._batch_done(outcome, groups, figures, notes)

    async def _batch_done(
        self, outcome: Outcome, groups: Sequence[Group], figures: Mapping[str, float], notes: Sequence[str] = ()
    ) -> Update:
        """Count a batch, and save a checkpoint if that is due and no group waits: waiting groups are not saved."""
        kinds = dict(Counter(group.kind() for group in groups))
        evidence = Evidence(groups=kinds, notes=tuple(notes), metrics=figures)
        self.unkept = made = Update(outcome=outcome, library=self.start, evidence=evidence, ends=self.ended)
        self.done += 1
        self.versions.add(self.updater.steps, self.done)
        self._save_due |= self.done % self.settings.save_every == 0 or self.done == self.total or bool(self.ended)
        if self._save_due and not self._waiting_batches:
            await asyncio.to_thread(self.save)
            self._save_due = False
        return made

    def _refuse_other_probabilities(self, metrics: StepMetrics, step: str) -> None:
        """Raise WeightsDiffer when the sampler's log-probabilities are not the trainer's, apart from rounding: those of
        all tokens together, or those of one row, which a wrong prompt or cache changes alone."""
        settings, given = self.settings, self.settings.gradient
        difference = metrics.figures.get(UNEXPLAINED)
        local = settings.sampler == "local"
        if difference is None or (not local and (given.top_p < 1 or given.top_k > 0 or given.min_p > 0)):
            return  # a server reports the probabilities among the tokens that are left
        limit = given.largest_difference or (FP32_DIFFERENCE if local and given.dtype == "fp32" else LARGEST_DIFFERENCE)
        of_row = metrics.figures.get(UNEXPLAINED_ROW, 0.0), f"tokens of rollout {metrics.farthest!r}"
        apart, of = of_row if difference <= limit else (difference, "sampled tokens")
        if not apart <= limit:
            raise WeightsDiffer(
                f"{step}: the sampler {settings.sampler!r} and the trainer give the {of} log-probabilities that differ"
                f" by {apart:.3g} nats on average, and rounding explains at most {limit:g}; so the run"
                " would train on wrong numbers, and it ends without publishing weights; use another sampler or model,"
                " or raise largest_difference if you know the cause"
            )

    @property
    def collapse(self) -> str:
        """In words, that the model says the same for everything without a gain; empty when it does not."""
        return collapsed(self._figures) if self.settings.gradient.loss != "distill" else ""

    @property
    def nothing_changed(self) -> str:
        """Why no weight differs from the start, in words with a next step; empty when one does."""
        if self.weights_sha256() != self.first_sha256:
            return ""
        if self.updater.steps:
            return f"{self.updater.steps} optimiser steps changed no weight; use a higher learning_rate"
        if skipped := self.updater.skipped:
            why = f"the loss or the gradient of all {skipped} steps was not finite; use a lower learning_rate"
        elif not any("reward/min" in one for one in self._figures):
            why = "no rollout has a reward; `agentlearn trace` says why"
        else:
            other = one_reward(self._figures, self.threshold) or "use tasks whose attempts differ, or check the reward"
            why = f"all groups had equal rewards; {other}"
        return f"no update was made, because {why}"

    def _batch_figures(self, groups: Sequence[Group]) -> dict[str, float]:
        """Metrics of the groups that were just sampled."""
        kinds = Counter(group.kind(self.threshold) for group in groups)
        rewards = [reward for group in groups for reward in group.rewards_G]
        figures = {
            "groups": float(len(groups)),
            **{f"groups/{kind}": float(kinds[kind]) for kind in ("mixed", "all_right", "all_wrong")},
            "optimiser_steps": float(self.updater.steps),
            **self.rewards.figures(),
            **spread(rewards, (one.answer for group in groups for one in group.decided), self.threshold),
        }
        if self.teaching is not None:  # how long answers without lessons are
            alone = [one for group in groups for one in group.trajectories if not self.teaching.guided(one)]
            lengths = [sum(map(len, _answers(one))) for one in alone if one.outcome == "ok"]
            figures |= {ANSWER_TOKENS: sum(lengths) / len(lengths)} if lengths else {}
        if self.settings.gradient.dynamic_sampling_limit is not None:
            figures |= {"reward": sum(rewards) / len(rewards)} if rewards else {}
            figures["groups/waiting"] = float(len(self.waiting))
        return figures

    def restore(self, checkpoint: str, metrics: Mapping[int, Mapping[str, float]]) -> None:
        """Restore the state from a checkpoint's folder. metrics: stored metrics of the run's updates by number."""
        with all_processes("restore", checkpoint):
            self.done = self.checkpoints.restore(self.updater, Path(checkpoint))
        self.versions = WeightVersions.of(self.updater.steps, self.done, metrics)
        self.saved = self.done
        self._figures = [values for number, values in sorted(metrics.items()) if number <= self.done]
        self.ended = early_end(self._figures, self.settings.gradient)
        self._forget_waiting()

    def publish(self) -> Path:
        """Write the current weights to the folder of the result; returns its path. Blocks."""
        with all_processes("publish"):
            return self.checkpoints.publish(self.updater)

    def save(self) -> Path:
        """Save a checkpoint of the current weights; returns its path. Blocks."""
        done = self.done - self._waiting_batches
        with all_processes("save", done):
            path = self.checkpoints.save(self.updater, done)
        self.saved = done
        return path

    @property
    def unsaved(self) -> int:
        """Number of updates that are in no checkpoint and can be saved. Groups that wait are not saved."""
        return 0 if self._updating else max(0, self.done - self._waiting_batches - self.saved)

    def _rows(self, groups: Sequence[Group]) -> tuple[tuple[TrainingRow, ...], dict[str, float], float]:
        """Return the training rows whose weights are not too old, metrics of all, and the share of equal groups."""
        found, teaching = self._advantages(groups), self.teaching
        made = [
            training_rows(
                one,
                # A reward says nothing about a rollout that was sampled with lessons.
                advantage=0.0 if teaching is not None and teaching.guided(one) else found.by_rollout[one.id],
                reward=one.reward or 0.0,
                staleness=self.versions.staleness(one.treatment.weights_step, self.done),
                prompts=None if teaching is None else teaching.prompts(one),
            )
            for group in groups
            for one in group.decided
            if one.id in found.by_rollout
        ]
        rows = [row for one in made for row in one.rows]
        untaught = sum(one.untaught for one in made)
        if untaught and not any(row.taught for row in rows):
            raise ConfigError(
                f"the lessons cannot be put into the prompts that {self.settings.model!r} is sampled with: the agent"
                " has no instructions, or the model's chat template or tokenizer changes their text; give the agent"
                " instructions, or train another model"
            )
        fresh = tuple(row for row in rows if row.staleness <= self.settings.max_staleness)
        logprobs = [one for row in rows if not row.guided for one in row.logprobs_T[row.mask_T].tolist()]
        ages = Counter(row.staleness for row in rows)
        figures = {
            **{f"staleness/{age}": float(count) for age, count in sorted(ages.items())},
            "rows/stale": float(len(rows) - len(fresh)),
            "turns/clean": float(sum(one.clean for one in made)),
            "turns/forked": float(sum(one.forked for one in made)),
            **({} if teaching is None else {"rows/untaught": float(untaught)}),
            **({ENTROPY: -sum(logprobs) / len(logprobs)} if logprobs else {}),
        }
        return fresh, figures, found.zero_std_share

    def _advantages(self, groups: Sequence[Group]) -> BatchAdvantages:
        given, longest = self.settings.gradient, self.settings.max_output_tokens
        own = {one.id: one.reward or 0.0 for group in groups for one in group.decided}
        if (window := given.overlong_window) is not None:
            tokens = {one.id: max(map(len, _answers(one)), default=0) for group in groups for one in group.decided}
            own = {
                name: length_penalised(reward, tokens[name], longest=longest, window=window)
                for name, reward in own.items()
            }
        return batch_advantages(
            groups, scaling=given.advantages, eps=given.advantage_eps, rewards=own, several=self.rewards.several(own)
        )

    def weights_sha256(self) -> str:
        """Hash of the current weights."""
        return whole_hash(self.updater.model)


def _answers(trajectory: Trajectory) -> list[tuple[int, ...]]:
    """The sampled tokens of each answer."""
    turns = (one.tokens for one in trajectory.steps if isinstance(one, ModelTurn))
    return [tokens.ids for tokens in turns if tokens is not None]
