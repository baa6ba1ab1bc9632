"""Rewards with weights as one number from 0 to 1."""

import math
from collections.abc import Mapping

from agentlearn.types.trajectory import Verdict
from agentlearn_adapters.foreign_domain import undecided, verdict_of

Rewards = Mapping[str, tuple[float, float] | None]
"""Score and weight of each reward by name; None: it was not computed."""


def verdict_of_rewards(rewards: Rewards, metrics: Mapping[str, float | None], error: str = "") -> Verdict:
    """Return the verdict for the rewards of one rollout.

    Each score must be from 0 to 1. The weighted sum is then from the sum of the negative weights to the sum of the
    positive ones, and the reward is its place between the two.
    """
    if error:
        return undecided(error)
    if not rewards:
        return undecided("the task has no reward")
    known: dict[str, tuple[float, float]] = {}
    for name, one in rewards.items():
        if one is None:
            return undecided(f"the reward {name!r} was not computed")
        if not (math.isfinite(one[0]) and 0 <= one[0] <= 1):
            return undecided(f"the reward {name!r} gave {one[0]!r}, which is not from 0 to 1")
        known[name] = one
    least = sum(min(weight, 0.0) for _, weight in known.values())
    greatest = sum(max(weight, 0.0) for _, weight in known.values())
    if not greatest > least:
        return undecided("all weights of the rewards are 0")
    total = sum(score * weight for score, weight in known.values())
    reward = (total - least) / (greatest - least)
    return verdict_of(min(max(reward, 0.0), 1.0), _words(known, metrics))


def _words(rewards: Mapping[str, tuple[float, float]], metrics: Mapping[str, float | None]) -> str:
    """Return the scores as a sentence for the stages that learn."""
    parts = [f"{name}: {score:g} (weight {weight:g})" for name, (score, weight) in rewards.items()]
    parts += [f"{name}: {value:g}" for name, value in metrics.items() if value is not None]
    return "; ".join(parts)
