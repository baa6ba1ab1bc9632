"""A reward as a program gives it: a name such as `number`, or a function of the task and the output."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agentlearn.domain.custom import Reward, find_reward
from agentlearn.domain.custom.function_reward import function_reward
from agentlearn.errors import ConfigError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict

Out = TypeVar("Out")
RewardResult = bool | float | tuple[bool | float, str] | Verdict
"""What a reward returns: right or wrong, a number from 0 to 1, either with the reason in words, or a verdict."""
RewardFunction = (
    Callable[[Task, Out], RewardResult | Awaitable[RewardResult]]
    | Callable[[Task, Out, Trajectory], RewardResult | Awaitable[RewardResult]]
)
"""Judges the output of a rollout. The third parameter is the record of the rollout: steps, tool calls, tokens."""
RewardGiven = RewardFunction[Out] | str
"""A function, or the name of a reward: `exact`, `number`, `choice`, `contains`, `judge`, or `module:function`."""


def reward_from(given: RewardGiven[Any] | None) -> Reward:
    """Return the reward that was given. Raises ConfigError."""
    if isinstance(given, str):
        return find_reward(given)
    if given is None:
        raise ConfigError(
            "no reward was given; add reward=, a function (task, output) that returns True, False, a number from 0 to"
            " 1, or (number, 'why'), or a name such as 'exact'",
            code="no_reward",
        )
    name = getattr(given, "__name__", type(given).__name__)
    return function_reward(str(name), given)
