"""Advantages of rollouts, from the rewards of a group or a whole batch, and further rewards by the user's functions."""

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from agentlearn.domain.custom.own_functions import own_function
from agentlearn.domain.custom.reward import FunctionReward, load_function
from agentlearn.errors import RolloutError, VerifierError
from agentlearn.train.arguments import Combination, GradientArguments, Scaling
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class BatchAdvantages:
    """The advantages of one batch, and counts of what was left out."""

    by_rollout: Mapping[RolloutId, float] = field(default_factory=dict[RolloutId, float])
    """Advantage of each judged rollout. Its mean over the rollouts of a group and treatment is 0."""
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


@dataclass(frozen=True, slots=True)
class SeveralRewards:
    """Several rewards of each rollout, and how they become one advantage."""

    parts: Mapping[RolloutId, tuple[float, ...]]
    """Rewards of each rollout, K each. A rollout that is missing here is left out of the batch."""
    weights_K: tuple[float, ...]
    combination: Combination

    def total(self, rollout: RolloutId) -> float:
        """The weighted sum of a rollout's rewards."""
        return math.fsum(weight * part for weight, part in zip(self.weights_K, self.parts[rollout], strict=True))

    def advantages(self, members: Sequence[Sequence[RolloutId]], *, eps: float) -> dict[RolloutId, float]:
        """Add each reward's weighted advantage in its group, and divide by the std in the batch (arXiv:2601.05242).

        The sums have the mean 0 in each group, so the mean over the batch is not subtracted again; groups whose rewards
        are equal keep exactly 0.
        """
        sums: dict[RolloutId, float] = {}
        for group in members:
            rewards_K_G = zip(*(self.parts[rollout] for rollout in group), strict=True)
            found_K_G = [group_advantages(rewards_G, eps=eps) for rewards_G in rewards_K_G]
            for rollout, found_K in zip(group, zip(*found_K_G, strict=True), strict=True):
                sums[rollout] = math.fsum(weight * one for weight, one in zip(self.weights_K, found_K, strict=True))
        std = math.sqrt(math.fsum(one**2 for one in sums.values()) / len(sums)) if sums else 0.0
        return {rollout: one / (std + eps) for rollout, one in sums.items()}


def batch_advantages(
    groups: Sequence[Group],
    *,
    scaling: str = "group",
    eps: float = 1e-6,
    rewards: Mapping[RolloutId, float] | None = None,
    several: SeveralRewards | None = None,
) -> BatchAdvantages:
    """Return the advantage of each judged rollout, computed from the rewards of its group and treatment.

    scaling: see `scaled_advantages`. rewards: to use instead of the verdicts', such as penalised ones. several:
    rewards of K kinds, to use instead of both. Raises VerifierError for a reward that is not finite, and for a negative
    one with max_rl. We use the population std and eps 1e-6, TRL the sample std and 1e-4. A treatment's only rollout
    gets 0.
    """
    decided = [one for group in groups for one in group.decided]
    known = [one for one in decided if several is None or one.id in several.parts]
    kept = frozenset(one.id for one in known)
    own = {one.id: one.reward or 0.0 for one in known} | dict(rewards or {})
    given = {one.id: own[one.id] if several is None else several.total(one.id) for one in known}
    members = [
        found
        for group in groups
        for key in dict.fromkeys(one.treatment.key for one in group.decided)
        if (found := [one.id for one in group.decided if one.treatment.key == key and one.id in kept])
    ]
    for group in members:
        _check_finite([given[rollout] for rollout in group])
    if several is not None and several.combination == "normalise_then_sum":
        advantages = several.advantages(members, eps=eps)
        equal = [all(advantages[rollout] == 0 for rollout in group) for group in members]
    else:
        batch_std = _std([given[rollout] for group in members for rollout in group])
        advantages: dict[RolloutId, float] = {}
        for group in members:
            scaled_G = scaled_advantages([given[one] for one in group], scaling, eps=eps, batch_std=batch_std)
            advantages.update(zip(group, scaled_G, strict=True))
        equal = [len({given[rollout] for rollout in group}) == 1 for group in members]
    outcomes = [one.outcome for group in groups for one in group.trajectories]
    return BatchAdvantages(
        by_rollout=advantages,
        groups=len(members),
        zero_std=sum(equal),
        undecided=outcomes.count("undecided"),
        failed=outcomes.count("failed"),
    )


