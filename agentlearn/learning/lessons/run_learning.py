"""Running training-free GRPO from settings to a report, or resuming an interrupted run."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace

import structlog

from agentlearn.config import LearnSettings
from agentlearn.domain.base import Domain
from agentlearn.domain.reward_trial import try_reward
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.estimate import refuse_unpriced_budget
from agentlearn.learning.lessons.lesson_run import LessonRun
from agentlearn.learning.lessons.start import library_caution, start_library
from agentlearn.learning.open_run import (
    answer_limit_of,
    budget_of,
    domain_of,
    reflector_limit_of,
    service_settings,
    task_sets,
    with_validation,
)
from agentlearn.learning.pilot import pilot_sets
from agentlearn.learning.report import LearnReport
from agentlearn.learning.stored_groups import (
    StoredGroups,
    is_recorded,
    refuse_contradictions,
    stored_domain,
    stored_task_sets,
)
from agentlearn.learning.subject import NOTHING_GIVEN, Given
from agentlearn.learning.without_loop import without_loop
from agentlearn.library import LibraryStore
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.models.call_settings import CallSettings
from agentlearn.models.endpoint import check_endpoint, open_endpoint
from agentlearn.rollout.runner import open_rollouts
from agentlearn.store import Store, open_store, read_store
from agentlearn.types.experience import Library
from agentlearn.types.ids import RunId, new_run_id


async def run_learning(
    settings: LearnSettings,
    callbacks: Callbacks | None = None,
    *,
    resume: RunId | None = None,
    given: Given = NOTHING_GIVEN,
) -> LearnReport:
    """Learn lessons, measure their effect and return the report. Everything is stored as it happens.

    given: objects to use in place of what the settings name. resume: an interrupted run; pass the settings that
    `agentlearn.learning.resume.settings_of` returns. The run continues where it stopped and repeats no answered call.

    Raises ConfigError before anything is spent; BudgetExceeded, EndpointGone or Interrupted when the run was stopped
    and can be resumed; StoreError when results can no longer be stored.
    """
    for name in _named_models(settings, given):
        check_endpoint(name, settings)
    refuse_unpriced_budget(settings)
    refuse_contradictions(settings)
    logs = None
    if settings.from_store:
        with nullcontext(given.store) if given.store is not None else read_store(settings.store) as reader:
            settings, domain = stored_domain(settings, reader, given.domain, measured=given.tasks.test is not None)
            stored = StoredGroups.of(reader, settings) if given.groups is None else StoredGroups.given(given.groups)
            logs, whole = stored_task_sets(stored, settings, domain, reader, given.tasks.test)
            if settings.evaluate or not is_recorded(settings, reader):  # recorded tasks seldom have a right answer
                whole = with_validation(whole, settings, domain, own=True)
    else:
        domain = given.domain or domain_of(settings)
        own = settings.data is None and given.tasks.train is None
        whole = with_validation(task_sets(settings, domain, given.tasks), settings, domain, own=own)
    sets = pilot_sets(whole, settings) if settings.pilot is not None else whole
    if settings.labels == "none" and all(domain.answer_key(task.answer or "0") is None for task in sets.train):
        raise ConfigError(
            f"domain {settings.domain!r} has no answer_key, which --labels none needs to find the majority answer;"
            " use --labels gold",
            code="no_vote",
        )
    notes = await try_reward(domain, (*sets.train, *sets.test))
    library_store = LibraryStore(settings.store / "libraries")
    start = start_library(settings, library_store, given.start) if resume is None else None
    async with AsyncExitStack() as stack:
        store = given.store or await stack.enter_async_context(open_store(settings.store))
        session = await stack.enter_async_context(
            _open(settings, domain, store, callbacks or Callbacks(), resume, logs, given)
        )
        session.stats.notes.extend(notes)
        if start is not None and (caution := library_caution(settings.library or "", start)):
            session.stats.notes.append(caution)
        if start is None:
            start = _start_of(store, settings, library_store, resume)
        return await session.learn(sets, whole, start, library_store)


run_learning_sync = without_loop(run_learning)


def _named_models(settings: LearnSettings, given: Given) -> tuple[str, ...]:
    """Return the models of the run that are found by their names."""
    model = () if given.model is not None else (settings.model,)
    same = given.model is not None and settings.reflector_name == settings.model
    reflector = () if given.reflector is not None or same else (settings.reflector_name,)
    return tuple(dict.fromkeys((*model, *reflector)))


def _start_of(store: Store, settings: LearnSettings, library_store: LibraryStore, resume: RunId | None) -> Library:
    """The library that the interrupted run started from, even if another version was published since."""
    run_inputs = store.run_inputs(resume) if resume is not None else None
    return start_library(settings, library_store) if run_inputs is None else store.library(run_inputs.library)


@asynccontextmanager
async def _open(
    settings: LearnSettings,
    domain: Domain,
    store: Store,
    callbacks: Callbacks,
    resume: RunId | None,
    logs: StoredGroups | None,
    given: Given,
) -> AsyncGenerator[LessonRun]:
    run = resume or new_run_id()
    if resume is not None:
        store.recall(resume)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(run, store, budget_of(settings, store, resume), tracing=tracing)
        stack.enter_context(structlog.contextvars.bound_contextvars(run=run))
        for_all = service_settings(settings)
        limit = None if given.model is not None else answer_limit_of(settings, domain)
        for_rollouts = for_all if limit is None else limit.applied(for_all)
        endpoint = await stack.enter_async_context(
            open_endpoint(settings.model, settings, seed=settings.seed, call_settings=for_rollouts, model=given.model)
        )
        reflector = endpoint
        if limit is not None:
            reflector = replace(endpoint, call_settings=limit.applied(for_all, stage=True))
        if settings.reflector_name != settings.model or (given.reflector or given.model) is not given.model:
            for_stages = CallSettings(left_out=for_all.left_out)
            own = None if given.reflector is not None else reflector_limit_of(settings, domain)
            reflector = await stack.enter_async_context(
                open_endpoint(
                    settings.reflector_name,
                    settings,
                    seed=settings.seed,
                    call_settings=for_stages if own is None else own.applied(for_stages, stage=True),
                    model=given.reflector,
                )
            )
        if settings.reflector_output_tokens is not None:
            own_limit = reflector.call_settings.with_limit(settings.reflector_output_tokens)
            reflector = replace(reflector, call_settings=own_limit)
        rollouts = await stack.enter_async_context(
            open_rollouts(
                domain,
                endpoint,
                settings,
                call_context=call_context,
                judge=reflector,
            )
        )
        yield LessonRun(settings, call_context, store, rollouts, callbacks, resume is not None, logs, stages=reflector)
