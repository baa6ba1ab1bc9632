"""Tasks and rollouts for the tests of rewards."""

from datetime import UTC, datetime

from agentlearn.types.experience import EMPTY_LIBRARY
from agentlearn.types.ids import RunId, rollout_id
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Treatment


def own_task(answer: str | None = "12", problem: str = "How many zorks?") -> Task:
    """A task of a file."""
    return Task.of("prices", problem, answer, family="prices", source="prices.csv:2")


def rollout(of: Task, answer: str | None, *, g: int = 0) -> Trajectory:
    """A rollout that ended in this answer."""
    run = RunId("01test")
    return Trajectory(
        id=rollout_id(run, "epoch-1", of.id, g, 0),
        run=run,
        phase="epoch-1",
        task=of.id,
        g=g,
        seed=7 + g,
        treatment=Treatment(model="scripted", library=EMPTY_LIBRARY.version),
        answer=answer,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
