"""The advantage of each trajectory of a group, as a number."""

import math
from collections.abc import Sequence

from agentlearn.errors import RolloutError, VerifierError
from agentlearn.types.treatment import Treatment


def group_advantages(rewards_G: Sequence[float], *, eps: float = 1e-6) -> tuple[float, ...]:
    """Advantage of each trajectory relative to its group.

    rewards_G: shape (G,), one finite scalar per trajectory. Returns shape (G,), unitless, mean 0; all 0 for equal
    rewards. Raises RolloutError (code `empty_group`) when G = 0 and VerifierError for a reward that is not finite.
    Source: GRPO, arXiv:2402.03300; we use the population std and add eps.
    """
    if not rewards_G:
        raise RolloutError("a group without a rewarded trajectory has no advantages; leave it out", code="empty_group")
    for g, reward in enumerate(rewards_G):
        if not math.isfinite(reward):
            raise VerifierError(f"trajectory {g} of the group has the reward {reward!r}; a reward is a finite number")
    if min(rewards_G) == max(rewards_G):  # not left to the formula: rounding in the mean would show as noise
        return (0.0,) * len(rewards_G)
    G = len(rewards_G)
    mean = math.fsum(rewards_G) / G
    deviations_G = [reward - mean for reward in rewards_G]
    std = math.sqrt(math.fsum(deviation**2 for deviation in deviations_G) / G)
    return tuple(deviation / (std + eps) for deviation in deviations_G)


def advantages_by_treatment(
    rewards_G: Sequence[float], treatments_G: Sequence[Treatment], *, eps: float = 1e-6
) -> tuple[float, ...]:
    """Advantage of each trajectory relative to those of its group that ran under the same treatment.

    rewards_G, treatments_G: shape (G,) each. Returns shape (G,), in order of g; 0 for the only trajectory of its
    treatment. Raises as `group_advantages` does, and ValueError for different lengths.
    """
    members: dict[str, list[int]] = {}
    for g, (_, treatment) in enumerate(zip(rewards_G, treatments_G, strict=True)):
        members.setdefault(treatment.key, []).append(g)
    if not members:
        return group_advantages(rewards_G, eps=eps)
    advantages_G = [0.0] * len(rewards_G)
    for places in members.values():
        for g, advantage in zip(places, group_advantages([rewards_G[g] for g in places], eps=eps), strict=True):
            advantages_G[g] = advantage
    return tuple(advantages_G)
