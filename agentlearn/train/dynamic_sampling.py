"""Dynamic sampling: an update waits until enough groups have an advantage (DAPO, arXiv:2503.14476).

The weights do not change while groups wait, so all groups of an update were sampled by the same weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId


@dataclass(slots=True)
class DynamicSampling:
    """The groups that wait for the next update. An update learns from all of them."""

    wanted: int
    """Number of groups for an update."""
    limit: int | None
    """Largest number of batches sampled for an update; None: every batch is an update, with all its groups."""
    groups: list[Group] = field(default_factory=list[Group])
    batches: int = 0
    """Number of batches that the waiting groups come from."""

    def add(self, groups: Sequence[Group], advantages: Mapping[RolloutId, float]) -> None:
        """Add the groups of a batch. With a limit, groups in which every advantage is 0 are left out."""
        self.batches += 1
        self.groups += [
            group for group in groups if self.limit is None or any(advantages.get(one.id) for one in group.trajectories)
        ]

    @property
    def enough(self) -> bool:
        """Whether the update can be made."""
        return self.limit is None or len(self.groups) >= self.wanted or self.batches >= self.limit

    @property
    def waits_because(self) -> str:
        """Why the update waits."""
        return (
            f"{len(self.groups)} of {self.wanted} groups have rewards that differ, after {self.batches} of at most "
            f"{self.limit} batches; the update waits for more"
        )

    def take(self) -> list[Group]:
        """Return the waiting groups in order of their tasks, and start again with none."""
        taken, self.groups, self.batches = self.groups, [], 0
        return sorted(taken, key=lambda group: group.task.id)
