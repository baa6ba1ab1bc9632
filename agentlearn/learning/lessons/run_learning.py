"""Running training-free GRPO from settings and a library to a report, or resuming an interrupted run.

`learn` does it in one call for an agent or a program of your own. The command line resolves to the same run.
"""

import shlex
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from typing_extensions import Unpack

from agentlearn.config import SIMULATED_MODEL, LearnSettings, default_model, learn_settings
from agentlearn.config.solve_options import LearnOptions
from agentlearn.domain.base import Domain
from agentlearn.domain.chosen_settings import with_chosen_columns
from agentlearn.domain.custom import CustomTasks
from agentlearn.domain.objects import D, Deps, Out, Program, RewardGiven, TasksGiven
from agentlearn.domain.reward_trial import try_reward
from agentlearn.errors import ConfigError
from agentlearn.learning.callbacks import Callbacks, calling_both, wants_progress
from agentlearn.learning.costs import refuse_unpriced
from agentlearn.learning.lessons.lesson_learner import own_rules
from agentlearn.learning.lessons.lesson_run import LessonRun
from agentlearn.learning.lessons.own_document import refuse_document, start_document
from agentlearn.learning.lessons.stage_agent import StagePrompts
from agentlearn.learning.open_run import TaskSets, budget_of, domain_of, resumed_run, task_sets, with_validation
from agentlearn.learning.report import LearnReport
from agentlearn.learning.stored_groups import StoredGroups, refuse_contradictions, stored_run
from agentlearn.learning.subject import NOTHING_GIVEN, Given, agent_of, directory_of, named_model, subject_of
from agentlearn.learning.without_loop import in_python_words, without_loop
from agentlearn.library import NO_LIBRARY, LibraryStore
from agentlearn.library.curate.hostile import wrong_form
from agentlearn.library.curate.lesson_text import refusal_key
from agentlearn.library.history.change_log import MAIN, is_library_name, names_file
from agentlearn.library.store import GivenLibrary, library_from
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.models.call_settings import CallSettings, call_settings, local_answer_limit
from agentlearn.models.endpoint import check_endpoint, open_endpoint
from agentlearn.rollout.executor import open_executor
from agentlearn.store import Store, open_store, read_store
from agentlearn.text import meant_or_known
from agentlearn.types.experience import EMPTY_LIBRARY, Library, counted_lessons, held_lessons
from agentlearn.types.group import Groups
from agentlearn.types.ids import RunId, new_run_id

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model


def start_library(settings: LearnSettings, libraries: LibraryStore, given: Library | None = None) -> Library:
    """Return the library to start from, with all lessons that persons wrote into the library of the run's name.

    given: the library that a program gave; None: the one of the settings, which is by default the library of the run's
    name, or no lesson where there is none. Raises LibraryError for an unknown library.
    """
    history = libraries.history(settings.library_name)
    if given is not None:
        chosen = given
    elif settings.library is None:
        chosen = history.load() if history.exists else EMPTY_LIBRARY
    else:
        chosen = libraries.load(settings.library)
    return history.not_shown().applied(_with_written(chosen, history.load(MAIN))) if history.exists else chosen


def _with_written(chosen: Library, main: Library) -> Library:
    """Return a library with the lessons of another one that persons wrote, and with its withheld ones.

    It is the library itself where it has them all. A lesson that says the same as one of a person gives way to it.
    """
    held = held_lessons(chosen)
    written = [one for one in main.written if one.id not in chosen.by_id]
    withheld = [one for one in main.withheld if one.experience.id not in held]
    if not written and not withheld:
        return chosen
    words = {refusal_key(one.lesson) for one in written}
    kept = [one for one in chosen.experiences if one.by_person or refusal_key(one.lesson) not in words]
    shown = (*kept, *written)
    ids = {one.id for one in shown}
    still = [one for one in chosen.withheld if one.experience.id not in ids]
    empty = chosen.version == EMPTY_LIBRARY.version
    if empty and main.version == main.only_written().version:
        return main
    return Library(
        parent=main.version if empty else chosen.version,
        joined=None if empty else main.version,
        experiences=shown,
        withheld=(*still, *withheld),
    )


def start_words(settings: LearnSettings, start: Library) -> str:
    """What a run starts from, in words: the version, the number of its lessons, and how many a person wrote."""
    libraries, own = LibraryStore(settings.store / "libraries"), settings.library_name
    written, asked = len(start.written), settings.library
    if not len(start):
        return "no lessons"
    if asked == NO_LIBRARY:
        return f"nothing but the {counted_lessons(written)} of {own} that a person wrote"
    name = (asked or own).partition("@")[0]
    place = asked or "what the program gave"
    if is_library_name(name) and start.version in libraries.history(name).versions():
        place = f"{name}@{start.version[:8]}"
    by = "all" if written == len(start) else f"{written}" if written else "none"
    return f"{place}: {counted_lessons(len(start))}, {by} of them written by a person"


