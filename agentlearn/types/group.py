"""A group: one task and its G trajectories."""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import model_validator

from agentlearn.types.ids import ExperienceId, LibraryVersion, RolloutId, RunId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import PromptRef, Trajectory
from agentlearn.types.value import Value

GroupKind = Literal["mixed", "all_right", "all_wrong", "undecided", "failed"]
"""mixed: rewards differ; all_right: they are equal and all count as right; all_wrong: they are equal, and not all are
right; failed: the agent answered in no rollout; undecided: no rollout has a reward."""
GROUP_KINDS: tuple[GroupKind, ...] = get_args(GroupKind)
GroupUse = Literal[
    "mixed", "all_wrong", "single", "all_right", "nothing", "not_wanted", "seldom_asked", "undecided", "failed"
]
"""How a run that learns lessons uses a group. mixed: its attempts are compared; all_wrong: what was wanted is held
against its attempts; single: the same with one attempt. Left out: all_right, undecided and failed groups, and those
that are all wrong while nothing says what was wanted, or the settings leave them out (not_wanted), and some of those
with text of a source whose lessons persons mostly refused (seldom_asked)."""
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
        """Kind of the group. Only in a mixed group can attempts be compared: its rewards differ.

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


class LiveGroup(Value):
    """Recorded rollouts that are compared with each other."""

    task: Task
    """The task of the rollouts; of neighbours, the most central one."""
    others: tuple[Task, ...] = ()
    """The tasks of the rollouts that had another one."""
    rollouts: tuple[RolloutId, ...]
    """Ids of the rollouts, in order of time."""
    rewards: tuple[float | None, ...]
    """Reward of each rollout when the groups were made; None while it is undecided."""
    explained: bool = False
    """Whether feedback says in words what was wrong with one of the rollouts."""

    @property
    def mixed(self) -> bool:
        """Whether the known rewards differ, so that something can be learned from the group."""
        return len({one for one in self.rewards if one is not None}) > 1


class Groups(Value):
    """Groups of recorded rollouts, as `Recorder.groups` gives them. `learn` takes them in place of tasks."""

    name: str
    """Name of the recorder, which is the domain of the tasks."""
    store: Path
    groups: tuple[LiveGroup, ...] = ()
    single: int = 0
    """Rollouts with a reward that were left over: no other rollout has the same task or one that is near it, and no
    feedback says in words what was wrong."""
    set_aside: int = 0
    """Rollouts with a reward that no group needs: another one has the same task and reward, or the group is full."""
    without_reward: int = 0
    """Recorded rollouts without a reward: nobody has given feedback with one."""

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The task of each group."""
        return tuple(group.task for group in self.groups)

    @property
    def summary(self) -> str:
        """One sentence on what was grouped, and how."""
        counts = Counter(bool(group.others) for group in self.groups)
        rollouts = sum(len(group.rollouts) for group in self.groups)
        mixed = sum(group.mixed for group in self.groups)
        told = sum(group.explained and not group.mixed for group in self.groups)
        noun = "group" if len(self.groups) == 1 else "groups"
        rest = ["1 rollout stands alone" if self.single == 1 else f"{self.single} rollouts stand alone"]
        if aside := self.set_aside:
            verbs = (
                "repeats a task with its reward or found its"
                if aside == 1
                else "repeat a task with its reward or found their"
            )
            rest.append(f"{aside} more {verbs} group full")
        if waiting := self.without_reward:
            rest.append(f"{waiting} {'has' if waiting == 1 else 'have'} no reward yet")
        return (
            f"{len(self.groups)} {noun} of {rollouts} recorded rollouts of {self.name!r}: {counts[False]} of equal"
            f" tasks and {counts[True]} of neighbours; {mixed} can teach because their rewards differ, and {told}"
            f" because feedback says what was wrong; {'; '.join(rest)}"
        )

    def __str__(self) -> str:
        return self.summary


class SummaryStep(Value):
    """One step: what was done and what resulted."""

    text: str
    used: tuple[ExperienceId, ...] = ()
    """Experiences that the step used."""


class Summary(Value):
    """A trajectory's summary."""

    id: str
    """Hash of (trajectory, step of the run), so that a resumed run does not make a second one."""
    run: RunId
    rollout: RolloutId
    steps: tuple[SummaryStep, ...]
    raw: str = ""
    """The text that the model wrote."""
    library: LibraryVersion
    """The version that `used` refers to."""
    prompts: tuple[PromptRef, ...] = ()
    """Prompts that asked for it."""
