"""Rewards that a model gives: `judge`, which compares with the expected answer, and `Rubric`, a list of criteria."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentlearn.answers.thoughts import split_thoughts
from agentlearn.domain.base import JudgeModel
from agentlearn.errors import ConfigError, EndpointError, VerifierError
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.text import short_repr
from agentlearn.types.ids import content_hash
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, PromptRef, Trajectory, UserTurn, Verdict

if TYPE_CHECKING:
    from pydantic_ai import Agent

MAX_ANSWER_CHARACTERS = 20_000
"""Longer answers are wrong and are not sent to the judge."""
_MAX_REASON_CHARACTERS = 500
_MAX_RUBRIC_REASON_CHARACTERS = 1_000


class Judgement(BaseModel):
    """What the judge submits."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    reason: str = ""
    verdict: Literal["right", "wrong", "unclear"]


def judge_rubric() -> Prompt:
    """Return the judge's default instructions."""
    return load_prompt("judge", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReward:
    """Judges by asking a model. The run sets `model`. `Rubric` is another one, with criteria in place of an answer."""

    model: JudgeModel | None = None
    rubric: Callable[[], Prompt] = judge_rubric
    """Return the judge's instructions; they ask for a reason and for right, wrong or unclear."""
    name: str = "judge"
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
        if task.answer is None and self.needs_gold:
            return _undecided("the task has no expected answer")
        if trajectory.answer is None:
            return Verdict(status="no_answer", reward=0.0)
        if len(trajectory.answer) > MAX_ANSWER_CHARACTERS:
            return Verdict(status="incorrect", reward=0.0, reason=f"longer than {MAX_ANSWER_CHARACTERS} characters")
        # Named by position in the run, not by rollout id, so that the same question in another run gets the same seed.
        name = f"{trajectory.phase}/{task.id}/{trajectory.g}/{trajectory.attempt}"
        answer = trajectory.answer if task.user is None else _conversation(trajectory)
        question = question_for(task.problem, task.answer, answer, secret=trajectory.seed)
        return await self.asked(question, self.model(name))

    async def asked(self, question: str, model: Any) -> Verdict:
        """Return the verdict of the model on a question; undecided when it gives none."""
        judgement = await _ask_judge(question, model, self.instructions().text, Judgement, judgement_in)
        if isinstance(judgement, Verdict):
            return judgement
        said = judgement.reason.strip()
        reason = f"judge: {said}"[:_MAX_REASON_CHARACTERS] if said else ""
        match judgement.verdict:
            case "right":
                return Verdict(status="correct", reward=1.0, reason=reason)
            case "wrong":
                return Verdict(status="incorrect", reward=0.0, reason=reason)
            case "unclear":
                return _undecided(reason)

    def instructions(self) -> Prompt:
        """Return what the model is told."""
        return self.rubric()

    def answer_key(self, answer: str) -> str | None:
        """Return None: only a model could tell whether two answers are the same."""
        return None


JUDGE = JudgeReward()


def _conversation(trajectory: Trajectory) -> str:
    """What the agent and the user of the task said after the problem, each message after its speaker."""
    said = ((step.kind, step.text) for step in trajectory.steps if isinstance(step, ModelTurn | UserTurn))
    return "\n".join(f"{'user' if kind == 'user' else 'agent'}: {text}" for kind, text in said if text)


def question_for(problem: str, gold: str | None, answer: str, *, secret: int) -> str:
    """Return the user message. secret: unknown to the answer's writer; the code of the marks is derived from it."""
    expected = {} if gold is None else {"expected": gold}
    material = {"task": problem, **expected, "answer": answer}
    tries = 0
    while any((code := content_hash("judge", secret, tries, material)[:12]) in text for text in material.values()):
        tries += 1
    blocks = [f"[{name} {code}]\n{text}\n[end of {name} {code}]" for name, text in material.items()]
    return "\n\n".join([f"The code of this question's marks is {code}.", *blocks])


J = TypeVar("J", bound=BaseModel)


async def _ask_judge(
    question: str, model: Any, instructions: str, kind: type[J], read: Callable[[str], J]
) -> "J | Verdict":
    """Return what a model that judges submits; an undecided verdict when it cannot be asked, or says nothing usable.

    read: returns what it wrote as text. It raises `ModelRetry` for a text without a judgement; the model is then asked
    once more. It is also called with the JSON of what was submitted.
    """
    from pydantic_ai import UsageLimits
    from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior, UsageLimitExceeded
    from pydantic_ai.settings import ModelSettings

    try:
        asked = await judge_agent(instructions, kind, read).run(
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
    return asked.output


@cache
def judge_agent(instructions: str, kind: type[J], read: Callable[[str], J]) -> "Agent[None, J]":
    """Return an agent that submits a judgement of this kind, or writes it as a text that `read` reads.

    read: raises `ModelRetry` for a text without a judgement. It is also called with the JSON of what was submitted.
    """
    from pydantic_ai import Agent, TextOutput, ToolOutput

    output: Any = [
        ToolOutput(kind, name="submit", description="Hand in your verdict."),
        TextOutput(read),
    ]
    agent: Agent[None, J] = Agent(None, output_type=output, instructions=instructions, name="judge", retries=1)

    @agent.output_validator
    def checked(found: J) -> J:
        return read(found.model_dump_json())

    return agent


def judgement_in(text: str) -> Judgement:
    """Return the verdict of a judge that writes JSON at the end of its text. Asks the model again when there is none.

    JSON within the text or in a thought is not its verdict: it may be quoted from the answer.
    """
    from pydantic_ai import ModelRetry

    try:
        return Judgement.model_validate_json(last_object(text))
    except ValidationError as error:
        words = 'Submit an object with "reason" and "verdict", one of "right", "wrong" and "unclear".'
        raise ModelRetry(words) from error


def last_object(text: str) -> str:
    """Return the JSON object at the very end of what a model said, which may stand in a code block; empty for none."""
    spoken = split_thoughts(text)
    said = "" if spoken.unfinished else spoken.said.rstrip("`\n\r\t ")
    for found in re.finditer(r"\{", said):
        with suppress(ValueError, RecursionError):
            _, end = json.JSONDecoder().raw_decode(said, found.start())
            if end == len(said):
                return said[found.start() :]
    return ""


def _undecided(reason: str) -> Verdict:
    return Verdict(status="undecided", reward=None, reason=reason[:_MAX_REASON_CHARACTERS])


class CriterionJudgement(BaseModel):
    """What the judge says about one criterion."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    number: int
    reason: str = ""
    met: Literal["yes", "no", "unclear"]


class RubricJudgement(BaseModel):
    """What the judge submits."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    criteria: list[CriterionJudgement] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Rubric(JudgeReward):
    """A reward from 0 to 1: the share of the criteria that a model says the answer meets.

    `Rubric(["Names the order number", "Is polite"])`, as `reward=`, or in a module as `--reward my_module:rubric`.
    Its reason names the criteria that are not met. An answer is right when it meets all of them. A criterion that the
    model calls unclear, or a judge that cannot be asked, leaves the rollout undecided. Tasks need no expected answer;
    the judge sees it where there is one. Raises ConfigError for criteria or weights that cannot be used.
    """

    criteria: Sequence[str]
    """What an answer must do, each in a sentence that can be judged by itself."""
    weights: Sequence[float] | None = None
    """What each criterion counts, above 0; None: all count the same."""
    form = "The answer is a text that does what the task asks for."
    needs_gold = False

    def __post_init__(self) -> None:
        given: Any = self.criteria
        weights: Any = self.weights
        criteria = () if isinstance(given, str | bytes) else tuple(given)
        counted = [1.0] * len(criteria) if weights is None else list(weights)
        if not criteria or not all(isinstance(one, str) and one.strip() for one in criteria):
            raise ConfigError(
                f"the criteria of a rubric are {short_repr(given)}; give a list of texts, such as Rubric(['Is polite'])"
            )
        if len(counted) != len(criteria) or not all(isinstance(n, int | float) and 0 < n < math.inf for n in counted):
            raise ConfigError(
                f"the weights of a rubric are {short_repr(weights)}; give {len(criteria)} numbers above 0, one for each"
                " criterion"
            )
        object.__setattr__(self, "criteria", tuple(" ".join(one.split()) for one in criteria))
        object.__setattr__(self, "weights", tuple(map(float, counted)))
        object.__setattr__(self, "name", self.name if self.name != "judge" else "rubric")

    def instructions(self) -> Prompt:
        """Return what the model is told, with the criteria."""
        listed = "\n".join(f"{number}. {one}" for number, one in enumerate(self.criteria, start=1))
        text = load_prompt("rubric", 1).fill({"criteria": listed})
        return Prompt(PromptRef(name="own:rubric", version=1, sha256=hashlib.sha256(text.encode()).hexdigest()), text)

    async def asked(self, question: str, model: Any) -> Verdict:
        """Return the verdict of the model on a question; undecided when it leaves a criterion open."""
        count = len(self.criteria)
        found = await _ask_judge(question, model, self.instructions().text, RubricJudgement, _reader(count))
        if isinstance(found, Verdict):
            return found
        assert self.weights is not None
        by_number = {one.number: one for one in found.criteria}
        rows = [(self.criteria[at], self.weights[at], by_number[at + 1]) for at in range(count)]
        open_ones = [f"{words!r} ({one.reason})" for words, _, one in rows if one.met == "unclear"]
        if open_ones:
            return Verdict(
                status="undecided", reason=f"judge: unclear: {'; '.join(open_ones)}"[:_MAX_RUBRIC_REASON_CHARACTERS]
            )
        missed = [f"{words!r} ({one.reason})" for words, _, one in rows if one.met == "no"]
        reward = math.fsum(weight for _, weight, one in rows if one.met == "yes") / math.fsum(self.weights)
        reason = f"judge: {count - len(missed)} of {count} criteria met"
        if missed:
            reason = f"{reason}; not met: {'; '.join(missed)}"[:_MAX_RUBRIC_REASON_CHARACTERS]
        return Verdict.of(reward, reason)


@cache
def _reader(count: int) -> Any:
    """Return a function that reads the judgements of this many criteria. It asks again when one is missing."""

    def read(text: str) -> RubricJudgement:
        from pydantic_ai import ModelRetry

        try:
            found = RubricJudgement.model_validate_json(last_object(text))
        except ValidationError:
            found = None
        if found is None or sorted(one.number for one in found.criteria) != list(range(1, count + 1)):
            raise ModelRetry(
                f'Submit an object with "criteria", a list with one object for each number from 1 to {count}: "number",'
                ' "reason" and "met", one of "yes", "no" and "unclear".'
            )
        return found

    return read
