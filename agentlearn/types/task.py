"""A task: one problem and its expected answer."""

from typing import Literal, Self

from pydantic import Field

from agentlearn.types.ids import TaskId, content_hash
from agentlearn.types.value import Value

Split = Literal["train", "validation", "test"]


class Task(Value):
    """A problem to solve. Two tasks with the same domain, problem, answer and start are the same task."""

    id: TaskId
    """Content hash of (domain, problem, answer), and of `start` if given."""
    domain: str
    problem: str = Field(min_length=1)
    answer: str | None = None
    """Expected answer as the domain writes it; None when it is unknown."""
    family: str = ""
    """Group of similar problems (template, source, site). Standard errors are clustered by it."""
    split: Split = "train"
    source: str = ""
    """Origin of the task: `generated`, or `FILE:LINE`."""
    start: str = ""
    """Starting point, such as a site's address; empty when the task needs none."""
    path: tuple[str, ...] = ()
    """Places on a known path from the start to the answer, in order. For partial credit; never shown to a model."""

    @property
    def cluster(self) -> str:
        """Label of its independent unit in statistics: its domain and family; empty when it has no family."""
        return f"{self.domain}/{self.family}" if self.family else ""

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
        start: str = "",
        path: tuple[str, ...] = (),
    ) -> Self:
        """Return the task with its id computed."""
        identity = TaskId(content_hash("task", domain, problem, answer, *filter(None, [start])))
        return cls(
            id=identity,
            domain=domain,
            problem=problem,
            answer=answer,
            family=family,
            split=split,
            source=source,
            start=start,
            path=path,
        )
