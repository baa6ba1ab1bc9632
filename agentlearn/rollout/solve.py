"""Solve one problem with a library: a single rollout, stored like every other."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from pydantic import Field

from agentlearn.config import BudgetOptions, SolveSettings
from agentlearn.domain.base import Domain, load_domain
from agentlearn.domain.objects import Out
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
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
from agentlearn.types.trajectory import Trajectory, Treatment

if TYPE_CHECKING:
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
    from agentlearn.library.curate.leaks import leaks
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
