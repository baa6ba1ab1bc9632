"""Splitting tasks by content, so that the order of a file does not matter."""

from collections.abc import Callable, Hashable, Sequence

from agentlearn.data.overlap import overlaps
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Task


def hold_out(
    tasks: Sequence[Task], share: float, key: Callable[[str], Hashable] = str
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Tasks to learn from, and the share to hold out: the first by the order of their content hashes.

    Of near-copies (by `key`, as in `overlaps`) none is held out while another is learned from, so that the share may
    come out smaller; when nothing else could be held out they are left where they are.
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
    """At least one is held out, and at least one is left to learn from."""
    count = round(tasks * share)
    return min(max(count, 1), tasks - 1) if share > 0 and tasks > 1 else count
