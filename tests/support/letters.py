"""Rewards that a model with random weights can learn: early letters in the answer."""

from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, Trajectory


def share_of_early_letters(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return the share of characters from a to m in the last text of the model."""
    said = next((step.text for step in reversed(trajectory.steps) if isinstance(step, ModelTurn)), "")
    return sum(one in "abcdefghijklm" for one in said) / len(said) if said else 0.0


def brevity(task: Task, answer: str | None, trajectory: Trajectory) -> float:
    """Return a reward that falls with the length of the model's last text."""
    said = next((step.text for step in reversed(trajectory.steps) if isinstance(step, ModelTurn)), "")
    return 1 / (1 + len(said))
