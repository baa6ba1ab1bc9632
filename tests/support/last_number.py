"""A reward for sums: the last number of the answer."""

import re

from agentlearn.types.task import Task


def last_number(task: Task, answer: str) -> float:
    """Return 1.0 when the last number of the answer is the expected one."""
    found = re.findall(r"\d+", answer)
    return float(bool(found) and found[-1] == task.answer)
