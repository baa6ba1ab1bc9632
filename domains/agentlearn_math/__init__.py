"""The math domain: competition problems, solved with a Python tool and judged exactly.

Tasks are generated or read from a file. The skills of the simulated solver (`agentlearn_math.novice`) have their own
entry point, so that code that learns never imports them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self

from agentlearn.domain.base import Answer, Domain, RolloutContext, RolloutShape, checked_limit
from agentlearn.errors import ToolError
from agentlearn.types.author import Author, AuthorKind
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

    from agentlearn.answers.workers import AlgebraWorkers
    from agentlearn.data import ColumnChoice, Columns
    from agentlearn.sandbox.protocol import CodeSandbox
    from agentlearn_math.agent import MathDeps

__all__ = ["MathDomain", "domain"]


class MathDomain(Domain):
    """Competition problems. Heavy modules are imported when first needed."""

    name: str = "math"
    description: str = "competition problems with a Python tool; generated, from files, from hf: and gym:"
    threshold: float = 1.0
    runs_code: bool = True
    explains: bool = False  # a reason only says how two answers were compared
    reasons_by: AuthorKind = "person"

    def __init__(self, sandbox: "CodeSandbox | None" = None, workers: "AlgebraWorkers | None" = None) -> None:
        self.sandbox = sandbox
        """Running sandbox in which `open` starts its sessions."""
        self.workers = workers
        """Processes that do the algebra of `verify`; None: each comparison that needs algebra starts one."""
        self.columns: ColumnChoice | None = None
        """Columns of files that the user chose."""

    def with_sandbox(self, sandbox: "CodeSandbox") -> Self:
        """Return the same domain with a running sandbox."""
        bound = copy(self)
        bound.sandbox = sandbox
        return bound

    def author_of(self, tool: str, place: str) -> Author:
        """Return our sandbox: it is the only tool, and it reaches nothing outside."""
        return Author(kind="sandbox")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        """Open workers for algebra, which start at the first comparison that needs them; yields the domain that uses
        them.
        """
        from agentlearn.answers.workers import open_workers

        async with open_workers() as workers:
            bound = copy(self)
            bound.workers = workers
            yield bound

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        """Return generated tasks; no two splits share a problem for any seeds. Default sizes: 60, 40 and 60."""
        from agentlearn_math.tasks import generated

        return generated(split, seed, checked_limit(limit))

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> tuple[Task, ...]:
        """Return the tasks in a file or folder. Raises DataError with file, line and next step."""
        from agentlearn_math.task_reader import read_tasks

        return read_tasks(path, split=split, limit=checked_limit(limit), columns=self.columns)

    def with_columns(self, columns: "ColumnChoice") -> Self:
        """Return the same domain, which reads these columns of files."""
        bound = copy(self)
        bound.columns = columns
        return bound

    def data_columns(self) -> "Columns":
        """Return the usual columns, or those that the user chose."""
        from agentlearn.data import Columns

        return Columns(chosen=self.columns)

    def unreadable_gold(self, task: Task) -> str | None:
        """Return why the expected answer is not a value that can be compared; None when it is one."""
        from agentlearn_math.readable_gold import unreadable_gold

        return None if task.answer is None else unreadable_gold(task.answer)

    def answer_reader(self, source: str | Path) -> Callable[[str], str]:
        """Return how the source writes expected answers: after `####`, zero-padded, 0..999 for AIME sets."""
        from agentlearn_math.task_reader import answer_reader_for

        return answer_reader_for(source)

    def agent(self) -> "Agent[MathDeps, Answer]":
        """Return the agent with the tool `run_python`; its deps are the value that `open` yields."""
        from agentlearn_math.agent import math_agent

        return math_agent()

    def prompts(self) -> tuple[PromptRef, ...]:
        """Return the prompt of the agent."""
        from agentlearn_math.agent import solve_prompt

        return (solve_prompt().ref,)

    def question(self, task: Task) -> str:
        """Return the problem as it is."""
        return task.problem

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator["MathDeps"]:
        """Open a fresh interpreter, seeded by the rollout. Raises ToolError when there is no sandbox."""
        from agentlearn_math.agent import MathDeps

        if self.sandbox is None:
            raise ToolError(
                "the math domain has no sandbox to run code in; bind one with `domain.with_sandbox(sandbox)`"
            )
        async with self.sandbox.open(context.seed) as session:
            yield MathDeps(session)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Compare the boxed answer with the expected one: exactly when both are plain, else by algebra (awaitable)."""
        from agentlearn_math.verify import verify, verify_exactly

        return verify_exactly(task, trajectory) or verify(task, trajectory, self.workers)

    def rollout_shape(self, data: str | None = None) -> RolloutShape:
        """Return the usual shape, with what was measured for the models that ship: a program, then the answer."""
        return RolloutShape(
            shipped={
                "lab:": RolloutShape(turns=2, prompt=30, turn_out=21, tool_result=4),
                "sim:": RolloutShape(turns=2, prompt=390, turn_out=82, tool_result=12),
            }
        )

    def answer_key(self, answer: str) -> str | None:
        """Return one key for equal numbers (`033` and `33`, `1/2` and `0.5`); None for an empty answer."""
        from agentlearn_math.answers import answer_key

        return answer_key(answer)


domain = MathDomain()
