"""A reward that even random weights can learn: how much of an answer is of the first letters."""

from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory


def share_of_early_letters(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Of what the model said last, the share of characters that are letters from a to m."""
    said = next((step.text for step in reversed(trajectory.steps) if isinstance(step, ModelTurn)), "")
    return sum(one in "abcdefghijklm" for one in said) / len(said) if said else 0.0
