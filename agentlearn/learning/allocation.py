"""How many rollouts a group gets, and which tasks an epoch visits. Pure: the same rewards give the same decision.

G is a plan. A group starts with a first wave of rollouts. When their rewards differ, it can be learned from; when all
are right, it hardly ever will be. Only when all are equally wrong, further rollouts may find a right one. A task whose
rollouts were all right when it was last visited is skipped, and visited again once in a few epochs, so that a lesson
that breaks it is noticed. Learning ends early when most tasks are settled in this way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentlearn.config import LearnSettings
from agentlearn.errors import ConfigError
from agentlearn.types.group import differ
from agentlearn.types.ids import TaskId, derive_seed


@dataclass(frozen=True, slots=True)
class Allocation:
    """The rules of one run."""

    group_size: int
    """Rollouts planned per task (G)."""
    stop_after: int
    """Rollouts of the first wave. A group stops after it unless all are equally wrong. `group_size`: never."""
    margin: float = 0.0
    """Rewards that differ by no more than this count as equal, in units of the reward."""
    revisit_every: int = 1
    """A settled task is visited in one of this many epochs; 1: in every epoch."""
    end_when_settled: float = 1.0
    """Share of settled tasks above which no further epoch starts; 1: never."""

    @classmethod
    def of(cls, settings: LearnSettings) -> "Allocation":
        """Return the rules of a run that learns lessons. Of stored rollouts, all are read.

        A run that hides lessons makes every group whole: a group that stops because of its rewards would distort what
        the hidden lessons are measured by. Raises ConfigError when no rollout of a group would be shown a lesson.
        """
        hidden = settings.hidden_rollouts
        if settings.from_store and hidden:
            raise ConfigError(
                f"hidden_rollouts is {hidden!r}, but a run over stored rollouts makes none; leave out one of"
                " hidden_rollouts and from_store",
                code="bad_hidden_rollouts",
            )
        if settings.from_store:
            return cls.of_all(settings.group_size)
        if hidden >= settings.group_size:
            raise ConfigError(
                f"hidden_rollouts is {hidden!r}, but a group has {settings.group_size!r} rollouts; hide lessons from"
                " fewer rollouts than a group has",
                code="bad_hidden_rollouts",
            )
        return cls(
            group_size=settings.group_size,
            stop_after=settings.group_size if hidden else settings.stop_after,
            margin=settings.reward_margin,
            revisit_every=settings.revisit_every,
            end_when_settled=settings.end_when_settled,
        )

    @classmethod
    def of_all(cls, group_size: int) -> "Allocation":
        """Return rules by which every rollout is made, and every difference between rewards counts."""
        return cls(group_size=group_size, stop_after=group_size)

    @property
    def first_wave(self) -> int:
        """Number of rollouts that start at once."""
        return min(self.stop_after, self.group_size)

    def more(self, rewards: Sequence[float | None], threshold: float = 1.0) -> int:
        """Number of rollouts to add to a group whose first wave is over.

        rewards: None for an undecided rollout, which decides nothing. threshold: reward from which an answer is right.
        """
        decided = [reward for reward in rewards if reward is not None]
        if differ(decided, self.margin) or (decided and len(decided) == len(rewards) and min(decided) >= threshold):
            return 0
        return max(0, self.group_size - len(rewards))

    def ends(self, settled: int, tasks: int) -> bool:
        """Whether no further epoch starts. settled: number of settled tasks. tasks: number of all."""
        return settled > self.end_when_settled * tasks

    def visits(self, task: TaskId, *, epoch: int, settled: bool, seed: int) -> bool:
        """Whether an epoch visits the task. settled: it was all right when it was last visited."""
        if not settled or self.revisit_every <= 1:
            return True
        return (epoch + derive_seed("revisit", seed, task)) % self.revisit_every == 0

    def expected_visits(self, epochs: int, right: float) -> tuple[float, ...]:
        """Return the expected share of the tasks that each epoch visits. right: share of visits that end all right.

        Epochs that are not expected to start are left out.
        """
        settled, shares = 0.0, list[float]()
        for _ in range(epochs):
            if self.end_when_settled < 1 and settled > self.end_when_settled:
                break
            again = settled / self.revisit_every
            shares.append(1.0 - settled + again)
            settled = settled - again + shares[-1] * right
        return tuple(shares)

    def expected_size(self, wrong: float) -> float:
        """Return the expected number of rollouts of a group. wrong: share of groups that are all wrong at first."""
        return self.first_wave + wrong * (self.group_size - self.first_wave)
