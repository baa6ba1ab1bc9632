"""A task: one problem and its expected answer."""

from typing import Literal, Self

from pydantic import Field

from agentlearn.ids import TaskId, content_hash
from agentlearn.value import Value

Split = Literal["train", "validation", "test"]


class Task(Value):
    """A problem to solve. Two tasks with the same domain, problem and answer are the same task."""

    id: TaskId
    """Content hash of (domain, problem, answer)."""
    domain: str
    problem: str = Field(min_length=1)
    answer: str | None = None
    """Expected answer as the domain writes it; None where no gold exists."""
    family: str = ""
    """What the problem has in common with others (template, source, site); errors are clustered by it."""
    split: Split = "train"
    source: str = ""
    """Where it came from: `generated`, or `FILE:LINE`."""

    @classmethod
    def of(
        cls,
        domain: str,
        problem: str,
        answer: str | None,
        *,
        family: str = "",
        split: Split = "train",
        source: str = "",
    ) -> Self:
        """The task with its id computed."""
        identity = TaskId(content_hash("task", domain, problem, answer))
        return cls(
            id=identity, domain=domain, problem=problem, answer=answer, family=family, split=split, source=source
        )
