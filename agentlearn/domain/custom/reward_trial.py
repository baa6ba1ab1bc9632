"""Trying a reward of the user's own before the first model call, on expected answers and on wrong ones.

A reward that raises an error or returns something else than a reward would decide nothing in the whole run. Rewards
that ask a model are not tried, because they cost money.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable

from agentlearn.domain.base import Domain
from agentlearn.domain.custom.function_reward import FunctionReward
from agentlearn.domain.custom.task_domain import CustomTasks
from agentlearn.domain.stand_ins import WRONG_ANSWER, rollout_ending_in
from agentlearn.errors import ConfigError, VerifierError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Verdict

TRIED = 5
"""Largest number of tasks whose answers are tried."""
_WRONG = ("", WRONG_ANSWER)


@dataclass(frozen=True, slots=True)
class _Tried:
    """One answer that was tried."""

    task: Task
    answer: str
    expected: bool
    verdict: Verdict | None
    """None where the function raised an error that may be due to the stand-in for a rollout."""
    problem: str = ""

    def reaches(self, threshold: float) -> bool:
        """Whether the answer counts as right."""
        return self.verdict is not None and self.verdict.reward is not None and self.verdict.reward >= threshold


async def try_reward(domain: Domain, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Try the reward of tasks from a file, if it is a function of the user's. Return notes for the report.

    Raises ConfigError when the function raises an error or returns something else than a reward, and when no expected
    answer that was tried counts as right.
    """
    if not isinstance(domain, CustomTasks) or not isinstance(domain.reward, FunctionReward) or not tasks:
        return ()
    reward = domain.reward
    tried = [one async for one in _tries(reward, _some(tasks))]
    return (*_unsure(tried), *_gold_notes(reward, tried, domain.threshold), *_wrong_notes(reward, tried, domain))


def _some(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return a few tasks, from the first to the last, those with an expected answer first."""
    answered = [task for task in tasks if task.answer is not None] or list(tasks)
    step = max(1, len(answered) // TRIED)
    return answered[::step][:TRIED]


async def _tries(reward: FunctionReward, tasks: Sequence[Task]) -> AsyncIterator[_Tried]:
    for task in tasks:
        if task.answer is not None and reward.gold_is_answer:
            yield await _try(reward, task, task.answer, expected=True)
    for task in tasks:
        for answer in _WRONG:
            yield await _try(reward, task, answer, expected=False)


async def _try(reward: FunctionReward, task: Task, answer: str, *, expected: bool) -> _Tried:
    try:
        judged = reward.judge(task, rollout_ending_in(task, answer))
        return _Tried(task, answer, expected, await judged if isawaitable(judged) else judged)
    except VerifierError as error:
        if reward.sees_trajectory and error.code == "reward_raised":
            return _Tried(task, answer, expected, None, error.message)
        raise ConfigError(f"before the first model call, {error.message}", code=error.code) from error


def _unsure(tried: Sequence[_Tried]) -> tuple[str, ...]:
    """Return a note on the first error that may be due to the stand-in for a rollout."""
    problem = next((one.problem for one in tried if one.problem), "")
    return (f"tried without a real rollout, {problem}",) if problem else ()


def _gold_notes(reward: FunctionReward, tried: Sequence[_Tried], threshold: float) -> tuple[str, ...]:
    """Return a note on expected answers that do not count as right. Raises ConfigError when none does."""
    golds = [one for one in tried if one.expected and one.verdict is not None]
    missed = [one for one in golds if not one.reaches(threshold)]
    if not missed:
        return ()
    first, task = missed[0], missed[0].task
    assert first.verdict is not None
    earned = "is undecided" if first.verdict.reward is None else f"earns {first.verdict.reward:g}"
    words = (
        f"the expected answer {first.answer!r} of task {task.source or task.id!r} {earned} by the reward"
        f" {reward.name!r} ({reward.place})"
    )
    if len(missed) < len(golds):
        return (f"{len(missed)} of {len(golds)} expected answers that were tried do not count as right: {words}",)
    raise ConfigError(
        f"{words}, and so do all {len(golds)} that were tried; correct the function or the answers, or set"
        f" {reward.name.partition(':')[2]}.gold_is_answer = False if the expected answers are no answers themselves",
        code="gold_refused",
    )


def _wrong_notes(reward: FunctionReward, tried: Sequence[_Tried], domain: CustomTasks) -> tuple[str, ...]:
    wrong = [one for one in tried if not one.expected]
    if not wrong or not all(one.reaches(domain.threshold) for one in wrong):
        return ()
    return (f"the reward {reward.name!r} ({reward.place}) counts every answer as right, also an empty one",)
