"""A group: one task and its G trajectories."""

from functools import cached_property
from typing import Literal, Self, get_args

from pydantic import model_validator

from agentlearn.types.ids import TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory
from agentlearn.types.value import Value

GroupKind = Literal["mixed", "all_right", "all_wrong", "undecided", "failed"]
"""mixed: rewards differ; all_right, all_wrong: all rewards are equal; failed: the agent answered in no rollout;
undecided: no rollout has a reward."""
GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)


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

    def kind(self, threshold: float = 1.0) -> GroupKind:
        """Kind of the group. Only a mixed group, whose rewards differ, can be learned from.

        threshold: reward from which an answer counts as right.
        """
        if not self.decided:
            return "undecided"
        if max(self.rewards_G) - min(self.rewards_G) > 0:
            return "mixed"
        if all(t.outcome == "failed" for t in self.decided):
            return "failed"
        return "all_right" if self.rewards_G[0] >= threshold else "all_wrong"
