"""A group: one task and its G trajectories."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, Self, get_args

from pydantic import model_validator

from agentlearn.types.ids import TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Value

GroupKind = Literal["mixed", "all_right", "all_wrong", "undecided", "failed"]
"""mixed: rewards differ; all_right: they are equal and all count as right; all_wrong: they are equal, and not all are
right; failed: the agent answered in no rollout; undecided: no rollout has a reward."""
GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)
_ROUNDING = 1e-9
"""Larger than the error of a sum of rewards. It counts only with a margin."""


class Group(Value):
    """The trajectories of one task in one batch, in order of g."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    others: tuple[Task, ...] = ()
    """The tasks of trajectories that had another one: recorded rollouts are grouped with near neighbours."""

    @model_validator(mode="after")
    def _one_task(self) -> Self:
        if not {trajectory.task for trajectory in self.trajectories} <= self._by_id.keys():
            raise ValueError("every trajectory of a group belongs to its task")
        return self

    @cached_property
    def _by_id(self) -> dict[TaskId, Task]:
        return {task.id: task for task in self.tasks}

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Its task, and the other ones of a group of neighbours."""
        return (self.task, *self.others)

    def task_of(self, trajectory: Trajectory) -> Task:
        """The task of one of its trajectories."""
        return self._by_id[trajectory.task]

    @cached_property
    def decided(self) -> tuple[Trajectory, ...]:
        """The trajectories with a reward, also those with 0 because the agent failed to answer."""
        return tuple(t for t in self.trajectories if t.reward is not None)

    @cached_property
    def rewards_G(self) -> tuple[float, ...]:
        """Rewards of the decided trajectories, in order."""
        return tuple(t.reward for t in self.decided if t.reward is not None)

    def kind(self, threshold: float = 1.0, margin: float = 0.0) -> GroupKind:
        """Kind of the group. Only a mixed group, whose rewards differ, can be learned from.

        threshold: reward from which an answer counts as right. margin: rewards that differ by no more count as equal,
        also when the threshold lies between them.
        """
        if not self.decided:
            return "undecided"
        if differ(self.rewards_G, margin):
            return "mixed"
        if all(t.outcome == "failed" for t in self.decided):
            return "failed"
        return "all_right" if min(self.rewards_G) >= threshold else "all_wrong"

    def settled(self, threshold: float = 1.0, margin: float = 0.0) -> bool:
        """Whether every rollout was judged and is all right."""
        return len(self.decided) == len(self.trajectories) and self.kind(threshold, margin) == "all_right"


def differ(rewards: Sequence[float], margin: float = 0.0) -> bool:
    """Whether rewards differ by more than the margin. Without a margin, any difference counts."""
    if not rewards:
        return False
    return max(rewards) - min(rewards) > (margin + _ROUNDING if margin else 0.0)
