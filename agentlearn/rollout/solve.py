"""Solve one problem with a library: a single rollout, stored like any other."""

from datetime import UTC, datetime

from agentlearn.config import SolveSettings
from agentlearn.domain.base import load_domain
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget, BudgetLimits
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import EndpointOptions, open_endpoint
from agentlearn.models.tracing import open_tracing
from agentlearn.rollout.runner import RolloutSlot, open_rollouts
from agentlearn.store import open_store
from agentlearn.types.ids import derive_seed, new_run_id
from agentlearn.types.run import RunEvent
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import Treatment
from agentlearn.version import version


async def solve(settings: SolveSettings) -> Trajectory:
    """The stored rollout; its `failure` says what broke, its `answer` what was found."""
    domain = load_domain(settings.domain)
    experiences = Experiences(settings.library, store=settings.store)
    task = Task.of(settings.domain, settings.problem, None, source="solve", start=settings.start)
    run = new_run_id()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    options = EndpointOptions(concurrency=1, api_key=key, seed=settings.seed)
    async with (
        open_tracing(wanted=settings.otel) as tracing,
        open_store(settings.store) as store,
        open_endpoint(settings.model, options) as endpoint,
        open_rollouts(
            domain,
            endpoint,
            call_context=CallContext(run, store, Budget(BudgetLimits()), tracing=tracing),
            sandbox=settings.sandbox,
            deadline_s=settings.rollout_deadline_s,
            max_turns=settings.max_turns,
            record=settings.record,
        ) as rollouts,
    ):
        event = RunEvent(
            run=run,
            domain=settings.domain,
            kind="solve",
            state="running",
            model=settings.model,
            simulated=endpoint.simulated,
            seed=settings.seed,
            settings=settings.model_dump_json(),
            package_version=version(),
            at=datetime.now(UTC),
        )
        await store.save_run(event)
        await store.save_tasks([task])
        await store.save_version(experiences.library, run=run)
        treatment = Treatment(
            model=settings.model, library=experiences.library.version, temperature=settings.temperature
        )
        place = RolloutSlot("solve", 0, derive_seed(settings.seed, "solve", task.id))
        finished = await rollouts.one(task, place, treatment, experiences)
        await store.save_trajectory(finished.trajectory, finished.messages)
        await store.save_run(event.model_copy(update={"state": "done", "at": datetime.now(UTC)}))
    return finished.trajectory
