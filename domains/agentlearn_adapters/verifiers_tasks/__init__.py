"""`verifiers:NAME`: the tasks of an installed taskset of verifiers, run by verifiers and scored by its rewards.

verifiers prepares a task, serves its tools, applies its hooks and computes its weighted rewards. The conversation
itself is a plain chat with the task's tools, as in verifiers' own harness `null`, and the model is ours.
"""

# verifiers cannot be installed together with the packages that types are checked with.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from agentlearn.domain.base import RolloutShape, Work, Worked
from agentlearn.errors import ConfigError, ToolError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_adapters.foreign_domain import ForeignDomain

if TYPE_CHECKING:
    from verifiers.v1 import Env

    from agentlearn_adapters.verifiers_tasks.episode_run import Served

__all__ = ["VerifiersDomain", "adapter"]


class VerifiersDomain(ForeignDomain):
    """The tasks of one taskset."""

    replayable = False

    def __init__(self, name: str, env: "Env[Any]") -> None:
        self.name = f"verifiers:{name}"
        self.description = f"the verifiers taskset {name!r} with its own rewards"
        self.env = env
        self.served: Served | None = None

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the tasks of the taskset; of an endless one, its first."""
        from agentlearn_adapters.verifiers_tasks.taskset_loading import tasks_of

        return tasks_of(self.name, self.env)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Start what verifiers shares between rollouts, such as its tool servers."""
        from agentlearn_adapters.verifiers_tasks.episode_run import serve

        async with serve(self.env) as served:
            bound = copy(self)
            bound.served = served
            yield bound

    def question(self, task: Task) -> str:
        """Return the problem. Raises ConfigError for a problem that is no task of the taskset."""
        if "index" not in task.fields:
            raise ConfigError(
                f"{self.name!r} needs what its taskset knows about a task, and the problem {task.problem!r} is not one"
                " of its tasks; use the lessons in your own agent with Experiences",
                code="no_taskset_task",
            )
        return task.problem

    async def work(self, work: Work) -> Worked:
        """Let verifiers run one episode of the task."""
        from agentlearn_adapters.foreign_domain import ModelCalls
        from agentlearn_adapters.verifiers_tasks.taskset_loading import foreign_task

        self.question(work.task)
        if self.served is None:
            raise ToolError(f"{self.name!r} is not running; open it with `running`", code="not_running")
        calls = ModelCalls(work)
        output = await calls.run(self.served.episode(foreign_task(self.env, work.task), calls))
        return Worked(output, calls.messages)

    def verify_output(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict:
        """Return the weighted sum of the rewards, on a scale from the least to the greatest possible."""
        from agentlearn_adapters.verifiers_tasks.taskset_loading import verdict_of_rewards

        return verdict_of_rewards(output.rewards, output.metrics, output.scoring_error)

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return a size for tasksets of unknown length."""
        return RolloutShape(turns=3)


def adapter(name: str) -> VerifiersDomain:
    """Return the domain of an installed taskset. Raises ConfigError, MissingExtra."""
    from agentlearn_adapters.verifiers_tasks.taskset_loading import load_env

    return VerifiersDomain(name, load_env(name))
