"""Leaves text that a person could not see out of what lessons are learned from."""

from agentlearn.types.trajectory import Step, ToolResult, Trajectory
from agentlearn_web.observation import NOT_VISIBLE, PARTLY_VISIBLE, found_line

_UNSEEN = {NOT_VISIBLE, PARTLY_VISIBLE}


def without_unseen(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory without the lines of its observations that hold text marked as not visible."""
    return trajectory.model_copy(update={"steps": tuple(map(_seen, trajectory.steps))})


def _seen(step: Step) -> Step:
    if not isinstance(step, ToolResult):
        return step
    kept = "\n".join(line for line in step.content.split("\n") if not _is_unseen(line))
    return step if kept == step.content else step.model_copy(update={"content": kept})


def _is_unseen(written: str) -> bool:
    line = found_line(written)
    return line is not None and not _UNSEEN.isdisjoint(line.marks)
