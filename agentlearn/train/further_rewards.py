"""Further rewards of rollouts, in addition to the domain's own: functions of the user's, called for each rollout."""

import asyncio
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentlearn.domain.custom.reward import FunctionReward, load_function
from agentlearn.errors import VerifierError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.advantages import SeveralRewards
from agentlearn.types.group import Group
from agentlearn.types.ids import RolloutId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


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
        """Return the rewards that the settings name. Raises ConfigError when a function cannot be used."""
        return cls(tuple(load_function(name) for name in arguments.rewards), arguments)

    async def judge(self, groups: Sequence[Group]) -> None:
        """Call the functions with the decided rollouts of one batch. An error of a function is counted."""
        self.failures, self.first_failure, self.means = Counter(), "", {}
        if not self.functions:
            return
        decided = [(group.task_of(one), one) for group in groups for one in group.decided]
        found = await asyncio.gather(*(self._rewards(task, one) for task, one in decided))
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

    def forget(self) -> None:
        """Drop the rewards of rollouts that were learned from."""
        self.parts.clear()

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

    async def _rewards(self, task: Task, trajectory: Trajectory) -> list[float | None]:
        """Return every function's reward of a rollout."""
        return [await self._reward(function, task, trajectory) for function in self.functions]

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
