"""A small domain: double a number with a tool. `open` and `verify` can be made to fail."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, TextOutput, ToolReturn

from agentlearn.domain.base import Answer, Domain, RolloutContext
from agentlearn.errors import ToolError, VerifierError
from agentlearn.types.task import Split, Task
from agentlearn.types.trajectory import PromptRef, Trajectory, Verdict


def read_answer(text: str) -> Answer:
    """Return the last word as the answer."""
    return Answer(text=text, answer=text.split()[-1] if text.split() else None)


@dataclass
class ToyDomain(Domain):
    """Fails in the method named by `breaks`: `open`, `verify`, or none."""

    breaks: str = ""
    name: str = "toy"
    description: str = "doubling numbers"
    threshold: float = 1.0
    runs_code: bool = False
    opened: list[int] = field(default_factory=list[int])
    closed: list[int] = field(default_factory=list[int])

    def tasks(self, split: Split, *, seed: int, limit: int | None = None) -> Sequence[Task]:
        start = {"train": 0, "validation": 100, "test": 200}[split]
        return [
            Task.of("toy", f"Double {n}.", str(2 * n), family="double", split=split)
            for n in range(start, start + (limit or 4))
        ]

    def read(self, path: Path, *, split: Split = "train", limit: int | None = None) -> Sequence[Task]:
        lines = path.read_text().split()
        return [Task.of("toy", f"Double {n}.", str(2 * int(n)), family="file", split=split) for n in lines][:limit]

    def agent(self) -> Agent[Any, Answer]:
        agent = Agent(None, output_type=TextOutput(read_answer), instructions="Double the number.")

        @agent.tool_plain(sequential=True)
        async def double(n: int) -> Any:
            if n == 13:
                return ToolReturn(return_value="unlucky", metadata={"status": "timeout"})
            return str(2 * n)

        return agent

    def prompts(self) -> tuple[PromptRef, ...]:
        return (PromptRef(name="toy", version=1, sha256="0" * 64),)

    def question(self, task: Task) -> str:
        return task.problem

    @asynccontextmanager
    async def open(self, context: RolloutContext) -> AsyncGenerator[None]:
        if self.breaks == "open":
            raise ToolError("the toy is broken")
        self.opened.append(context.seed)
        try:
            yield
        finally:
            self.closed.append(context.seed)

    def verify(self, task: Task, trajectory: Trajectory) -> Verdict:
        if self.breaks == "verify":
            raise VerifierError("the judge fell asleep")
        if trajectory.answer is None:
            return Verdict(status="no_answer", reward=0.0)
        right = trajectory.answer == task.answer
        return Verdict(status="correct" if right else "incorrect", reward=float(right))

    def answer_key(self, answer: str) -> str | None:
        return answer