_LISTED = 5


def library_caution(reference: str, library: Library) -> str | None:
    """One sentence with the number, ids and codes of lessons that may be harmful; None when there are none.

    Only for files: in a library of the store, a person has approved such lessons. Nothing is removed, because a person
    chose the file.
    """
    if not names_file(reference):
        return None
    doubts = [(one.id, end.code) for one in library.experiences if (end := wrong_form(one.lesson)) is not None]
    if not doubts:
        return None
    listed = ", ".join(f"{identity[:12]} ({code})" for identity, code in doubts[:_LISTED])
    more = f" and {len(doubts) - _LISTED} more" if len(doubts) > _LISTED else ""
    return (
        f"caution: {len(doubts)} of the {len(library)} lessons in {reference!r} may be harmful: {listed}{more};"
        f" read them with `agentlearn library show {shlex.quote(reference)}`"
    )


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
        StagePrompts.of(settings.prompt, document=settings.on is not None)
        own_rules(settings)
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
                " use --labels gold"
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
    `agentlearn.learning.open_run.settings_of` returns. The run continues where it stopped and repeats no answered call.

    Raises ConfigError before anything is spent; BudgetExceeded, EndpointGone or Interrupted when the run was stopped
    and can be resumed; StoreError when results can no longer be stored.
    """
    resolved = _Resolved.of(settings, given)
    settings = resolved.settings
    notes = [*await try_reward(resolved.domain, (*resolved.sets.train, *resolved.sets.test))]
    library_store = LibraryStore(settings.store / "libraries")
    start = None
    if resume is None:
        refuse_document(settings, other_start=given.start is not None, own_reflector=given.reflector is not None)
    if resume is None and settings.on is not None:
        tasks = (*resolved.sets.train, *resolved.sets.test)
        start = await start_document(settings, resolved.domain, tasks[0], library_store)
    elif resume is None:
        start = start_library(settings, library_store, given.start)
    if start is not None and (caution := library_caution(settings.library or "", start)):
        notes.append(caution)
    async with AsyncExitStack() as stack:
        store = given.store or await stack.enter_async_context(open_store(settings.store))
        session = await stack.enter_async_context(_open(resolved, store, callbacks or Callbacks(), resume))
        session.stats.notes.extend(notes)
        if start is None:  # the library that the interrupted run started from, even if another was published since
            run_inputs = store.run_inputs(session.call_context.run)
            known = None if run_inputs is None else store.library(run_inputs.library)
            known = known and library_store.not_shown().applied(known, f"run {session.call_context.run}")
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


@in_python_words(LearnSettings)
async def learn(
    what: "AbstractAgent[D, Out] | Program | Domain | Groups | str | Path",
    tasks: TasksGiven | Groups | str | Path | None = None,
    *,
    reward: RewardGiven[Out] | None = None,
    model: "Model | str | None" = None,
    reflector: "Model | str | None" = None,
    deps: Deps[D] | None = None,
    answer_of: Callable[[Out], str | None] | None = None,
    library: str | None = None,
    start: GivenLibrary | None = None,
    test: TasksGiven | str | Path | None = None,
    store: Store | Path | str | None = None,
    callbacks: Callbacks | None = None,
    progress: bool | None = None,
    resume: str | None = None,
    settings: LearnSettings | None = None,
    **options: Unpack[LearnOptions],
) -> LearnReport:
    """Learn lessons from rollouts, measure them on held-out tasks, publish them, and return the report.

    what: a pydantic-ai agent with any output type, deps and tools; a function `(task, lessons)` that returns an answer;
        a `Domain`; or a name as on the command line, such as `"math"` or `"tasks.csv"`.
    tasks: texts, pairs (problem, answer), mappings, objects, a data frame, an iterator, or a source: a file, `hf:NAME`,
        `gym:TASK`. None: the domain's own. `Groups` of a `Recorder`, here or in place of `what`, are rollouts that
        have been made already.
    reward: a function `(task, output)` or `(task, output, trajectory)`, async or not, that returns True, False, a
        number from 0 to 1, `(number, "why")` or a `Verdict`; or the name of a reward. "why" helps the lessons.
    model: name of the model that solves the tasks, or a model of pydantic-ai. None: the agent's own.
    reflector: the model that writes the lessons. None: `model`.
    deps: what the agent's tools get: a value, or a function from a `Task` to a value or a context manager.
    answer_of: returns the answer in an output as text. None: the output as text or JSON.
    library: name under which the lessons are published. None: the name of the agent, the function or the domain. If
        there is such a library, learning goes on from it.
    start: the lessons to start from, in place of those; `"none"` starts without them. Lessons that a person wrote into
        the library of that name stay in any case.
    test: held-out tasks. None: a share of `tasks` (`test_share`, 0.3).
    store: directory of the store, or an open one. None: AGENTLEARN_STORE, else `.agentlearn`.
    callbacks: methods that are called as the run goes on.
    progress: whether to print on stderr what the command line prints. None: on a terminal, unless `callbacks` is given
        or this is not the main thread.
    resume: id of an interrupted run of the same call; it goes on where it stopped.
    settings: settings in one object, for those that no other argument gives.
    options: settings of `LearnSettings`, such as `epochs`, `group_size`, `max_cost_usd`.

    Raises ConfigError or DataError before anything is spent; BudgetExceeded, EndpointGone or Interrupted when the run
    was stopped and can be resumed; StoreError when results can no longer be stored.
    """
    known = LearnOptions.__annotations__
    for name in options.keys() - known.keys():
        raise ConfigError(f"learn has no option {name!r}; {meant_or_known(name, known)}")
    base: dict[str, Any] = {} if settings is None else settings.model_dump(exclude_unset=True)
    if settings is not None and settings.model in (SIMULATED_MODEL, default_model(settings.domain)):
        base.pop("model", None)  # settings without a model have it by themselves; the agent's own goes before it
    groups = next((one for one in (what, tasks) if isinstance(one, Groups)), None)
    of_groups: dict[str, Any] = {} if groups is None else {"from_store": True, "epochs": 1}
    fields: dict[str, Any] = {**of_groups, **base, **options}
    for_sources = {name: fields[name] for name in ("tools", "instructions", "only_instructions") if name in fields}
    subject = subject_of(what, tasks, reward=reward, deps=deps, answer_of=answer_of, **for_sources)
    model, reflector = model or base.get("model"), reflector or base.get("reflector")
    if model is None and subject.domain.runs_itself:
        model = reflector  # the program calls models of its own: this is only a name for the record
    chosen = subject.chosen_model(model)
    directory = groups.store if groups is not None and store is None else directory_of(store or base.get("store"))
    names = {
        "domain": subject.domain.name,
        "store": directory,
        "model": named_model(chosen),
        "reflector": None if reflector is None else named_model(reflector),
        "name": library,
        "data": subject.source,
        "test_data": (str(test),) if isinstance(test, str | Path) else None,
        "library": start if isinstance(start, str) else None,
    }
    settings = learn_settings({**fields, **{name: value for name, value in names.items() if value is not None}})
    other_start = None if start is None or isinstance(start, str) else start
    given = Given(
        domain=with_chosen_columns(subject.domain, settings),
        train=await subject.tasks(tasks, limit=settings.limit),
        test=await subject.tasks(test, split="test"),
        groups=groups,
        model=None if isinstance(chosen, str) else chosen,
        reflector=None if isinstance(reflector, str) else reflector,
        store=store if isinstance(store, Store) else None,
        start=None if other_start is None else library_from(other_start, LibraryStore(directory / "libraries")),
    )
    by_name, own_reward = isinstance(what, str | Path), reward is not None and not isinstance(reward, str)
    objects = {"agent or program": not by_name, "reward": own_reward}
    objects |= {"tasks": given.train is not None, "model": given.model is not None}
    noted: dict[str, Any] = {"given": tuple(name for name, used in objects.items() if used)}
    if by_name and not own_reward and isinstance(subject.domain, CustomTasks):
        noted["reward"] = subject.domain.reward.name
    elif by_name and isinstance(reward, str):
        noted["reward"] = reward
    settings, run = settings.model_copy(update=noted), None
    if resume is not None:
        with nullcontext(store) if isinstance(store, Store) else read_store(directory) as reader:
            run = resumed_run(reader, resume, settings)
    if not wants_progress(progress, callbacks):
        return await run_learning(settings, callbacks, resume=run, given=given)
    from agentlearn.cli.progress import LearnProgress

    with LearnProgress.in_python(settings) as shown:
        return await run_learning(settings, calling_both(shown, callbacks, Callbacks), resume=run, given=given)


learn_sync = without_loop(learn)
