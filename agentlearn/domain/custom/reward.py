"""What a reward is, and finding the reward that `--reward` names."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.domain.base import JudgeModel
from agentlearn.domain.custom.comparison import CHOICE, CONTAINS, EXACT, NUMBER
from agentlearn.domain.custom.function_reward import load_function, unloaded_function
from agentlearn.domain.custom.scoring import ScoringProcess
from agentlearn.errors import ConfigError, EndpointError, VerifierError
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

MAX_ANSWER_CHARACTERS = 20_000
"""Longer answers are wrong and are not sent to the judge."""
_MAX_REASON_CHARACTERS = 500


class Judgement(BaseModel):
    """What the judge submits."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    reason: str = ""
    verdict: Literal["right", "wrong", "unclear"]


def judge_rubric() -> Prompt:
    """Return the judge's default instructions."""
    return load_prompt("judge", 1)


@dataclass(frozen=True, slots=True)
class JudgeReward:
    """Judges by asking a model. The run sets `model`."""

    model: JudgeModel | None = None
    rubric: Callable[[], Prompt] = judge_rubric
    """Return the judge's instructions; they ask for a reason and for right, wrong or unclear."""
    name = "judge"
    form = "The answer is as short as the task allows."
    needs_gold = True

    def with_model(self, model: JudgeModel) -> "JudgeReward":
        """Return the same reward with a model to ask."""
        return replace(self, model=model)

    def gold(self, text: str) -> str:
        """Return the text as it is."""
        return text.strip()

    async def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Ask the model. Raises VerifierError without a model and BudgetExceeded at a limit."""
        if self.model is None:
            raise VerifierError("the reward 'judge' has no model to ask; give one with `domain.with_judge(model)`")
        if task.answer is None:
            return _undecided("the task has no expected answer")
        if trajectory.answer is None:
            return Verdict(status="no_answer", reward=0.0)
        if len(trajectory.answer) > MAX_ANSWER_CHARACTERS:
            return Verdict(status="incorrect", reward=0.0, reason=f"longer than {MAX_ANSWER_CHARACTERS} characters")
        # Named by position in the run, not by rollout id, so that the same question in another run gets the same seed.
        name = f"{trajectory.phase}/{task.id}/{trajectory.g}/{trajectory.attempt}"
        question = question_for(task.problem, task.answer, trajectory.answer, secret=trajectory.seed)
        return await _ask(question, self.model(name), self.rubric().text)

    def answer_key(self, answer: str) -> str | None:
        """Return None: only a model could tell whether two answers are the same."""
        return None


JUDGE = JudgeReward()


def question_for(problem: str, gold: str, answer: str, *, secret: int) -> str:
    """Return the user message. secret: unknown to the answer's writer; the code of the marks is derived from it."""
    material = {"task": problem, "expected": gold, "answer": answer}
    tries = 0
    while any((code := content_hash("judge", secret, tries, material)[:12]) in text for text in material.values()):
        tries += 1
    blocks = [f"[{name} {code}]\n{text}\n[end of {name} {code}]" for name, text in material.items()]
    return "\n\n".join([f"The code of this question's marks is {code}.", *blocks])


async def _ask(question: str, model: Any, rubric: str) -> Verdict:
    from pydantic_ai import UsageLimits
    from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UsageLimitExceeded
    from pydantic_ai.settings import ModelSettings

    try:
        asked = await _judge_agent(rubric).run(
            question,
            model=model,
            model_settings=ModelSettings(temperature=0),
            usage_limits=UsageLimits(request_limit=2),
        )
    except EndpointError as error:
        return _undecided(f"the judge could not be asked ({error.code}): {error.message}")
    except (ModelAPIError, TimeoutError) as error:
        return _undecided(f"the judge could not be asked: {error or 'it took too long'}")
    except (UnexpectedModelBehavior, UsageLimitExceeded) as error:
        return _undecided(f"the judge gave no verdict, twice: {error}")
    judgement = asked.output
    said = judgement.reason.strip()
    reason = f"judge: {said}"[:_MAX_REASON_CHARACTERS] if said else ""
    match judgement.verdict:
        case "right":
            return Verdict(status="correct", reward=1.0, reason=reason)
        case "wrong":
            return Verdict(status="incorrect", reward=0.0, reason=reason)
        case "unclear":
            return _undecided(reason)


@cache
def _judge_agent(rubric: str) -> "Agent[None, Judgement]":
    from pydantic_ai import Agent, TextOutput, ToolOutput

    output: Any = [
        ToolOutput(Judgement, name="submit", description="Hand in your verdict."),
        TextOutput(judgement_in),
    ]
    return Agent(None, output_type=output, instructions=rubric, name="judge", retries=1)


def judgement_in(text: str) -> Judgement:
    """Return the verdict of a judge that writes JSON at the end of its text. Asks the model again when there is none.

    JSON within the text or in a thought is not its verdict: it may be quoted from the answer.
    """
    from pydantic_ai import ModelRetry

    spoken = split_thoughts(text)
    found = None if spoken.unfinished else re.search(r"\{[^{}]*\}\s*(?:```\s*)?\Z", spoken.said)
    try:
        return Judgement.model_validate_json(found[0].rstrip("`\n ") if found else "")
    except ValidationError as error:
        words = 'Submit an object with "reason" and "verdict", one of "right", "wrong" and "unclear".'
        raise ModelRetry(words) from error


def _undecided(reason: str) -> Verdict:
    return Verdict(status="undecided", reward=None, reason=reason[:_MAX_REASON_CHARACTERS])


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
