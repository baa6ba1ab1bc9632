"""`inspect:TASK`: tasks of inspect_ai, from a file or an installed package, with their own solvers and scorers.

The rollout runs the task's solver on one sample with our model. The first scorer gives the reward, and its explanation
is the reason. A model that grades is the model that judges in the run.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from agentlearn.domain.base import Answer, JudgeModel, RolloutShape, Work, Worked
from agentlearn.errors import ToolError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict
from agentlearn_adapters.foreign_domain import ForeignDomain, undecided

if TYPE_CHECKING:
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import TaskState

__all__ = ["InspectDomain", "adapter"]


class InspectDomain(ForeignDomain):
    """The samples of one task of inspect_ai."""

    uses_judge = True
    replayable = False

    def __init__(self, name: str, task: "inspect_ai.Task") -> None:
        self.name = f"inspect:{name}"
        self.description = f"the inspect_ai task {name!r} with its own solver and scorer"
        self.task = task
        self.judge_model: JudgeModel | None = None

    def with_judge(self, judge: JudgeModel) -> Self:
        """Return the same domain with a model for scorers that ask one."""
        bound = copy(self)
        bound.judge_model = judge
        return bound

    def all_tasks(self) -> tuple[Task, ...]:
        """Return the samples. Raises ConfigError for a sample that needs a sandbox."""
        from agentlearn_adapters.inspect_tasks.inspect_loading import tasks_of

        return tasks_of(self.name, self.task.dataset)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Keep one `eval` of inspect_ai running for all rollouts."""
        from agentlearn_adapters.inspect_tasks.sample_run import running_eval

        async with running_eval(self.name, self.task):
            yield self

    def _sample(self, task: Task) -> "Sample":
        """Return the sample of a task; for a problem of one's own, a new one. Raises ToolError."""
        from inspect_ai.dataset import Sample

        fields = task.fields
        if not fields:
            return Sample(input=task.problem, id=task.id)
        sample = self.task.dataset[fields["index"]] if fields["index"] < len(self.task.dataset) else None
        if sample is None or str(sample.id) != fields["id"]:
            raise ToolError(
                f"the dataset of {self.name!r} no longer has the sample {fields['id']!r} at its place; start a new run",
                code="sample_gone",
            )
        return sample

    async def work(self, work: Work) -> Worked:
        """Run the task's solver on the sample."""
        from agentlearn_adapters.foreign_domain import ModelCalls
        from agentlearn_adapters.inspect_tasks.sample_run import solved

        calls = ModelCalls(work)
        state = await calls.run(solved(self.name, self.task, self._sample(work.task), calls))
        return Worked(state, calls.messages)

    def answer_of(self, output: "TaskState") -> Answer:
        """Return the text of the last output."""
        text = output.output.completion
        return Answer(text=text, answer=text or None)

    async def verify_output(self, task: Task, trajectory: Trajectory, output: Any) -> Verdict:
        """Score the sample with the task's own scorers; the first one gives the reward."""
        from agentlearn_adapters.inspect_tasks.inspect_loading import verdict_of_scores
        from agentlearn_adapters.inspect_tasks.sample_run import scored

        if not task.fields:
            return undecided("the problem has no expected answer")
        model = None if self.judge_model is None else self.judge_model(f"inspect:{trajectory.id}")
        return verdict_of_scores(await scored(self.name, self.task, self._sample(task), output, task, model))

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return a size for tasks of unknown solvers."""
        return RolloutShape(turns=3)


def adapter(name: str) -> InspectDomain:
    """Return the domain of a task: `FILE.py@task`, `FILE.py` or `package/task`. Raises ConfigError, MissingExtra."""
    from agentlearn_adapters.inspect_tasks.inspect_loading import load_task

    return InspectDomain(name, load_task(name))
