"""Training weights, from settings to a report: opens everything, starts or resumes the run, measures, and closes it."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import structlog
import torch

from agentlearn.domain.reward_trial import try_reward
from agentlearn.errors import AgentlearnError, ProcessLost
from agentlearn.learning.batch import Allocation, Batch, batches_of
from agentlearn.learning.batch_runner import rollouts_at_once
from agentlearn.learning.callbacks import Update
from agentlearn.learning.evaluate import ArmNames, RunResult, verdict_notes
from agentlearn.learning.lessons.run_learning import library_caution
from agentlearn.learning.loop import RunLoop
from agentlearn.learning.open_run import TaskSets, budget_of, domain_of, task_sets
from agentlearn.learning.report import HeldOut
from agentlearn.learning.run_stats import FALLEN
from agentlearn.library import LibraryStore
from agentlearn.measure.difference import sign_flip_p
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.rollout.runner import open_rollouts
from agentlearn.store import Store, open_store
from agentlearn.text import number_text
from agentlearn.text.log import get_log
from agentlearn.train.distributed.spread_engine import share_in_sampling
from agentlearn.train.distributed.torchrun import (
    CONNECTED,
    Follower,
    all_processes,
    follow_processes,
    lead_processes,
    leaving,
    whole_hash,
)
from agentlearn.train.engine.attention import PromptTokens
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.report import TrainCallbacks, TrainedWeights, TrainReport, UpdateLine
from agentlearn.train.settings import MetricsWriter, TrainSettings, metrics_writers, require_trackers
from agentlearn.train.trainable import open_trainable
from agentlearn.train.training_plan import (
    context_note,
    refuse_long_warmup,
    refuse_own_judge,
    refuse_unmeasured_margin,
    refuse_unreadable,
)
from agentlearn.train.update.sequences import Teaching, library_to_distil
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.loading import LoadedModel
from agentlearn.train.weights.model import load_for_training, load_reference_model
from agentlearn.types.experience import Library
from agentlearn.types.group import GROUP_KINDS
from agentlearn.types.ids import LibraryVersion, RunId, TaskId, new_run_id
from agentlearn.types.run_event import RunKind
from agentlearn.types.trajectory import ROLLOUT_OUTCOMES


@dataclass(slots=True, kw_only=True)
class TrainingRun(RunLoop[TrainSettings]):
    """A run of gradient GRPO."""

    learner: GradientLearner
    metrics_writers: Sequence[MetricsWriter] = ()
    """Also called with the metrics of each update."""
    failed: str = ""
    """At the end: why nothing was learned; empty when something was."""

    @property
    def kind(self) -> RunKind:
        return "train"

    @property
    def arms(self) -> ArmNames:
        return "the model at the start", "the trained model"

    async def train(self, sets: TaskSets, start: Library) -> TrainReport:
        """Run from start to end, and return the report. A run that ends early leaves a checkpoint of its weights."""

        async def saved_early() -> TrainReport:
            try:
                return await self._train(sets, start)
            except BaseException:
                if not isinstance(self.call_context.stopped, ProcessLost):
                    await asyncio.shield(self._save_early())
                raise

        return await self.recorded(saved_early())

    async def _save_early(self) -> None:
        """Save the weights of the updates that no checkpoint holds, and their metrics. A failure is only logged: the
        run ends for another reason already."""
        learner = self.learner
        try:
            if learner.unkept is not None:
                await self.keep_update(None, learner.unkept)
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
        self.failed = await asyncio.to_thread(lambda: learner.nothing_changed) or learner.collapse
        withheld = [] if self.failed else self._why_withheld(result)
        path = await asyncio.to_thread(learner.save if withheld or self.failed else learner.publish)
        return self._report(result, start, path, withheld)

    def _why_withheld(self, result: RunResult) -> list[str]:
        """Return why weights that have learned are not published; empty when they are."""
        found, teaching = list[str](), self.learner.teaching
        sets = [one for one in (result.held_out, *result.test_sets) if one is not None]
        if teaching is not None:
            found += [f"{_tasks_of(one)} got worse" for one in sets if one.delta.verdict == "worse"]
            better = bool(sets) and sets[0].delta.verdict == "better"
            if not found and not better and (fallen := self._fallen_rewards(teaching)):
                found.append(fallen)
        if self.margin is not None:
            found += [
                f"{_tasks_of(one)} are not shown to be as good as before, within the margin of"
                f" {number_text(self.margin)} ({one.delta.sentence.rstrip('.')})"
                for one in result.test_sets or sets
                if one.delta.verdict not in {"better", "no_worse"}
            ]
        return found

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
    def margin(self) -> float | None:
        return self.settings.margin

    @property
    def allocation(self) -> Allocation:
        return Allocation.of_all(self.settings.group_size, self.settings.revisit_chance)

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

    async def keep_update(self, batch: Batch | None, update: Update) -> None:
        values = update.evidence.metrics
        self.monitor.groups_explained = bool(self.learner.collapse)
        await self.store.save_metrics(self.call_context.run, self.learner.done, values)
        self.learner.unkept = None
        for write in self.metrics_writers:
            write(self.learner.done, values)

    def epoch_done(self, batch: Batch, update: Update, seconds: float) -> None:
        """Do nothing: reports of training count updates, not epochs."""

    def _report(self, result: RunResult, start: Library, path: Path, withheld: Sequence[str]) -> TrainReport:
        settings, stats, learner, held_out = self.settings, self.stats, self.learner, result.held_out
        kept, totals = self.store.metrics(result.run), Counter[str]()
        for values in kept.values():
            totals.update(
                {name: value for name, value in values.items() if name in _COUNTED or name.startswith("seconds/")}
            )
        notes = [
            *([f"no weights were published: {self.failed}"] if self.failed and not learner.collapse else []),
            *(
                f"{why}, so the weights were not published; {_MEASURE if settings.distils else _WORSE}"
                for why in withheld
            ),
            *verdict_notes(
                held_out.delta if held_out and not withheld and not self.failed else None,
                worse=_WORSE,
                unclear="more updates, or more held-out tasks, would make it clearer",
            ),
        ]
        if self.batches.reused:
            notes.append(
                f"resumed: {self.batches.reused:,} rollouts that had finished before were learned from as the store"
                " shows them, with the rewards that they had got"
            )
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
            delta=held_out.delta if held_out else None,
            known_families=result.known_families,
            unseen_families=result.unseen_families,
            test_sets=result.test_sets,
            curve=result.whole_curve(len(kept)),
            updates=tuple(UpdateLine.of(update, values) for update, values in sorted(kept.items())),
            weights=TrainedWeights(
                sha256_before=learner.first_sha256,
                sha256_after=learner.weights_sha256(),
                path=str(path),
                adapter=hasattr(learner.updater.model, "peft_config"),
                published=not (withheld or self.failed),
                withheld=self.failed or "; ".join(withheld),
                failed=bool(self.failed),
            ),
            groups={kind: stats.groups[kind] for kind in GROUP_KINDS},
            rollouts={outcome: stats.outcomes[outcome] for outcome in ROLLOUT_OUTCOMES},
            turns={kind: int(totals[f"turns/{kind}"]) for kind in ("clean", "forked")},
            skipped=int(totals["skipped"]),
            stale=int(totals["rows/stale"]),
            stages=result.stages,
            services=result.services,
            seconds={
                name.removeprefix("seconds/"): round(value, 3)
                for name, value in sorted(totals.items())
                if name.startswith("seconds/")
            },
            resumed=self.resumed,
            wall_s=result.wall_rounded_s,
            notes=tuple(dict.fromkeys((*notes, *result.notes()))),
        )


def _arithmetic(model: Any) -> str:
    """Return a note on what equal seeds give equal figures with; empty on a GPU."""
    kernels, threads = torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()
    if model.device.type != "cpu":
        return ""
    return (
        f"computed by torch {torch.__version__} with kernels for {kernels}, number of threads {threads:,}; equal seeds"
        " give other figures where one of these differs"
    )


def _tasks_of(held_out: HeldOut) -> str:
    return f"the tasks of {held_out.name!r}" if held_out.name else "held-out tasks"


_WORSE = "use the model as it was before, or a lower learning rate"
_MEASURE = "measure the lessons with `agentlearn compare` before distilling them"
_COUNTED = ("turns/clean", "turns/forked", "skipped", "rows/stale")
"""Metrics that a report adds up."""


async def run_training(
    settings: TrainSettings, callbacks: TrainCallbacks | None = None, *, resume: RunId | None = None
) -> TrainReport:
    """Train the weights of a local model on a domain's rewards, and measure the change on held-out tasks.

    Results are stored as they happen, and weights are checkpointed every `save_every` updates. resume: an interrupted
    run, given with the settings it was started with. It continues from its newest checkpoint, and on a CPU it ends with
    exactly the weights of an uninterrupted run.

    Raises ConfigError before anything is sampled; BudgetExceeded or Interrupted when the run was stopped and can be
    resumed; EndpointError when the sampler does not use the trained weights; StoreError.
    """
    callbacks = callbacks or TrainCallbacks()
    require_trackers(settings.report_to)
    domain = domain_of(settings)
    refuse_own_judge(domain, settings)
    sets = task_sets(settings, domain)
    refuse_long_warmup(settings, len(_batches(settings, sets)))
    refuse_unmeasured_margin(settings, len(sets.test))
    notes = [*filter(None, (context_note(settings),)), *await try_reward(domain, (*sets.train, *sets.test))]
    library_store = LibraryStore(settings.store / "libraries")
    async with AsyncExitStack() as stack:
        stack.enter_context(lead_processes(settings))
        store = await stack.enter_async_context(open_store(settings.store))
        run_inputs = store.run_inputs(resume) if resume is not None else None
        start = library_store.load(settings.library) if run_inputs is None else store.library(run_inputs.library)
        rule = library_store.not_shown()
        start = rule.applied(start, f"run {resume}")
        if run_inputs is None or run_inputs.distilled is None:
            distilled = library_to_distil(settings, library_store)
        else:
            distilled = rule.applied(store.library(run_inputs.distilled), f"run {resume}")
        training_run = await stack.enter_async_context(
            _open(settings, sets, start, store, callbacks, resume, distilled)
        )
        updater = training_run.learner.updater
        training_run.stats.notes.extend(filter(None, (*notes, updater.memory.sentence, _arithmetic(updater.model))))
        for reference, library in ((settings.library, start), (settings.distill, distilled)):
            if library is not None and (caution := library_caution(reference, library)):
                training_run.stats.notes.append(caution)
        report = await training_run.train(sets, start)
        callbacks.trained(report)
        return report


def follow_training() -> None:
    """Take part in a run that the first process of `torchrun` leads, until it ends. Blocks.

    Raises ProcessLost when the first process ends before the run is over.
    """
    if (settings := follow_processes()) is None:
        return
    sets = task_sets(settings, domain_of(settings))
    links = CONNECTED.follower
    assert links is not None
    with leaving(links):
        if (loaded := _followers_model(settings)) is None:
            return
        updater = _updater(settings, sets, loaded)
        checkpoints = _checkpoints(settings, RunId(""), loaded.tokenizer)
        with share_in_sampling(loaded, links, wanted=settings.sampler == "local") as paused:
            Follower(updater, checkpoints, paused).follow()


def _followers_model(settings: TrainSettings) -> LoadedModel | None:
    """The model as a process that does not lead has it; None when the leader has given up.

    When weights are sharded, the process gets them from the leader. Only a frozen copy is read from files.
    """
    if (source := CONNECTED.told("source")) is None:
        return None
    if settings.processes == "replicate":
        return load_for_training(source[0], settings.gradient, device=str(CONNECTED.accelerator.device))
    if (layout := CONNECTED.told("model")) is None:
        return None
    torch.manual_seed(settings.gradient.seed)
    model, tokenizer, name = layout
    reference = load_reference_model(source[0], settings.gradient) if settings.gradient.reference == "copy" else None
    return LoadedModel(model=model, tokenizer=tokenizer, name=name, reference=reference)


@asynccontextmanager
async def _open(
    settings: TrainSettings,
    sets: TaskSets,
    start: Library,
    store: Store,
    callbacks: TrainCallbacks,
    resume: RunId | None,
    distilled: Library | None,
) -> AsyncGenerator[TrainingRun]:
    run = resume or new_run_id()
    if resume is not None and not settings.samples_in_rounds:  # with rounds, an unfinished batch is sampled again
        store.recall(resume)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(run, store, budget_of(settings, store, resume), tracing=tracing)
        stack.enter_context(structlog.contextvars.bound_contextvars(run=run))
        loop = asyncio.get_running_loop()
        loaded, endpoint, sampler = await stack.enter_async_context(open_trainable(settings))
        tokens = PromptTokens.of_loaded(loaded, most=settings.vllm_max_context)
        await asyncio.to_thread(refuse_unreadable, settings, domain_of(settings), sets, tokens, start, distilled)
        teaching = None
        if distilled is not None:
            teaching = Teaching(distilled, settings, TemplateFormat(loaded.tokenizer))
        updater = _updater(settings, sets, loaded)
        learner = GradientLearner(
            start,
            settings,
            updater,
            sampler,
            _checkpoints(settings, run, loaded.tokenizer),
            teaching=teaching,
            total=len(_batches(settings, sets)),
            threshold=domain_of(settings).threshold,
            first_sha256=whole_hash(updater.model),
        )
        if CONNECTED.accelerator is not None:
            stack.callback(CONNECTED.release_when_idle, learner.updater)
        if resume is not None and (newest := learner.checkpoints.newest()) is not None:
            learner.restore(str(newest), store.metrics(resume))
            await sampler.synchronise(learner.updater.model)
        CONNECTED.begin_run(run, lambda lost: loop.call_soon_threadsafe(call_context.stop, lost))
        rollouts = await stack.enter_async_context(
            open_rollouts(domain_of(settings), endpoint, settings, call_context=call_context)
        )
        training_run = TrainingRun(
            settings, call_context, store, rollouts, callbacks, resume is not None, learner=learner
        )
        training_run.metrics_writers = stack.enter_context(
            metrics_writers(
                settings.report_to,
                run=run,
                store=settings.store,
                settings=json.loads(settings.resolved()),
                done=learner.done,
            )
        )
        yield training_run


def _updater(settings: TrainSettings, sets: TaskSets, loaded: LoadedModel) -> Updater:
    steps = len(_batches(settings, sets)) * settings.gradient.passes
    with all_processes(None):
        return Updater(
            loaded.model,
            settings.gradient,
            reference=loaded.reference,
            total_steps=steps,
            accelerator=CONNECTED.accelerator,
        )


def _batches(settings: TrainSettings, sets: TaskSets) -> list[Batch]:
    return batches_of(sets.train, epochs=settings.epochs, size=settings.batch_size, seed=settings.seed)


def _checkpoints(settings: TrainSettings, run: RunId, tokenizer: Any) -> CheckpointStore:
    return CheckpointStore(
        folder=settings.store / "checkpoints" / run,
        out=settings.folder,
        tokenizer=tokenizer,
        keep=settings.keep_checkpoints,
    )
