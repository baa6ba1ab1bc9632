"""The math domain: competition problems, solved with a Python tool and judged exactly.

Tasks are generated, or read from a file. What the simulated solver needs (`agentlearn_math.novice`) is announced
apart, so that nothing that learns imports it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentlearn.domain.base import Answer, Domain, RolloutContext, checked_limit
from agentlearn.errors import ToolError
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentlearn.sandbox.protocol import CodeSandbox
    from agentlearn_math.agent import MathDeps
    from agentlearn_math.judging.workers import AlgebraWorkers

__all__ = ["MathDomain", "domain"]


class MathDomain(Domain):
    """Implements `agentlearn.domain.base.Domain`. Heavy modules are imported when they are first needed."""

    name: str = "math"
    description: str = "competition problems with a Python tool; generated, from files, from hf: and gym:"
    threshold: float = 1.0
    runs_code: bool = True

    def __init__(self, sandbox: "CodeSandbox | None" = None, workers: "AlgebraWorkers | None" = None) -> None:
        self.sandbox = sandbox
        """A running sandbox, which `open` takes its sessions from."""
        self.workers = workers
        """Who does the algebra of `verify`; without them it starts a process for each comparison that needs one."""

    def with_sandbox(self, sandbox: "CodeSandbox") -> Self:
        """The same domain, bound to a running sandbox."""
        bound = copy(self)
        bound.sandbox = sandbox
        return bound

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """The same domain with workers for algebra, which start at the first comparison that needs them."""
        from agentlearn_math.judging.workers import open_workers

        async with open_workers() as workers:
            bound = copy(self)
            bound.workers = workers
            yield bound

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Generated tasks; no two splits share a problem, whatever their seeds. Default sizes: 60, 40 and 60."""
        from agentlearn_math.tasks import generated

        return generated(split, seed, checked_limit(limit))

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...]:
        """Tasks from a JSONL or CSV file. Raises DataError with file, line and next step."""
        from agentlearn_math.task_reader import read_tasks

        return read_tasks(path, split=split, limit=checked_limit(limit))

    def answer_reader(self, source: str | Path) -> Callable[[str], str]:
        """How expected answers are read in that source: after `####`, zero-padded, 0..999 for AIME sets."""
        from agentlearn_math.task_reader import answer_reader_for

        return answer_reader_for(source)

    def agent(self) -> "Agent[MathDeps, Answer]":
        """The agent with the tool `run_python`; its deps are what `open` yields."""
        from agentlearn_math.agent import math_agent

        return math_agent()

    def prompts(self) -> tuple[PromptRef, ...]:
        """The instructions of the agent."""
        from agentlearn_math.agent import solve_prompt

        return (solve_prompt().ref,)

    def question(self, task: Task) -> str:
        """The problem as it stands."""
        return task.problem

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator["MathDeps"]:
        """A fresh interpreter, seeded by the rollout. Raises ToolError when no sandbox is bound."""
        from agentlearn_math.agent import MathDeps

        if self.sandbox is None:
            raise ToolError(
                "the math domain has no sandbox to run code in; bind one with `domain.with_sandbox(sandbox)`"
            )
        async with self.sandbox.open(context.seed) as session:
            yield MathDeps(session)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Compare the boxed answer with the expected one: exactly where both are plain, else by algebra, to await."""
        from agentlearn_math.verify import verify, verify_exactly

        return verify_exactly(task, trajectory) or verify(task, trajectory, self.workers)

    def answer_key(self, answer: str) -> str | None:
        """One form for equal numbers (`033` and `33`, `1/2` and `0.5`); None for an empty answer."""
        from agentlearn_math.answers import answer_key

        return answer_key(answer)


domain = MathDomain()
