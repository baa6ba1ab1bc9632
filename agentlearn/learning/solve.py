"""`solve`: one problem, solved by an agent or a program of your own, or with a library, in one call.

It is a single rollout, stored like every other.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from pydantic import Field
from typing_extensions import Unpack

from agentlearn.config import BudgetOptions, SolveSettings, given_settings
from agentlearn.config.solve_options import SolveOptions
from agentlearn.domain.base import Domain, load_domain
from agentlearn.domain.objects import D, Deps, Out, Program, RewardGiven
from agentlearn.errors import DataError
from agentlearn.learning.subject import Subject, directory_of, named_model, subject_of
from agentlearn.learning.without_loop import in_python_words, without_loop
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.library.store import GivenLibrary, library_from
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, open_tracing
from agentlearn.models.call_settings import call_settings, local_answer_limit
from agentlearn.models.endpoint import check_endpoint, open_endpoint
from agentlearn.models.service_record import ServiceRecord, service_notes, service_records
from agentlearn.rollout.executor import lost_workers_note, open_executor
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.runner import Finished, Rollouts, RolloutSlot
from agentlearn.store import Store, open_store
from agentlearn.types.experience import Library, counted_lessons
from agentlearn.types.ids import derive_seed, new_run_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment, Verdict

if TYPE_CHECKING:
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.models import Model


class Solved(Trajectory, Generic[Out]):
    """The rollout on one problem, with its output and with what to know about the service that it ran on."""

    output: Out | None = Field(default=None, exclude=True, repr=False)
    """What the agent or the program returned; None when the rollout failed. It is not part of the JSON."""
    services: tuple[ServiceRecord, ...] = ()
    """How the model service behaved: outages, cut-off replies, models that answered."""
    notes: tuple[str, ...] = ()
    """What to know about the answer."""

    def _repr_html_(self) -> str:
        from agentlearn.pages.notebook import solved_html

        return solved_html(self, self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveGiven:
    """Objects that a program gives to one rollout. What is None is found by its name in the settings."""

    domain: Domain | None = None
    task: Task | None = None
    library: Library | None = None
    model: "Model | None" = None
    store: Store | None = None
    """An open store. It stays open."""


_NOTHING_GIVEN = SolveGiven()


async def run_solving(settings: SolveSettings, given: SolveGiven = _NOTHING_GIVEN) -> Solved[Any]:
    """Run one rollout on the problem, store it and return it; `failure` says what broke, if anything did."""
    if given.model is None:
        check_endpoint(settings.model, settings)
    domain = given.domain or load_domain(settings.domain)
    library = settings.library if given.library is None else given.library
    retriever = Retriever.in_store(settings.retrieval, settings.store)
    experiences = Experiences(library, store=settings.store, retrieval=retriever)
    task = given.task or Task.of(settings.domain, settings.problem, None, source="solve", start=settings.start)
    sent = call_settings(settings, temperature=settings.temperature is not None)
    limit = local_answer_limit(settings.model, domain.rollout_shape().turn_out)
    if limit is not None and settings.max_output_tokens is None and given.model is None:
        sent = limit.applied(sent)
    async with AsyncExitStack() as stack:
        tracing = await stack.enter_async_context(open_tracing(wanted=settings.otel))
        store = given.store or await stack.enter_async_context(open_store(settings.store))
        endpoint = await stack.enter_async_context(
            open_endpoint(settings.model, settings, seed=settings.seed, call_settings=sent, model=given.model)
        )
        call_context = CallContext(new_run_id(), store, Budget(BudgetOptions()), tracing=tracing)
        executor = await stack.enter_async_context(open_executor(settings, (domain,), call_context, otel=settings.otel))
        rollouts = await stack.enter_async_context(executor.open(domain, endpoint))
        finished = await _recorded(settings, store, rollouts, task, experiences)
        own = _own_task_note(store, settings.store, task, finished.trajectory, experiences.library)
        services = service_records([endpoint.endpoint_state])
    fields = {name: getattr(finished.trajectory, name) for name in Trajectory.model_fields}
    return Solved(
        **fields,
        output=finished.output,
        services=services,
        notes=(*own, *lost_workers_note(call_context.lost_workers), *service_notes(services)),
    )


def _own_task_note(store: Store, directory: Path, task: Task, solved: Trajectory, library: Library) -> tuple[str, ...]:
    """A note where lessons were shown that the store says were learned from this very problem."""
    shown = [one for one in library.experiences if solved.offered is None or one.id in solved.offered]
    if not shown:
        return ()
    # The rules for lessons take a second to load.
    from agentlearn.library.audit import leaks
    from agentlearn.rollout.learned_from import LearnedFrom

    given_away, little = leaks(shown, [task]), "the answer says little about new problems"
    if given_away.lessons:
        return (f"{given_away.why}: {little}",)
    learned = LearnedFrom(store, LibraryStore(directory / "libraries")).evidence(shown)
    same = [one for one, known in store.tasks(list(learned)).items() if known.problem == task.problem]
    lessons = frozenset[str]().union(*(learned[one] for one in same))
    if not lessons:
        return ()
    return (f"{counted_lessons(len(lessons))} of those shown were learned from this very problem: {little}",)


async def _recorded(
    settings: SolveSettings, store: Store, rollouts: Rollouts, task: Task, experiences: Experiences
) -> Finished:
    """Make the rollout as a run of its own and store it."""
    endpoint, run = rollouts.endpoint, rollouts.call_context.run
    event = started_event(
        run,
        "solve",
        domain=settings.domain,
        model=settings.model,
        simulated=endpoint.simulated,
        seed=settings.seed,
        settings=settings.model_dump_json(),
    )
    async with recorded_run(store, event):
        await store.save_tasks([task])
        await store.save_version(experiences.library, run=run)
        treatment = Treatment(
            model=settings.model, library=experiences.library.version, temperature=settings.temperature
        )
        slot = RolloutSlot("solve", 0, derive_seed(settings.seed, "solve", task.id))
        finished = await rollouts.one(task, slot, treatment, experiences)
        await finished.save(store)
        endpoint.endpoint_state.refuse_silence(rollouts.call_context.budget)
    return finished


ProblemGiven = Task | str | Mapping[str, Any]
"""A task, its problem, or named values such as `problem`, `answer` and what a reward or the deps need."""


@in_python_words(SolveSettings)
async def solve(
    what: "AbstractAgent[D, Out] | Program | Domain | str",
    problem: ProblemGiven,
    *,
    library: GivenLibrary | None = None,
    reward: RewardGiven[Out] | None = None,
    model: "Model | str | None" = None,
    deps: Deps[D] | None = None,
    answer_of: Callable[[Out], str | None] | None = None,
    store: Store | Path | str | None = None,
    settings: SolveSettings | None = None,
    **options: Unpack[SolveOptions],
) -> Solved[Out]:
    """Solve one problem, store the rollout and return it. `failure` says what broke, if anything did.

    what: a pydantic-ai agent with any output type, deps and tools; a function `(task, lessons)` that returns an answer;
        a `Domain`; or the name of an installed domain, such as `"math"`.
    problem: a text, a mapping with `problem`, or a `Task`.
    library: lessons to show: a library, a reference such as `"support"`, a file, or lessons in words.
    reward: judges the output, as for `learn`. None: the output is not judged; a domain judges its own.
    model: name of the model, or a model of pydantic-ai. None: the agent's own.
    deps: what the agent's tools get: a value, or a function from a `Task` to a value or a context manager.
    answer_of: returns the answer in an output as text. None: the output as text or JSON.
    store: directory of the store, or an open one. None: AGENTLEARN_STORE, else `.agentlearn`.
    settings: settings in one object, for those that no other argument gives.
    options: settings of `SolveSettings`, such as `temperature`.

    The result has the whole output in `output`, and the answer in it as text in `answer`.

    Raises ConfigError, LibraryError or DataError before anything is spent, and StoreError.
    """
    judged = not_judged if reward is None and not isinstance(what, str | Domain) else reward
    subject = subject_of(what, reward=judged, deps=deps, answer_of=answer_of)
    base: dict[str, Any] = {} if settings is None else settings.model_dump(exclude_unset=True)
    chosen = subject.chosen_model(model or base.get("model"), needed=False)
    directory = directory_of(store or base.get("store"))
    library = base.get("library") if library is None else library
    lessons = library_from(library, LibraryStore(directory / "libraries"))
    task = await _task(subject, problem, options.get("start", base.get("start", "")))
    fields = {
        **base,
        **options,
        "domain": subject.domain.name,
        "problem": task.problem,
        "library": library if isinstance(library, str) else "none" if library is None else lessons.version,
        "model": named_model(chosen),
        "store": directory,
    }
    given = SolveGiven(
        domain=subject.domain,
        task=task,
        library=lessons,
        model=None if isinstance(chosen, str) else chosen,
        store=store if isinstance(store, Store) else None,
    )
    return await run_solving(given_settings(SolveSettings, fields), given)


solve_sync = without_loop(solve)


def not_judged(*_: object) -> Verdict:
    """Judge nothing."""
    return Verdict(status="undecided", reason="no reward was given")


async def _task(subject: Subject, problem: ProblemGiven, start: str) -> Task:
    """Return the problem as a task. Raises DataError."""
    if subject.own:
        tasks = await subject.tasks([problem])
        assert tasks
        return tasks[0]
    if isinstance(problem, Task):
        return problem
    named: Mapping[str, Any] = {"problem": problem} if isinstance(problem, str) else problem
    if unknown := sorted(set(named) - {"problem", "answer", "start"}):
        raise DataError(
            f"the domain {subject.domain.name!r} does not know {unknown[0]!r}; give problem, answer and start"
        )
    if not str(named.get("problem") or "").strip():
        raise DataError(f"{problem!r} has no problem; give a text")
    answer = named.get("answer")
    return Task.of(
        subject.domain.name,
        str(named["problem"]),
        None if answer is None else str(answer),
        source="solve",
        start=str(named.get("start") or start),
    )