def scaled_advantages(rewards_G: Sequence[float], scaling: str, *, eps: float, batch_std: float) -> tuple[float, ...]:
    """Return the advantages of one group: shape (G,), mean 0; all 0 for equal rewards and for a group of one.

    group, batch, none: rewards minus their mean, divided by their std + eps, by batch_std + eps, or by nothing.
    leave_one_out: each reward minus the mean of the others (RLOO, arXiv:2402.14740). max_rl: rewards minus their mean,
    divided by that mean (MaxRL, arXiv:2602.02710); rewards must not be negative, and all 0 gives advantages of 0.
    Any other: the user's function of that name, whose advantages may have another mean.
    """
    match scaling:
        case "group":
            return group_advantages(rewards_G, eps=eps)
        case "batch":
            return tuple(deviation / (batch_std + eps) for deviation in _deviations(rewards_G))
        case "none":
            return _deviations(rewards_G)
        case "leave_one_out":
            others = len(rewards_G) - 1
            return tuple(deviation * len(rewards_G) / max(1, others) for deviation in _deviations(rewards_G))
        case "max_rl":
            if (lowest := min(rewards_G)) < 0:
                raise VerifierError(
                    f"a rollout has the reward {lowest!r}, but advantages=max_rl divides by the mean of the group's"
                    " rewards and needs rewards of at least 0; give such rewards, or set advantages=group",
                    code="bad_reward",
                )
            # Shares of the highest, so that the mean of very small rewards is not 0.
            shares_G = [reward / (max(rewards_G) or 1.0) for reward in rewards_G]
            mean = math.fsum(shares_G) / len(shares_G) or 1.0
            return tuple(deviation / mean for deviation in _deviations(shares_G))
        case own:
            return tuple(map(float, own_advantages(own)(tuple(rewards_G))))


def own_advantages(name: str) -> Callable[[Sequence[float]], Sequence[float]]:
    """Import an advantage function of the user's own and try it with two rewards. Raises ConfigError.

    It gets the rewards of a group and treatment, shape (G,), and returns an advantage for each, shape (G,), unitless.
    """

    def fits(found_G: Sequence[float], rewards_G: Sequence[float]) -> bool:
        return len(found_G) == len(rewards_G) and all(map(math.isfinite, found_G))

    advantages = own_function(name, "advantage", fits, "a finite number for each reward of the group")
    advantages((0.0, 1.0))
    return advantages


def group_advantages(rewards_G: Sequence[float], *, eps: float = 1e-6) -> tuple[float, ...]:
    """Return the advantage of each trajectory relative to its group.

    rewards_G: shape (G,), one finite scalar per trajectory. Returns shape (G,), unitless, mean 0; all 0 for equal
    rewards. Raises RolloutError when G = 0 and VerifierError for a reward that is not finite.
    Source: GRPO, arXiv:2402.03300; we use the population std and add eps.
    """
    if not rewards_G:
        raise RolloutError("a group without a rewarded trajectory has no advantages; leave it out")
    _check_finite(rewards_G)
    std = _std(rewards_G)
    return tuple(deviation / (std + eps) if deviation else 0.0 for deviation in _deviations(rewards_G))


def length_penalised(reward: float, tokens: int, *, longest: int, window: int) -> float:
    """Return the reward minus a penalty for an answer near the limit of tokens.

    The penalty is 0 up to `longest - window` tokens, rises linearly to 1 at `longest`, and is 1 beyond. Source: DAPO's
    soft overlong punishment, arXiv:2503.14476.
    """
    return reward - min(1.0, max(0.0, (tokens - (longest - window)) / window))


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


