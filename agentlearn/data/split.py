"""Splitting tasks by content hash, so that the order of a file does not matter."""

from collections.abc import Callable, Hashable, Sequence

from agentlearn.data.overlap import overlaps
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Task


def hold_out(
    tasks: Sequence[Task], share: float, key: Callable[[str], Hashable] = str
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the tasks to learn from and the share to hold out: the first by content hash.

    Near-copies (by `key`, as in `overlaps`) are kept on the same side, so the held-out share may become smaller. When
    nothing else could be held out they stay where they are.
    """
    ranked = sorted(tasks, key=lambda task: content_hash("split", task.id))
    held = {task.id for task in ranked[: _count(len(tasks), share)]}
    while True:
        learned = tuple(task for task in tasks if task.id not in held)
        test = tuple(task.model_copy(update={"split": "test"}) for task in tasks if task.id in held)
        copies = {copy.id for copy, _ in overlaps(test, learned, key)}
        if not copies or copies == held:
            return learned, test
        held -= copies


def _count(tasks: int, share: float) -> int:
    """Return how many to hold out: at least 1, and at least 1 left to learn from."""
    count = round(tasks * share)
    return min(max(count, 1), tasks - 1) if share > 0 and tasks > 1 else count
