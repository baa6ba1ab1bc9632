"""The learn loop, from settings to a report: everything opened, the run begun or taken up again, everything closed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import structlog

from agentlearn.calls.account import Account
from agentlearn.calls.endpoint import open_endpoint
from agentlearn.calls.tracing import open_tracing
from agentlearn.config import LearnSettings
from agentlearn.domain import Domain
from agentlearn.errors import ConfigError
from agentlearn.experience import Library
from agentlearn.ids import RunId, new_run_id
from agentlearn.learn.estimate import refuse_unpriced_budget
from agentlearn.learn.logs import Logs, log_sets, refuse_contradictions
from agentlearn.learn.observer import Observer
from agentlearn.learn.opening import budget_of, domain_of, options_of
from agentlearn.learn.pilot import pilot_sets
from agentlearn.learn.report import LearnReport
from agentlearn.learn.session import LearnSession
from agentlearn.learn.tasks import task_sets
from agentlearn.library import Shelf
from agentlearn.rollout import open_rollouts
from agentlearn.store import Store, open_store, read_store


async def run_learning(
    settings: LearnSettings, observer: Observer | None = None, *, resume: RunId | None = None
) -> LearnReport:
    """Learn lessons and say what they are worth.

    Everything is committed to the store as it happens. resume: a run that was interrupted, with the settings that
    `agentlearn.learn.resume.settings_of` gives; it goes on where it stopped, and asks nothing that was answered.

    Raises ConfigError before anything is spent; BudgetExceeded, EndpointGone or Interrupted when the run was stopped
    and can be resumed; StoreError when results can no longer be kept.
    """
    refuse_unpriced_budget(settings)
    refuse_contradictions(settings)
    domain = domain_of(settings)
    logs = None
    if settings.from_store:
        with read_store(settings.store) as reader:
            logs, whole = log_sets(Logs.of(reader, settings), settings, domain, reader)
    else:
        whole = task_sets(settings, domain)
    sets = pilot_sets(whole, settings) if settings.pilot is not None else whole
    if settings.labels == "none" and all(domain.answer_key(task.answer or "0") is None for task in sets.train):
        raise ConfigError(f"domain {settings.domain!r} has no answer_key, so --labels none cannot vote", code="no_vote")
    shelf = Shelf(settings.store / "libraries")
    start = shelf.load(settings.library) if resume is None else None
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings.store))
        session = await stack.enter_async_context(_open(settings, domain, store, observer or Observer(), resume, logs))
        return await session.learn(sets, whole, start or _start_of(store, settings, shelf, resume), shelf)


def run_learning_sync(settings: LearnSettings, observer: Observer | None = None) -> LearnReport:
    """`run_learning` for programs without an event loop."""
    return asyncio.run(run_learning(settings, observer))


def _start_of(store: Store, settings: LearnSettings, shelf: Shelf, resume: RunId | None) -> Library:
    """The library that the interrupted run began with, whatever has been published since."""
    ground = store.ground(resume) if resume is not None else None
    return shelf.load(settings.library) if ground is None else store.library(ground.library)


@asynccontextmanager
async def _open(
    settings: LearnSettings,
    domain: Domain,
    store: Store,
    observer: Observer,
    resume: RunId | None,
    logs: Logs | None,
) -> AsyncGenerator[LearnSession]:
    run = resume or new_run_id()
    options = options_of(settings)
    if resume is not None:
        store.recall(resume)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        account = Account(run, store, budget_of(settings, store, resume), tracing=tracing)
        stack.enter_context(structlog.contextvars.bound_contextvars(run=run))
        endpoint = await stack.enter_async_context(open_endpoint(settings.model, options))
        reflector = endpoint
        if settings.reflector_name != settings.model:
            reflector = await stack.enter_async_context(open_endpoint(settings.reflector_name, options))
        rollouts = await stack.enter_async_context(
            open_rollouts(
                domain,
                endpoint,
                account=account,
                sandbox=settings.sandbox,
                judge=reflector,
                deadline_s=settings.rollout_deadline_s,
                max_turns=settings.max_turns,
            )
        )
        yield LearnSession(settings, account, store, rollouts, observer, resume is not None, logs, stages=reflector)
