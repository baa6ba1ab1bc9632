"""Solve one problem with a library: a single rollout, stored like any other."""

from pathlib import Path

from pydantic import Field, SecretStr

from agentlearn.config import DEFAULT_STORE, SIMULATED_MODEL
from agentlearn.domain.base import load_domain
from agentlearn.library.capability import Experiences
from agentlearn.models.budget import Budget, BudgetLimits
from agentlearn.models.call_context import CallContext
from agentlearn.models.endpoint import EndpointOptions, open_endpoint
from agentlearn.rollout.recorded_run import recorded_run, started_event
from agentlearn.rollout.runner import RolloutSlot, open_rollouts
from agentlearn.store import open_store
from agentlearn.types.ids import derive_seed, new_run_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.treatment import Treatment
from agentlearn.types.value import Value


class SolveSettings(Value):
    """Everything that `solve` can be told."""

    domain: str
    problem: str
    library: str = "none"
    model: str = SIMULATED_MODEL
    api_key: SecretStr | None = None
    temperature: float = 0.3
    seed: int = 0
    sandbox: str | None = None
    start: str = ""
    """Where the work on the problem begins, such as a site's address."""
    max_turns: int = Field(default=16, ge=1, le=1000)
    """Model calls."""
    record: Path | None = None
    """A folder for what the rollout's tools record, such as screenshots; it gets a folder of its own there."""
    store: Path = DEFAULT_STORE


async def solve(settings: SolveSettings) -> Trajectory:
    """The stored rollout; its `failure` says what broke, its `answer` what was found."""
    domain = load_domain(settings.domain)
    experiences = Experiences(settings.library, store=settings.store)
    task = Task.of(settings.domain, settings.problem, None, source="solve", start=settings.start)
    run = new_run_id()
    key = settings.api_key.get_secret_value() if settings.api_key else None
    options = EndpointOptions(concurrency=1, api_key=key, seed=settings.seed)
    async with (
        open_store(settings.store) as store,
        open_endpoint(settings.model, options) as endpoint,
        open_rollouts(
            domain,
            endpoint,
            call_context=CallContext(run, store, Budget(BudgetLimits())),
            sandbox=settings.sandbox,
            max_turns=settings.max_turns,
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
            await store.save_trajectory(finished.trajectory, finished.messages)
    return finished.trajectory
