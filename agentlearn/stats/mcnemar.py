"""McNemar's exact test for one rollout per task and arm, each right or wrong."""

import math

from agentlearn.errors import ConfigError


def mcnemar_p(gained: int, lost: int) -> float:
    """Two-sided exact p-value of the hypothesis that a task is as likely to be gained as lost; 1 if none changed.

    gained, lost: number of tasks that only the second, only the first arm got right. For one rollout per task: several
    rollouts of a task are not independent pairs. Raises ConfigError for counts that are negative or not whole.
    Source: McNemar 1947, with binomial tails.
    """
    for name, count in (("gained", gained), ("lost", lost)):
        if count != int(count) or count < 0:
            raise ConfigError(f"{name} is {count!r}; give the number of tasks that changed that way")
    moved = int(gained + lost)
    tail = sum(math.comb(moved, few) for few in range(int(min(gained, lost)) + 1))
    return min(1.0, 2 * tail / 2**moved)
