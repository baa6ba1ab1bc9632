"""What a reward is, and finding the reward that `--reward` names."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Protocol

from agentlearn.domain.custom.comparison import CHOICE, CONTAINS, EXACT, NUMBER
from agentlearn.domain.custom.function_reward import load_function, unloaded_function
from agentlearn.domain.custom.judge_reward import JUDGE
from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import ConfigError, VerifierError
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict


@dataclass(frozen=True, slots=True)
class GymReward:
    """Judges in a separate process. The run sets `scorer`."""

    scorer: ScoringProcess | None = None
    name = "gym"
    form = "The answer has the form that the task asks for."
    needs_gold = False

    def with_scorer(self, scorer: ScoringProcess) -> "GymReward":
        """Return the same reward with a scoring process."""
        return replace(self, scorer=scorer)

    def gold(self, text: str) -> str:
        """Return the text as it is; the scorer knows how to read it."""
        return text.strip()

    async def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Return the scorer's verdict. Raises VerifierError when there is no score: the rollout is then undecided, not
        wrong.
        """
        if self.scorer is None:
            raise VerifierError("the reward 'gym' has no scoring process; judge inside `domain.running()`")
        if trajectory.answer is None or not trajectory.answer.strip():
            return Verdict(status="no_answer", reward=0.0)
        score = await self.scorer.score(task.source, trajectory.answer)
        status = "correct" if score == 1 else "partial" if score > 0 else "incorrect"
        return Verdict(status=status, reward=score)

    def answer_key(self, answer: str) -> str | None:
        """Return None: a scorer rates one answer and does not compare two."""
        return None


GYM_REWARD = GymReward()

_BY_NAME = {reward.name: reward for reward in (EXACT, NUMBER, CHOICE, CONTAINS, JUDGE, GYM_REWARD)}


class Reward(Protocol):
    """How answers to custom tasks are judged."""

    @property
    def name(self) -> str: ...

    @property
    def form(self) -> str:
        """What an answer must look like; the agent is given this sentence."""
        ...

    @property
    def needs_gold(self) -> bool:
        """Whether every task must have an expected answer."""
        ...

    def gold(self, text: str) -> str:
        """Return the expected answer in a cell. Raises ValueError with words that continue `FILE line N`."""
        ...

    def judge(self, task: Task, trajectory: Trajectory) -> Verdict | Awaitable[Verdict]:
        """Judge a finished rollout. Raises VerifierError when judging fails."""
        ...

    def answer_key(self, answer: str) -> str | None:
        """Return a form that equal answers share; None: this answer gets no vote."""
        ...


def find_reward(name: str, *, imports: bool = True) -> Reward:
    """Return the reward of that name, or the function at `module:function`. Raises ConfigError.

    imports: False for a plan, which judges nothing: the module, which may come with somebody's recipe, does not run.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    if ":" in name:
        return load_function(name) if imports else unloaded_function(name)
    raise ConfigError(
        f"there is no reward {name!r}; give one of {', '.join(_BY_NAME)}, or your own as module:function",
        code="unknown_reward",
    )


def default_reward(source: str) -> str | None:
    """Return the reward that a source comes with: `gym` for `gym:TASK`; None when the user must choose one."""
    from agentlearn.data.gym import GYM

    return GYM_REWARD.name if source.startswith(GYM) else None
