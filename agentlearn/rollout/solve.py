"""Solve one problem with a library: a single rollout, stored like every other."""

from agentlearn.config import BudgetOptions, SolveSettings
from agentlearn.domain.base import load_domain
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext
from agentlearn.models.call_settings import call_settings
from agentlearn.models.endpoint import open_endpoint
from agentlearn.models.service_record import ServiceRecord, service_notes, service_records
from agentlearn.models.tracing import open_tracing
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.runner import RolloutSlot, open_rollouts
from agentlearn.store import open_store
from agentlearn.types.ids import derive_seed, new_run_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import Treatment


class Solved(Trajectory):
    """The rollout on one problem, with what to know about the service that it ran on."""

    services: tuple[ServiceRecord, ...] = ()
    """How the model service behaved: outages, cut-off replies, models that answered."""
    notes: tuple[str, ...] = ()
    """What to know about the answer."""


async def solve(settings: SolveSettings) -> Solved:
    """Run one rollout on the problem, store it and return it; `failure` says what broke, if anything did."""
    domain = load_domain(settings.domain)
    experiences = Experiences(settings.library, store=settings.store)
    task = Task.of(settings.domain, settings.problem, None, source="solve", start=settings.start)
    run, sent = new_run_id(), call_settings(settings, temperature=settings.temperature is not None)
    async with (
        open_tracing(wanted=settings.otel) as tracing,
        open_store(settings.store) as store,
        open_endpoint(settings.model, settings, seed=settings.seed, call_settings=sent) as endpoint,
        open_rollouts(
            domain,
            endpoint,
            settings,
            call_context=CallContext(run, store, Budget(BudgetOptions()), tracing=tracing),
            record=settings.record,
        ) as rollouts,
    ):
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
    services = service_records([endpoint.endpoint_state])
    fields = {name: getattr(finished.trajectory, name) for name in Trajectory.model_fields}
    return Solved(**fields, services=services, notes=service_notes(services))
