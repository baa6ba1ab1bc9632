"""A task: one problem and its expected answer."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field

from agentlearn.types.ids import TaskId, content_hash
from agentlearn.types.value import Value

Split = Literal["train", "validation", "test"]


class Task(Value):
    """A problem to solve. Two tasks are the same if domain, problem, answer, start and fields are."""

    id: TaskId
    """Content hash of (domain, problem, answer), and of `start` and `extra` if given."""
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
    extra: str = Field(default="", exclude_if=lambda extra: not extra)
    """What else the program that gave the task knows about it, as a JSON object; empty for nothing. See `fields`."""

    @property
    def fields(self) -> dict[str, Any]:
        """What else is known about the task, for rewards and deps. Never shown to a model."""
        return json.loads(self.extra) if self.extra else {}

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
        fields: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the task with its id computed. fields: JSON values; others raise TypeError or ValueError."""
        extra = json.dumps(dict(fields), ensure_ascii=False, sort_keys=True, allow_nan=False) if fields else ""
        identity = TaskId(content_hash("task", domain, problem, answer, *filter(None, [start]), *filter(None, [extra])))
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
            extra=extra,
        )
