"""Training weights, from settings to a report: opens everything, starts or resumes the run, and closes it."""

from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import structlog

from agentlearn.domain.custom import try_reward
from agentlearn.learning.batch import Batch, batches_of
from agentlearn.learning.lessons.library_caution import library_caution
from agentlearn.learning.open_run import budget_of, domain_of
from agentlearn.learning.task_sets import TaskSets, task_sets
from agentlearn.learning.without_loop import without_loop
from agentlearn.library import LibraryStore
from agentlearn.models.call_context import CallContext
from agentlearn.models.tracing import open_tracing
from agentlearn.rollout.runner import open_rollouts
from agentlearn.store import Store, open_store
from agentlearn.train.callbacks import TrainCallbacks
from agentlearn.train.distributed.torchrun import Follower, accelerator_for, lead_processes
from agentlearn.train.gradient_learner import GradientLearner
from agentlearn.train.report import TrainReport
from agentlearn.train.settings import TrainSettings
from agentlearn.train.trainable import TrainableModel, model_source, open_trainable
from agentlearn.train.training_run import MetricsWriter, TrainingRun
from agentlearn.train.update.updater import Updater
from agentlearn.train.weights.checkpoint import CheckpointStore
from agentlearn.train.weights.loading import LoadedModel
from agentlearn.train.weights.model import load_for_training, weights_hash
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
    sets = task_sets(settings, domain)
    notes = await try_reward(domain, (*sets.train, *sets.test))
    library_store = LibraryStore(settings.store / "libraries")
    async with AsyncExitStack() as stack:
        stack.enter_context(lead_processes())
        store = await stack.enter_async_context(open_store(settings.store))
        run_inputs = store.run_inputs(resume) if resume is not None else None
        start = library_store.load(settings.library) if run_inputs is None else store.library(run_inputs.library)
        training_run = await stack.enter_async_context(_open(settings, sets, start, store, callbacks, resume))
        training_run.stats.notes.extend(notes)
        if caution := library_caution(settings.library, start):
            training_run.stats.notes.append(caution)
        report = await training_run.train(sets, start)
        callbacks.trained(report)
        return report


def follow_training(settings: TrainSettings) -> None:
    """Take part in a run that the first process of `torchrun` leads, until it ends. Blocks."""
    accelerator = accelerator_for(settings)
    sets = task_sets(settings, domain_of(settings))
    loaded = load_for_training(model_source(settings), settings.gradient, device=str(accelerator.device))
    updater = _updater(settings, sets, loaded, accelerator)
    Follower(updater, _checkpoints(settings, RunId(""), loaded.tokenizer)).follow()


run_training_sync = without_loop(run_training)


@asynccontextmanager
async def _open(
    settings: TrainSettings,
    sets: TaskSets,
    start: Library,
    store: Store,
    callbacks: TrainCallbacks,
    resume: RunId | None,
) -> AsyncGenerator[TrainingRun]:
    run = resume or new_run_id()
    if resume is not None and not settings.samples_in_rounds:  # with rounds, an unfinished batch is sampled again
        store.recall(resume)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(run, store, budget_of(settings, store, resume), tracing=tracing)
        stack.enter_context(structlog.contextvars.bound_contextvars(run=run))
        trainable = await stack.enter_async_context(open_trainable(settings))
        learner = _learner(settings, sets, start, run, trainable)
        if trainable.accelerator is not None:
            stack.callback(learner.updater.release)
        if resume is not None and (newest := learner.checkpoints.newest()) is not None:
            learner.restore(str(newest))
            await trainable.sampler.synchronise(learner.updater.model)
        rollouts = await stack.enter_async_context(
            open_rollouts(
                domain_of(settings),
                trainable.endpoint,
                settings,
                call_context=call_context,
            )
        )
        write_metrics = stack.enter_context(_tensorboard(settings, run))
        resumed = resume is not None
        yield TrainingRun(
            settings, call_context, store, rollouts, callbacks, resumed, learner=learner, write_metrics=write_metrics
        )


def _learner(
    settings: TrainSettings, sets: TaskSets, start: Library, run: RunId, trainable: TrainableModel
) -> GradientLearner:
    updater = _updater(settings, sets, trainable.loaded, trainable.accelerator)
    return GradientLearner(
        start,
        settings,
        updater,
        trainable.sampler,
        _checkpoints(settings, run, trainable.loaded.tokenizer),
        total=len(_batches(settings, sets)),
        first_sha256=weights_hash(updater.model),
    )


def _updater(settings: TrainSettings, sets: TaskSets, loaded: LoadedModel, accelerator: Any) -> Updater:
    steps = len(_batches(settings, sets)) * settings.gradient.passes
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
def _tensorboard(settings: TrainSettings, run: RunId) -> Generator[MetricsWriter | None]:
    """A writer for TensorBoard; None when the settings do not ask for one."""
    if not settings.tensorboard:
        yield None
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(settings.store / "tensorboard" / run)) as writer:

        def write(update: int, values: Mapping[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, update)

        yield write
