"""Running training-free GRPO from settings to a report, or resuming an interrupted run."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace

import structlog

from agentlearn.config import LearnSettings
from agentlearn.domain.base import Domain
from agentlearn.domain.reward_trial import try_reward
from agentlearn.domain.task_source import with_chosen_columns
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Callbacks
from agentlearn.learning.costs import refuse_unpriced
from agentlearn.learning.lessons.lesson_run import LessonRun
from agentlearn.learning.lessons.start import library_caution, start_library
from agentlearn.learning.open_run import TaskSets, budget_of, domain_of, task_sets, with_validation
from agentlearn.learning.report import LearnReport
from agentlearn.learning.stored_groups import StoredGroups, refuse_contradictions, stored_run
from agentlearn.learning.subject import NOTHING_GIVEN, Given, agent_of
from agentlearn.learning.without_loop import without_loop
from agentlearn.library import LibraryStore
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.models.call_settings import CallSettings, call_settings, local_answer_limit
from agentlearn.models.endpoint import check_endpoint, open_endpoint
from agentlearn.rollout.executor import open_executor
from agentlearn.store import Store, open_store, read_store
from agentlearn.types.ids import RunId, new_run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolved:
    """What the settings of a run, and the objects that a program gave, come to. The run is built from it alone."""

    settings: LearnSettings
    given: Given
    domain: Domain
    sets: TaskSets
    """Tasks to use; in a pilot, a sample of `whole`."""
    whole: TaskSets
    stored: StoredGroups | None
    """Groups to learn from; None: make rollouts."""
    model_calls: CallSettings
    reflector_calls: CallSettings
    own_reflector: bool
    """Whether the lessons are written by another model than the one that solves the tasks."""

    @classmethod
    def of(cls, settings: LearnSettings, given: Given) -> "_Resolved":
        """Resolve settings. Nothing is sent or stored. Raises ConfigError or DataError."""
        subject = agent_of(settings, settings.data) if given.domain is None else None
        if subject is not None:
            domain = with_chosen_columns(subject.domain, settings)
            given = replace(given, domain=domain, model=given.model or subject.model_named(settings.model))
        own = settings.reflector_name != settings.model or (given.reflector or given.model) is not given.model
        if given.model is None:
            check_endpoint(settings.model, settings)
        if own and given.reflector is None:
            check_endpoint(settings.reflector_name, settings)
        if settings.user_model is not None:
            check_endpoint(settings.user_model, settings)
        refuse_unpriced(settings.endpoints, settings.max_cost_usd)
        refuse_contradictions(settings)
        stored = None
        if settings.from_store:
            with nullcontext(given.store) if given.store is not None else read_store(settings.store) as reader:
                settings, domain, stored, whole = stored_run(
                    settings, reader, domain=given.domain, groups=given.groups, test=given.test
                )
        else:
            domain = given.domain or domain_of(settings)
            whole = task_sets(settings, domain, train=given.train, test=given.test)
            whole = with_validation(whole, settings, domain, own=settings.data is None and given.train is None)
        sets = whole if settings.pilot is None else whole.sample(settings.pilot, settings.seed)
        if settings.labels == "none" and all(domain.answer_key(task.answer or "0") is None for task in sets.train):
            raise ConfigError(
                f"domain {settings.domain!r} has no answer_key, which --labels none needs to find the majority answer;"
                " use --labels gold",
                code="no_vote",
            )
        # Without temperatures, the judge sends none either.
        heated = settings.temperature is not None or settings.eval_temperature is not None
        calls, usual = call_settings(settings, temperature=heated), domain.rollout_shape(settings.data).turn_out
        limited = given.model is None and settings.max_output_tokens is None
        limit = local_answer_limit(settings.model, usual) if limited else None
        model_calls = calls if limit is None else limit.applied(calls)
        if own:
            limit = local_answer_limit(settings.reflector_name, usual) if given.reflector is None else None
            calls = CallSettings(left_out=calls.left_out)
        reflector_calls = calls if limit is None else limit.applied(calls, stage=True)
        if settings.reflector_output_tokens is not None:
            reflector_calls = reflector_calls.with_limit(settings.reflector_output_tokens)
        return cls(
            settings=settings,
            given=given,
            domain=domain,
            sets=sets,
            whole=whole,
            stored=stored,
            model_calls=model_calls,
            reflector_calls=reflector_calls,
            own_reflector=own,
        )


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
    resolved = _Resolved.of(settings, given)
    settings = resolved.settings
    notes = [*await try_reward(resolved.domain, (*resolved.sets.train, *resolved.sets.test))]
    library_store = LibraryStore(settings.store / "libraries")
    start = start_library(settings, library_store, given.start) if resume is None else None
    if start is not None and (caution := library_caution(settings.library or "", start)):
        notes.append(caution)
    async with AsyncExitStack() as stack:
        store = given.store or await stack.enter_async_context(open_store(settings.store))
        session = await stack.enter_async_context(_open(resolved, store, callbacks or Callbacks(), resume))
        session.stats.notes.extend(notes)
        if start is None:  # the library that the interrupted run started from, even if another was published since
            run_inputs = store.run_inputs(session.call_context.run)
            known = None if run_inputs is None else store.library(run_inputs.library)
            start = known or start_library(settings, library_store)
        return await session.learn(resolved.sets, resolved.whole, start, library_store)


run_learning_sync = without_loop(run_learning)


@asynccontextmanager
async def _open(
    resolved: _Resolved, store: Store, callbacks: Callbacks, resume: RunId | None
) -> AsyncGenerator[LessonRun]:
    settings, given = resolved.settings, resolved.given
    run = resume or new_run_id()
    if resume is not None:
        store.recall(resume)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        call_context = CallContext(run, store, budget_of(settings, store, resume), tracing=tracing)
        stack.enter_context(structlog.contextvars.bound_contextvars(run=run))
        model = reflector = await stack.enter_async_context(
            open_endpoint(
                settings.model, settings, seed=settings.seed, call_settings=resolved.model_calls, model=given.model
            )
        )
        if resolved.own_reflector:
            name, calls = settings.reflector_name, resolved.reflector_calls
            reflector = await stack.enter_async_context(
                open_endpoint(name, settings, seed=settings.seed, call_settings=calls, model=given.reflector)
            )
        elif resolved.reflector_calls != resolved.model_calls:
            reflector = replace(model, call_settings=resolved.reflector_calls)
        user = {settings.reflector_name: reflector, settings.model: model}.get(settings.user_model or "")
        if settings.user_model is not None and user is None:
            user = await stack.enter_async_context(open_endpoint(settings.user_model, settings, seed=settings.seed))
        executor = await stack.enter_async_context(
            open_executor(settings, (resolved.domain,), call_context, otel=settings.otel)
        )
        rollouts = await stack.enter_async_context(executor.open(resolved.domain, model, judge=reflector, user=user))
        resumed = resume is not None
        yield LessonRun(settings, call_context, store, rollouts, callbacks, resumed, resolved.stored, stages=reflector)