@dataclass(slots=True)
class FurtherRewards:
    """The functions, and what they gave for the rollouts of the next update."""

    functions: tuple[FunctionReward, ...]
    arguments: GradientArguments
    parts: dict[RolloutId, tuple[float, ...]] = field(default_factory=dict[RolloutId, tuple[float, ...]])
    """Result of every function, by rollout. A rollout for which a function failed is missing."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Number of rollouts of the last batch for which a function gave no reward, by its name."""
    first_failure: str = ""
    """Message of the first of these failures."""
    means: dict[str, float] = field(default_factory=dict[str, float])
    """Mean of each function's rewards of the last batch, by its name."""

    @classmethod
    def load(cls, arguments: GradientArguments) -> "FurtherRewards":
        """Return the rewards that the settings name. Raises ConfigError when a function cannot be used, also where it
        makes the advantages.
        """
        if arguments.advantages not in get_args(Scaling):
            own_advantages(arguments.advantages)
        return cls(tuple(load_function(name) for name in arguments.rewards), arguments)

    async def judge(self, groups: Sequence[Group]) -> None:
        """Call the functions with the decided rollouts of one batch. An error of a function is counted."""
        self.failures, self.first_failure, self.means = Counter(), "", {}
        if not self.functions:
            return
        decided = [(group.task_of(one), one) for group in groups for one in group.decided]

        async def judged(task: Task, one: Trajectory) -> list[float | None]:
            return [await self._reward(function, task, one) for function in self.functions]

        found = await asyncio.gather(*(judged(task, one) for task, one in decided))
        given = {one.id: parts for (_, one), parts in zip(decided, found, strict=True)}
        for k, function in enumerate(self.functions):
            known = [part for parts in given.values() if (part := parts[k]) is not None]
            if known:
                self.means[function.name] = sum(known) / len(known)
        for rollout, parts in given.items():
            whole = tuple(part for part in parts if part is not None)
            if len(whole) == len(parts):
                self.parts[rollout] = whole

    def several(self, own: Mapping[RolloutId, float]) -> SeveralRewards | None:
        """Return all rewards of the rollouts; None where there is only the domain's own, which is `own`."""
        if not self.functions:
            return None
        return SeveralRewards(
            parts={rollout: (reward, *self.parts[rollout]) for rollout, reward in own.items() if rollout in self.parts},
            weights_K=(self.arguments.reward_weight, *self.arguments.rewards.values()),
            combination=self.arguments.reward_combination,
        )

    def figures(self) -> dict[str, float]:
        """Metrics of the last batch."""
        return {
            **{f"rewards/{name}/mean": mean for name, mean in self.means.items()},
            **{f"rewards/{one.name}/failed": float(self.failures[one.name]) for one in self.functions},
        }

    @property
    def note(self) -> str | None:
        """A note when a function failed in the last batch; None otherwise."""
        if not self.failures:
            return None
        counts = ", ".join(f"{name!r} {count} times" for name, count in self.failures.items())
        return f"these rewards failed: {counts}; their rollouts were left out. The first time, {self.first_failure}"

    async def _reward(self, function: FunctionReward, task: Task, trajectory: Trajectory) -> float | None:
        """Return a function's reward; 0 where the agent gave no usable answer, None when the function gives none."""
        if trajectory.outcome == "failed":
            return 0.0
        try:
            judged = function.judge(task, trajectory)
            verdict = await judged if inspect.isawaitable(judged) else judged
        except VerifierError as error:
            reward, why = None, error.message
        else:
            reward, why = verdict.reward, f"the reward {function.name!r} gave no reward"
        if reward is None:
            self.failures[function.name] += 1
            self.first_failure = self.first_failure or why
        return reward
