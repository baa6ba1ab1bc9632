"""A training run with everything open: rollouts, updates, measuring and the report."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentlearn.learn.batch import Batch
from agentlearn.learn.evaluate import Scores, measured, score_of
from agentlearn.learn.learner import Update
from agentlearn.learn.loop import RunLoop, at_once
from agentlearn.learn.report import CurvePoint, HeldOut
from agentlearn.learn.run_stats import resumption_notes
from agentlearn.learn.task_sets import TaskSets
from agentlearn.learn.warnings import run_warnings
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.report import TrainedWeights, TrainReport, update_line
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import Library
from agentlearn.types.run import RunKind

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

    async def train(self, sets: TaskSets, start: Library) -> TrainReport:
        """Run from start to end, and return the report."""
        return await self.recorded(self._train(sets, start))

    async def _train(self, sets: TaskSets, start: Library) -> TrainReport:
        started, learner = time.perf_counter(), self.learner
        await self.save_run_inputs(sets, start)
        endpoint = self.rollouts.endpoint
        self.callbacks.opened(self.call_context, endpoint, endpoint, sets.train, sets.test)
        before = await self.evaluate("before", sets.test, start) if sets.test else None
        await self.learn_from(sets.train, sets.test, learner)
        after = await self.evaluate("after", sets.test, start) if sets.test else None
        path = await asyncio.to_thread(learner.publish)
        return self._report(sets, start, before, after, path, time.perf_counter() - started)

    @property
    def redraws(self) -> bool:
        """True when sampling in rounds: exact numbers depend on which rollouts are computed together, so a batch is
        sampled again as a whole."""
        return self.settings.samples_in_rounds

    def drawing(self, rollouts: int) -> Callable[[], None]:
        rounds = self.learner.sampler.rounds(rollouts, at_once=at_once(self.settings.concurrency))
        if rounds is None or not self.settings.samples_in_rounds:
            return lambda: None
        left, leave = rollouts, rounds.__enter__()

        def rollout_ended() -> None:
            nonlocal left
            left -= 1
            leave()
            if not left:
                rounds.__exit__(None, None, None)

        return rollout_ended

    async def keep_update(self, batch: Batch, update: Update) -> None:
        values = update.evidence.metrics
        await self.store.save_metrics(self.call_context.run, self.learner.done, values)
        if self.write_metrics is not None:
            self.write_metrics(self.learner.done, values)

    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        """Do nothing: reports of training count updates, not epochs."""

    def _report(
        self,
        sets: TaskSets,
        start: Library,
        before: Scores | None,
        after: Scores | None,
        path: Path,
        wall_s: float,
    ) -> TrainReport:
        settings, run_stats, learner, run = self.settings, self.run_stats, self.learner, self.call_context.run
        found = measured(sets.test, before, after, settings.seed)
        kept = self.store.metrics(run)
        lines = tuple(update_line(update, values) for update, values in sorted(kept.items()))
        totals = Counter[str]()
        for values in kept.values():
            totals.update({name: int(values.get(name, 0)) for name in _COUNTED})
        endpoint_states = self.endpoint_states()
        replayed = sum(endpoint_state.replayed.total() for endpoint_state in endpoint_states)
        return TrainReport(
            run=run,
            domain=settings.domain,
            model=settings.model,
            sampler=settings.sampler,
            loss=settings.gradient.loss,
            seed=settings.seed,
            library=start.version,
            tasks={"train": len(sets.train), "test": len(sets.test)},
            before=found.before if found else None,
            after=found.after if found else None,
            delta=found.delta if found else None,
            known_families=measured(sets.test_known, before, after, settings.seed),
            unseen_families=measured(sets.test_unseen, before, after, settings.seed),
            curve=self._curve(sets, before, after, len(lines)),
            updates=lines,
            weights=TrainedWeights(
                sha256_before=learner.first_sha256,
                sha256_after=learner.weights_sha256(),
                path=str(path),
                adapter=settings.gradient.lora_rank > 0,
            ),
            groups={
                kind: run_stats.groups[kind] for kind in ("mixed", "all_right", "all_wrong", "undecided", "failed")
            },
            rollouts={kind: run_stats.outcomes[kind] for kind in ("ok", "failed", "undecided")},
            turns={"clean": totals["turns/clean"], "forked": totals["turns/forked"]},
            skipped=totals["skipped"],
            stale=totals["rows/stale"],
            stages=run_stats.stage_lines(self.store.stage_totals(run), endpoint_states),
            seconds={name: round(seconds, 3) for name, seconds in sorted(learner.seconds.items())},
            wall_s=round(wall_s, 3),
            notes=(
                *_change_notes(found),
                *(
                    one.words
                    for one in run_warnings(run_stats.seen(settings, self.call_context, endpoint_states), ended=True)
                ),
                *run_stats.failure_notes(),
                *resumption_notes(replayed, run_stats.diverged, run_stats.restarted),
                *run_stats.notes,
            ),
        )

    def _curve(
        self, sets: TaskSets, before: Scores | None, after: Scores | None, updates: int
    ) -> tuple[CurvePoint, ...]:
        points = dict(self.measured)
        if before is not None:
            points[0] = score_of(sets.test, before)
        if after is not None:
            points[updates] = score_of(sets.test, after)
        return tuple(CurvePoint(updates=at, held_out=points[at]) for at in sorted(points))


_COUNTED = ("turns/clean", "turns/forked", "skipped", "rows/stale")


def _change_notes(found: HeldOut | None) -> list[str]:
    if found is None or found.delta.ci is None or not found.delta.ci[0] <= 0 <= found.delta.ci[1]:
        return []
    low, high = found.delta.ci
    sentence = (
        f"the held-out change may be zero: its interval [{low:+.2f}, {high:+.2f}] over {found.delta.n} tasks includes"
        " zero; use more updates or more held-out tasks to tell"
    )
    return [sentence]
