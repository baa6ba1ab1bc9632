"""`Rubric`: a reward that is a list of criteria, which a model judges one by one."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentlearn.domain.custom.reward import JudgeReward, ask_judge, last_object, short
from agentlearn.errors import ConfigError
from agentlearn.prompts import Prompt, load_prompt
from agentlearn.types.trajectory import PromptRef, Verdict

_MAX_REASON_CHARACTERS = 1_000


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
                f"the criteria of a rubric are {short(given)}; give a list of texts, such as Rubric(['Is polite'])",
                code="bad_rubric",
            )
        if len(counted) != len(criteria) or not all(isinstance(n, int | float) and 0 < n < math.inf for n in counted):
            raise ConfigError(
                f"the weights of a rubric are {short(weights)}; give {len(criteria)} numbers above 0, one for each"
                " criterion",
                code="bad_rubric",
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
        found = await ask_judge(question, model, self.instructions().text, RubricJudgement, _reader(count))
        if isinstance(found, Verdict):
            return found
        assert self.weights is not None
        by_number = {one.number: one for one in found.criteria}
        rows = [(self.criteria[at], self.weights[at], by_number[at + 1]) for at in range(count)]
        open_ones = [f"{words!r} ({one.reason})" for words, _, one in rows if one.met == "unclear"]
        if open_ones:
            return Verdict(
                status="undecided", reason=f"judge: unclear: {'; '.join(open_ones)}"[:_MAX_REASON_CHARACTERS]
            )
        missed = [f"{words!r} ({one.reason})" for words, _, one in rows if one.met == "no"]
        reward = math.fsum(weight for _, weight, one in rows if one.met == "yes") / math.fsum(self.weights)
        reason = f"judge: {count - len(missed)} of {count} criteria met"
        if missed:
            reason = f"{reason}; not met: {'; '.join(missed)}"[:_MAX_REASON_CHARACTERS]
        status = "partial" if missed and reward else "incorrect" if missed else "correct"
        return Verdict(status=status, reward=reward, reason=reason)


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
