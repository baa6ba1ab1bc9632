"""A training run with everything open: rollouts, updates, measuring and the report."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agentlearn.errors import AgentlearnError, ProcessLost
from agentlearn.learning.batch import Allocation, Batch
from agentlearn.learning.batch_runner import rollouts_at_once
from agentlearn.learning.callbacks import Update
from agentlearn.learning.evaluate import ArmNames
from agentlearn.learning.loop import RunLoop
from agentlearn.learning.open_run import TaskSets
from agentlearn.learning.run_result import RunResult, verdict_notes
from agentlearn.learning.warnings import FALLEN
from agentlearn.log import get_log
from agentlearn.stats import sign_flip_p
from agentlearn.text import number_text
from agentlearn.train.distill.teaching import Teaching
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.report import TrainedWeights, TrainReport, update_line
from agentlearn.train.settings import TrainSettings
from agentlearn.train.weights.adapter import has_adapter
from agentlearn.types.experience import Library
from agentlearn.types.group import GROUP_KINDS
from agentlearn.types.ids import LibraryVersion, TaskId
from agentlearn.types.run_event import RunKind
from agentlearn.types.trajectory import ROLLOUT_OUTCOMES

MetricsWriter = Callable[[int, Mapping[str, float]], None]
"""Takes the number of an update and its metrics; for example, writes them for TensorBoard."""


@dataclass(slots=True, kw_only=True)
class TrainingRun(RunLoop[TrainSettings]):
    """A run of gradient GRPO."""

    learner: GradientLearner
    write_metrics: MetricsWriter | None = None
    """Also called with the metrics of each update."""

    @property
    def kind(self) -> RunKind:
        return "train"

    @property
    def arms(self) -> ArmNames:
        return "the model at the start", "the trained model"

    async def train(self, sets: TaskSets, start: Library) -> TrainReport:
        """Run from start to end, and return the report. A run that ends early leaves a checkpoint of its weights."""
        return await self.recorded(self._saved_early(self._train(sets, start)))

    async def _saved_early(self, body: Coroutine[Any, Any, TrainReport]) -> TrainReport:
        try:
            return await body
        except BaseException:
            if not isinstance(self.call_context.stopped, ProcessLost):
                await asyncio.shield(self._save_early())
            raise

    async def _save_early(self) -> None:
        """Save the weights of the updates that no checkpoint holds, and their metrics. A failure is only logged: the
        run ends for another reason already."""
        learner = self.learner
        try:
            if learner.unkept is not None:
                await self._keep_metrics(learner.unkept)
            if learner.unsaved:
                await asyncio.to_thread(learner.save)
        except (AgentlearnError, OSError, RuntimeError) as error:
            get_log(run=self.call_context.run).warning("checkpoint.failed", reason=str(error))
            return
        newest = learner.checkpoints.newest()
        if newest is not None:
            self.callbacks.saved_early(newest, learner.saved)

    async def _train(self, sets: TaskSets, start: Library) -> TrainReport:
        started, learner = time.perf_counter(), self.learner
        teaching = learner.teaching
        await self.save_run_inputs(sets, start, None if teaching is None else teaching.library)
        endpoint = self.rollouts.endpoint
        self.callbacks.opened(self.call_context, endpoint, endpoint, sets.train, sets.test)
        self.notice_chat_template()
        before = await self.evaluate({"before": start}, sets.test)
        await self.learn_from(sets.train, sets.test, learner)
        after = await self.evaluate({"after": start}, sets.test)
        result = self.result(sets, before.get("before"), after.get("after"), time.perf_counter() - started)
        verdict = None if result.held_out is None else result.held_out.delta.verdict
        fallen = "" if teaching is None or verdict == "better" else self._fallen_rewards(teaching)
        if fallen or (teaching is not None and verdict == "worse"):
            path = await asyncio.to_thread(learner.save)
            return self._report(result, start, path, published=False, fallen=fallen)
        path = await asyncio.to_thread(learner.publish)
        return self._report(result, start, path)

    def _fallen_rewards(self, teaching: Teaching) -> str:
        """Return a note when the rewards without lessons fell from the first to the last visit of the same tasks."""
        visits: dict[TaskId, dict[int, list[float]]] = {}
        for row in self.store.trajectories(self.call_context.run):
            if row.phase.startswith("epoch-") and row.reward is not None and not teaching.guides(row.g):
                epoch = int(row.phase.removeprefix("epoch-"))
                visits.setdefault(row.task, {}).setdefault(epoch, []).append(row.reward)
        pairs = [(fmean(one[min(one)]), fmean(one[max(one)])) for one in visits.values() if len(one) > 1]
        differences = [after - before for before, after in pairs]
        if sum(differences) >= 0 or (p := sign_flip_p(differences, seed=self.settings.seed) / 2) > FALLEN:
            return ""
        before, after = (number_text(fmean(one)) for one in zip(*pairs, strict=True))
        return (
            f"the run's own rewards on the same {len(pairs):,} tasks fell from {before} at their first visit to {after}"
            f" at their last (one-sided p {p:.2g})"
        )

    @property
    def allocation(self) -> Allocation:
        return Allocation.of_all(self.settings.group_size)

    @property
    def other_libraries(self) -> Mapping[LibraryVersion, Library]:
        teaching = self.learner.teaching
        return {} if teaching is None else {teaching.library.version: teaching.library}

    @property
    def batches_ahead(self) -> int:
        return self.settings.max_staleness

    @property
    def repeats_unfinished(self) -> bool:
        """True when sampling in rounds: exact numbers depend on which rollouts are computed together, so a batch of
        which a rollout is missing is sampled again as a whole."""
        return self.settings.samples_in_rounds

    def sampling_started(self, rollouts: int) -> Callable[[], None]:
        most_open = self.rollouts.domain.max_open_rollouts() or rollouts
        at_once = min(most_open, rollouts_at_once(self.settings.concurrency))
        rounds = self.learner.sampler.rounds(rollouts, at_once=at_once)
        if rounds is None or not self.settings.samples_in_rounds:
            return lambda: None
        barrier, context, left = rounds.__enter__(), self.call_context, rollouts

        def calls_changed() -> None:
            barrier.hold(context.silent)
            if context.stopped is not None:  # calls in flight are answered, and no others come
                barrier.release()

        context.watchers.append(calls_changed)
        calls_changed()

        def rollout_ended() -> None:
            nonlocal left
            left -= 1
            barrier.leave()
            if not left:
                context.watchers.remove(calls_changed)
                rounds.__exit__(None, None, None)

        return rollout_ended

    async def keep_update(self, batch: Batch, update: Update) -> None:
        await self._keep_metrics(update)

    async def _keep_metrics(self, update: Update) -> None:
        values = update.evidence.metrics
        await self.store.save_metrics(self.call_context.run, self.learner.done, values)
        self.learner.unkept = None
        if self.write_metrics is not None:
            self.write_metrics(self.learner.done, values)

    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        """Do nothing: reports of training count updates, not epochs."""

    def _report(
        self, result: RunResult, start: Library, path: Path, *, published: bool = True, fallen: str = ""
    ) -> TrainReport:
        settings, stats, learner, held_out = self.settings, self.stats, self.learner, result.held_out
        kept = self.store.metrics(result.run)
        lines = tuple(update_line(update, values) for update, values in sorted(kept.items()))
        totals = Counter[str]()
        for values in kept.values():
            totals.update({name: int(values.get(name, 0)) for name in _COUNTED})
        delta = held_out.delta if held_out else None
        return TrainReport(
            run=result.run,
            domain=settings.domain,
            model=settings.model,
            sampler=settings.sampler,
            loss=settings.gradient.loss,
            seed=result.seed,
            library=start.version,
            distilled=None if learner.teaching is None else learner.teaching.library.version,
            tasks=result.tasks,
            before=held_out.before if held_out else None,
            after=held_out.after if held_out else None,
            delta=delta,
            known_families=result.known_families,
            unseen_families=result.unseen_families,
            test_sets=result.test_sets,
            curve=result.whole_curve(len(lines)),
            updates=lines,
            weights=TrainedWeights(
                sha256_before=learner.first_sha256,
                sha256_after=learner.weights_sha256(),
                path=str(path),
                adapter=has_adapter(learner.updater.model),
                published=published,
            ),
            groups={kind: stats.groups[kind] for kind in GROUP_KINDS},
            rollouts={outcome: stats.outcomes[outcome] for outcome in ROLLOUT_OUTCOMES},
            turns={"clean": totals["turns/clean"], "forked": totals["turns/forked"]},
            skipped=totals["skipped"],
            stale=totals["rows/stale"],
            stages=result.stages,
            services=result.services,
            seconds=_seconds_of(kept),
            resumed=self.resumed,
            wall_s=result.wall_rounded_s,
            notes=tuple(
                dict.fromkeys(
                    (
                        *([learner.no_reward] if learner.no_reward else []),
                        *([f"{fallen}, {_NOT_PUBLISHED}"] if fallen else []),
                        *verdict_notes(
                            delta,
                            worse=_WORSE if published else _NOT_PUBLISHED,
                            unclear="more updates, or more held-out tasks, would make it clearer",
                        ),
                        *self._reuse_notes(),
                        *result.notes(),
                    )
                )
            ),
        )

    def _reuse_notes(self) -> tuple[str, ...]:
        """A note on the rollouts that a resumed run did not make again."""
        if not self.batches.reused:
            return ()
        words = (
            f"resumed: {self.batches.reused:,} rollouts that had finished before were learned from as the store shows"
            " them, with the rewards that they had got"
        )
        return (words,)


def _seconds_of(kept: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return the seconds spent on each part of all updates, from their stored metrics."""
    totals = Counter[str]()
    for values in kept.values():
        totals.update({name: value for name, value in values.items() if name.startswith(_SECONDS)})
    return {name.removeprefix(_SECONDS): round(seconds, 3) for name, seconds in sorted(totals.items())}


_WORSE = "use the model as it was before, or a lower learning rate"
_NOT_PUBLISHED = (
    "so the weights were not published; measure the lessons with `agentlearn compare` before distilling them"
)
_SECONDS = "seconds/"
_COUNTED = ("turns/clean", "turns/forked", "skipped", "rows/stale")
