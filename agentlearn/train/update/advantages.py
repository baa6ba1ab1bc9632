"""From the rewards of a batch of groups to the advantage of each rollout."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentlearn.train.arguments import Scaling
from agentlearn.train.update.group_advantages import group_advantages
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId


@dataclass(frozen=True, slots=True)
class Advantages:
    """The advantages of one batch, and what was left out."""

    by_rollout: Mapping[RolloutId, float] = field(default_factory=dict[RolloutId, float])
    """Of every judged rollout; unitless, mean 0 within each group's treatment."""
    groups: int = 0
    """Groups with a judged rollout, counted apart for each treatment that they ran under."""
    zero_std: int = 0
    """Of these, such whose rewards are equal: they teach nothing."""
    undecided: int = 0
    """Rollouts left out because the verifier could not tell."""
    failed: int = 0
    """Rollouts left out because there was nothing to judge."""

    @property
    def zero_std_share(self) -> float:
        """0..1; 0 for no groups."""
        return self.zero_std / self.groups if self.groups else 0.0


def advantages(
    groups: Sequence[Group],
    *,
    scaling: Scaling = "group",
    eps: float = 1e-6,
    rewards: Mapping[RolloutId, float] | None = None,
) -> Advantages:
    """The advantage of each judged rollout: its reward less the mean of its group's treatment, scaled.

    scaling: by the std of the group's treatment, of all rewards in the batch, or not at all. rewards: of judged
    rollouts, in place of their verdicts', such as punished ones. Raises VerifierError for a reward that is not finite.
    We use the population std and eps 1e-6, where TRL has the sample's and 1e-4; a treatment's only rollout gets 0.
    """
    members = [
        [(one.id, _reward(one.id, one.reward, rewards)) for one in group.decided if one.treatment.key == key]
        for group in groups
        for key in dict.fromkeys(one.treatment.key for one in group.decided)
    ]
    batch_std = _std([reward for group in members for _, reward in group])
    by_rollout: dict[RolloutId, float] = {}
    for group in members:
        scaled_G = group_advantages([reward for _, reward in group], eps=eps)
        if scaling != "group":
            divisor = batch_std + eps if scaling == "batch" else 1.0
            scaled_G = tuple(deviation / divisor for deviation in _deviations([reward for _, reward in group]))
        by_rollout.update(zip((rollout for rollout, _ in group), scaled_G, strict=True))
    outcomes = [one.outcome for group in groups for one in group.trajectories]
    return Advantages(
        by_rollout=by_rollout,
        groups=len(members),
        zero_std=sum(1 for group in members if len({reward for _, reward in group}) == 1),
        undecided=outcomes.count("undecided"),
        failed=outcomes.count("failed"),
    )


def punished(reward: float, tokens: int, *, longest: int, window: int) -> float:
    """The reward of a rollout that drew so many tokens, less a punishment for coming near the limit.

    0 up to `longest - window` tokens, then rising evenly to 1 at `longest`, and 1 beyond. Source: DAPO's soft overlong
    punishment, arXiv:2503.14476.
    """
    return reward - min(1.0, max(0.0, (tokens - (longest - window)) / window))


def _reward(rollout: RolloutId, judged: float | None, rewards: Mapping[RolloutId, float] | None) -> float:
    given = judged if rewards is None else rewards.get(rollout, judged)
    assert given is not None, "a decided rollout has a reward"
    return given


def _deviations(rewards_G: Sequence[float]) -> tuple[float, ...]:
    if min(rewards_G) == max(rewards_G):  # rounding in the mean would show as noise
        return (0.0,) * len(rewards_G)
    mean = math.fsum(rewards_G) / len(rewards_G)
    return tuple(reward - mean for reward in rewards_G)


def _std(rewards: Sequence[float]) -> float:
    """The population's; 0 for none."""
    return math.sqrt(math.fsum(one**2 for one in _deviations(rewards)) / len(rewards)) if rewards else 0.0
