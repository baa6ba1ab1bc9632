"""Training weights, from settings to a report: opens everything, starts or resumes the run, and closes it."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import structlog
import torch

from agentlearn.domain.reward_trial import try_reward
from agentlearn.learning.batch import Batch, batches_of
from agentlearn.learning.lessons.start import library_caution
from agentlearn.learning.open_run import TaskSets, budget_of, domain_of, task_sets
from agentlearn.learning.without_loop import without_loop
from agentlearn.library import LibraryStore
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.rollout.runner import open_rollouts
from agentlearn.store import Store, open_store
from agentlearn.train.callbacks import TrainCallbacks
from agentlearn.train.distill.teaching import Teaching, library_to_distil
from agentlearn.train.distributed.sampling_share import share_in_sampling
from agentlearn.train.distributed.torchrun import (
    Follower,
    begin_run,
    connected_accelerator,
    follow_processes,
    follower_links,
    joining_processes,
    lead_processes,
    leaving,
    release_when_idle,
    shared_by_leader,
    whole_hash,
)
from agentlearn.train.engine.chat_template import TemplateFormat
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings
from agentlearn.train.trainable import TrainableModel, open_trainable
from agentlearn.train.training_plan import context_note, refuse_long_warmup, refuse_own_judge
from agentlearn.train.training_run import MetricsWriter, TrainingRun
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.loading import LoadedModel
from agentlearn.train.weights.model import load_for_training, load_reference_model
from agentlearn.types.experience import Library
from agentlearn.types.ids import RunId, new_run_id


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
    domain = domain_of(settings)
    refuse_own_judge(domain, settings)
    sets = task_sets(settings, domain)
    refuse_long_warmup(settings, len(_batches(settings, sets)))
    notes = [*filter(None, (context_note(settings),)), *await try_reward(domain, (*sets.train, *sets.test))]
    library_store = LibraryStore(settings.store / "libraries")
    async with AsyncExitStack() as stack:
        stack.enter_context(lead_processes(settings))
        store = await stack.enter_async_context(open_store(settings.store))
        run_inputs = store.run_inputs(resume) if resume is not None else None
        start = library_store.load(settings.library) if run_inputs is None else store.library(run_inputs.library)
        if run_inputs is None or run_inputs.distilled is None:
            distilled = library_to_distil(settings, library_store)
        else:
            distilled = store.library(run_inputs.distilled)
        training_run = await stack.enter_async_context(
            _open(settings, sets, start, store, callbacks, resume, distilled)
        )
        training_run.stats.notes.extend((*notes, training_run.learner.updater.memory.sentence))
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
    with leaving(follower_links()):
        if (loaded := _followers_model(settings)) is None:
            return
        updater = _updater(settings, sets, loaded, connected_accelerator())
        checkpoints = _checkpoints(settings, RunId(""), loaded.tokenizer)
        with share_in_sampling(loaded, follower_links(), wanted=settings.sampler == "local") as paused:
            Follower(updater, checkpoints, paused).follow()


def _followers_model(settings: TrainSettings) -> LoadedModel | None:
    """The model as a process that does not lead has it; None when the leader has given up.

    When weights are sharded, the process gets them from the leader. Only a frozen copy is read from files.
    """
    if (source := shared_by_leader("source")) is None:
        return None
    if settings.processes == "replicate":
        return load_for_training(source[0], settings.gradient, device=str(connected_accelerator().device))
    if (layout := shared_by_leader("model")) is None:
        return None
    torch.manual_seed(settings.gradient.seed)
    model, tokenizer, name = layout
    copied = settings.gradient.reference in {"copy", "copy_int8"}
    reference = load_reference_model(source[0], settings.gradient) if copied else None
    return LoadedModel(model=model, tokenizer=tokenizer, name=name, reference=reference)


run_training_sync = without_loop(run_training)


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
        trainable = await stack.enter_async_context(open_trainable(settings))
        teaching = None
        if distilled is not None:
            teaching = Teaching(distilled, settings, TemplateFormat(trainable.loaded.tokenizer))
        learner = _learner(settings, sets, start, run, trainable, teaching)
        if trainable.accelerator is not None:
            stack.callback(release_when_idle, learner.updater)
        if resume is not None and (newest := learner.checkpoints.newest()) is not None:
            learner.restore(str(newest), store.metrics(resume))
            await trainable.sampler.synchronise(learner.updater.model)
        begin_run(run, lambda lost: loop.call_soon_threadsafe(call_context.stop, lost))
        rollouts = await stack.enter_async_context(
            open_rollouts(
                domain_of(settings),
                trainable.endpoint,
                settings,
                call_context=call_context,
            )
        )
        write_metrics = stack.enter_context(_tensorboard(settings, run, done=learner.done))
        resumed = resume is not None
        yield TrainingRun(
            settings, call_context, store, rollouts, callbacks, resumed, learner=learner, write_metrics=write_metrics
        )


def _learner(
    settings: TrainSettings,
    sets: TaskSets,
    start: Library,
    run: RunId,
    trainable: TrainableModel,
    teaching: Teaching | None,
) -> GradientLearner:
    updater = _updater(settings, sets, trainable.loaded, trainable.accelerator)
    return GradientLearner(
        start,
        settings,
        updater,
        trainable.sampler,
        _checkpoints(settings, run, trainable.loaded.tokenizer),
        teaching=teaching,
        total=len(_batches(settings, sets)),
        threshold=domain_of(settings).threshold,
        first_sha256=whole_hash(updater.model),
    )


def _updater(settings: TrainSettings, sets: TaskSets, loaded: LoadedModel, accelerator: Any) -> Updater:
    steps = len(_batches(settings, sets)) * settings.gradient.passes
    with joining_processes():
        return Updater(
            loaded.model, settings.gradient, reference=loaded.reference, total_steps=steps, accelerator=accelerator
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


@contextmanager
def _tensorboard(settings: TrainSettings, run: RunId, *, done: int) -> Generator[MetricsWriter | None]:
    """A writer for TensorBoard; None when the settings do not ask for one.

    done: updates that the run has made. What it wrote of later ones before it was interrupted is no longer shown.
    """
    if not settings.tensorboard:
        yield None
        return
    from torch.utils.tensorboard import SummaryWriter

    folder = str(settings.store / "tensorboard" / run)
    with SummaryWriter(folder, purge_step=done + 1) as writer:

        def write(update: int, values: Mapping[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, update)

        yield write
