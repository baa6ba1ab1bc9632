"""The domain `math` with few held-out and validation tasks, for whole runs in this process."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from agentlearn.types.task import Split, Task
from agentlearn_math import MathDomain


@contextmanager
def few_math_tasks(every: int = 5) -> Generator[None]:
    """Keep every fifth of the tasks that measure: 12 held-out and 8 validation tasks. The tasks to learn from stay.

    There are still held-out tasks of known and of unseen families.
    """
    all_tasks = MathDomain.tasks

    def tasks(self: MathDomain, split: Split, *, seed: int, limit: int | None = None) -> tuple[Task, ...]:
        found = all_tasks(self, split, seed=seed, limit=limit)
        return found if split == "train" else found[::every]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MathDomain, "tasks", tasks)
        yield
