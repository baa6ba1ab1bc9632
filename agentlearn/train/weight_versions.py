"""How many updates the weights of a rollout are behind, which is its staleness."""

from bisect import bisect_right, insort
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class WeightVersions:
    """The weights that rollouts were made with, by the number of optimiser steps that a rollout is stored with.

    An update makes any number of optimiser steps: none when no gradient was finite, several with minibatches. Staleness
    is counted in updates, so this keeps after which update each number of steps was reached.
    """

    step: int = 0
    """Optimiser steps of the weights that the sampler has."""
    _steps: list[int] = field(default_factory=list[int])
    """Known numbers of steps, rising."""
    _updates: dict[int, int] = field(default_factory=dict[int, int])
    """The last update after which the weights had that number of steps."""

    @classmethod
    def of(cls, step: int, update: int, metrics: Mapping[int, Mapping[str, float]]) -> "WeightVersions":
        """Return the versions of a run that has made `update` updates and `step` steps.

        metrics: the stored metrics of its updates by number, of which those before its first update need no entry.
        """
        versions = cls()
        versions.add(0, 0)
        for number, values in sorted(metrics.items()):
            if number < update and "optimiser_steps" in values:
                versions.add(int(values["optimiser_steps"]), number)
        versions.add(step, update)
        return versions

    def add(self, step: int, update: int) -> None:
        """Note that the sampler has the weights after this update."""
        if step not in self._updates:
            insort(self._steps, step)
        self._updates[step] = max(update, self._updates.get(step, 0))
        self.step = step

    def staleness(self, step: int, update: int) -> int:
        """Return how many updates were made since weights of that many steps, when `update` updates were made.

        0 for weights from after the present ones, which a resumed run can find in the store.
        """
        at = bisect_right(self._steps, step)
        return max(0, update - self._updates[self._steps[at - 1]]) if at else update
