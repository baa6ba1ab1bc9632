"""Groups of recorded rollouts, ready to learn from."""

from collections import Counter
from pathlib import Path

from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.value import Value


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
    """Rollouts with a reward that were left over: no other rollout has the same task or one that is near it."""
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
        noun = "group" if len(self.groups) == 1 else "groups"
        rest = [
            f"{counted} {words}"
            for counted, words in (
                (self.single, "rollouts stand alone"),
                (self.set_aside, "more repeat a task with its reward or found their group full"),
                (self.without_reward, "have no reward yet"),
            )
            if counted or words == "rollouts stand alone"
        ]
        return (
            f"{len(self.groups)} {noun} of {rollouts} recorded rollouts of {self.name!r}: {counts[False]} of equal"
            f" tasks and {counts[True]} of neighbours; {mixed} can teach because their rewards differ;"
            f" {'; '.join(rest)}"
        )

    def __str__(self) -> str:
        return self.summary
