"""McNemar's exact test: one rollout per task and arm, each right or wrong."""

import math

from agentlearn.errors import ConfigError


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact p that the tasks that changed went either way with equal chance; 1 when none changed.

    gained, lost: tasks that only the one arm, only the other arm got right. For one rollout per task only: rollouts
    pooled over tasks are no independent pairs. Raises ConfigError for counts that are negative or not whole.
    Source: McNemar 1947, with binomial tails.
    """
    for name, count in (("gained", gained), ("lost", lost)):
        if count != int(count) or count < 0:
            raise ConfigError(f"{name} is {count!r}; give the number of tasks that changed that way")
    moved = int(gained + lost)
    tail = sum(math.comb(moved, few) for few in range(int(min(gained, lost)) + 1))
    return min(1.0, 2 * tail / 2**moved)
