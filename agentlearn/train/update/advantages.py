"""Advantages of rollouts, from the rewards of a group or of a whole batch."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentlearn.errors import RolloutError, VerifierError
from agentlearn.train.arguments import Scaling
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId


@dataclass(frozen=True, slots=True)
class BatchAdvantages:
    """The advantages of one batch, and counts of what was left out."""

    by_rollout: Mapping[RolloutId, float] = field(default_factory=dict[RolloutId, float])
    """Advantage of each judged rollout: unitless, with mean 0 over the rollouts of a group and treatment."""
    groups: int = 0
    """Number of groups with a judged rollout; a group counts once for each of its treatments."""
    zero_std: int = 0
    """Number of these groups in which all rewards are equal, so that nothing can be learned from them."""
    undecided: int = 0
    """Number of rollouts left out because nothing is known about their answer."""
    failed: int = 0
    """Number of rollouts with reward 0 because the agent gave no usable answer."""

    @property
    def zero_std_share(self) -> float:
        """Share of groups with equal rewards, 0 to 1; 0 without groups."""
        return self.zero_std / self.groups if self.groups else 0.0


def batch_advantages(
    groups: Sequence[Group],
    *,
    scaling: Scaling = "group",
    eps: float = 1e-6,
    rewards: Mapping[RolloutId, float] | None = None,
) -> BatchAdvantages:
    """Return the advantage of each judged rollout: its reward minus the mean of its group and treatment, scaled.

    scaling: divide by the std of the group and treatment, by that of all rewards in the batch, or not at all. rewards:
    rewards to use instead of the verdicts', such as penalised ones. Raises VerifierError for a reward that is not
    finite. We use the population std and eps 1e-6, TRL the sample std and 1e-4. A treatment's only rollout gets 0.
    """
    members = [
        [(one.id, _reward(one.id, one.reward, rewards)) for one in group.decided if one.treatment.key == key]
        for group in groups
        for key in dict.fromkeys(one.treatment.key for one in group.decided)
    ]
    for group in members:
        _check_finite([reward for _, reward in group])
    batch_std = _std([reward for group in members for _, reward in group])
    by_rollout: dict[RolloutId, float] = {}
    for group in members:
        rewards_G = [reward for _, reward in group]
        match scaling:
            case "group":
                advantages_G = group_advantages(rewards_G, eps=eps)
            case "batch":
                advantages_G = tuple(deviation / (batch_std + eps) for deviation in _deviations(rewards_G))
            case "none":
                advantages_G = _deviations(rewards_G)
        by_rollout.update(zip((rollout for rollout, _ in group), advantages_G, strict=True))
    outcomes = [one.outcome for group in groups for one in group.trajectories]
    return BatchAdvantages(
        by_rollout=by_rollout,
        groups=len(members),
        zero_std=sum(1 for group in members if len({reward for _, reward in group}) == 1),
        undecided=outcomes.count("undecided"),
        failed=outcomes.count("failed"),
    )


def group_advantages(rewards_G: Sequence[float], *, eps: float = 1e-6) -> tuple[float, ...]:
    """Return the advantage of each trajectory relative to its group.

    rewards_G: shape (G,), one finite scalar per trajectory. Returns shape (G,), unitless, mean 0; all 0 for equal
    rewards. Raises RolloutError (code `empty_group`) when G = 0 and VerifierError for a reward that is not finite.
    Source: GRPO, arXiv:2402.03300; we use the population std and add eps.
    """
    if not rewards_G:
        raise RolloutError("a group without a rewarded trajectory has no advantages; leave it out", code="empty_group")
    _check_finite(rewards_G)
    std = _std(rewards_G)
    return tuple(deviation / (std + eps) if deviation else 0.0 for deviation in _deviations(rewards_G))


def length_penalised(reward: float, tokens: int, *, longest: int, window: int) -> float:
    """Return the reward minus a penalty for an answer near the limit of tokens.

    The penalty is 0 up to `longest - window` tokens, rises linearly to 1 at `longest`, and is 1 beyond. Source: DAPO's
    soft overlong punishment, arXiv:2503.14476.
    """
    return reward - min(1.0, max(0.0, (tokens - (longest - window)) / window))


def _reward(rollout: RolloutId, judged: float | None, rewards: Mapping[RolloutId, float] | None) -> float:
    given = judged if rewards is None else rewards.get(rollout, judged)
    assert given is not None, "a decided rollout has a reward"
    return given


def _check_finite(rewards_G: Sequence[float]) -> None:
    for g, reward in enumerate(rewards_G):
        if not math.isfinite(reward):
            raise VerifierError(f"trajectory {g} of the group has the reward {reward!r}; a reward is a finite number")


def _deviations(rewards_G: Sequence[float]) -> tuple[float, ...]:
    """Rewards minus their mean; exactly 0 for equal rewards, where rounding of the mean would leave noise."""
    if min(rewards_G) == max(rewards_G):
        return (0.0,) * len(rewards_G)
    mean = math.fsum(rewards_G) / len(rewards_G)
    return tuple(reward - mean for reward in rewards_G)


def _std(rewards: Sequence[float]) -> float:
    """Population standard deviation; 0 without rewards."""
    return math.sqrt(math.fsum(one**2 for one in _deviations(rewards)) / len(rewards)) if rewards else 0.0
