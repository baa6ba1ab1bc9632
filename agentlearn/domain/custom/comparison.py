"""Rewards that compare an answer with the expected one: `exact`, `number`, `choice`, `contains`. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentlearn.answers.answer_text import contains, normalised
from agentlearn.answers.numbers import number_key, same_number, single_number
from agentlearn.answers.reply import single_choice
from agentlearn.text import seen
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory, Verdict

_DECIMAL_COMMA = re.compile(r"\D*\d[\d. ]*,\d+\D*")


@dataclass(frozen=True, slots=True)
class ComparisonReward:
    """A reward of 1 for an answer that equals the expected one, and of 0 for any other."""

    name: str
    form: str
    """What an answer must look like; the agent is given this sentence."""
    wants: str
    """What an answer must contain to be compared, as in `the answer holds no …`."""
    key: Callable[[str], str | None]
    """Return a form that equal answers share; None for a text that cannot be compared."""
    compare: Callable[[str, str], bool] | None = None
    """Whether an answer (first) that has a key equals the expected answer; None: when their keys are equal."""
    votes: bool = True
    """Whether all answers that are equal have the same key."""
    needs_gold = True

    def gold(self, text: str) -> str:
        """Return the expected answer. Raises ValueError with words that continue `FILE line N`."""
        if text.strip() and self.key(text) is None:
            decimal_comma = self.name == "number" and _DECIMAL_COMMA.fullmatch(text.strip())
            step = "write a point before its decimals" if decimal_comma else "write one"
            raise ValueError(
                f"has the answer {text.strip()!r}, which holds no {self.wants}; {step}, or choose another --reward"
            )
        return text.strip()

    def judge(self, task: Task, trajectory: Trajectory) -> Verdict:
        """Compare answer and expected answer. Undecided only when there is no expected answer that can be compared."""
        answer, gold = trajectory.answer, task.answer
        if gold is None or self.key(gold) is None:
            return Verdict(status="undecided", reason=f"the task has no expected answer that holds one {self.wants}")
        if answer is None or not seen(answer).strip():
            return Verdict(status="no_answer", reward=0.0)
        if self.key(answer) is None:
            return Verdict(status="incorrect", reward=0.0, reason=f"the answer holds no {self.wants}")
        right = self.equal(answer, gold)
        return Verdict(status="correct" if right else "incorrect", reward=float(right))

    def equal(self, answer: str, gold: str) -> bool:
        """Whether an answer that has a key equals the expected answer."""
        return self.key(answer) == self.key(gold) if self.compare is None else self.compare(answer, gold)

    def answer_key(self, answer: str) -> str | None:
        """Return the key, for majority votes; None when equal answers may have different keys."""
        return self.key(answer) if self.votes else None


def _text_key(text: str) -> str | None:
    return normalised(text) or None


def _number_key(text: str) -> str | None:
    value = single_number(text)
    return None if value is None else number_key(value)


def _same_number(answer: str, gold: str) -> bool:
    value, expected = single_number(answer), single_number(gold)
    return value is not None and expected is not None and same_number(value, expected)


EXACT = ComparisonReward(
    name="exact",
    form="The answer is given in as few words as possible.",
    wants="text",
    key=_text_key,
)
NUMBER = ComparisonReward(
    name="number",
    form="The answer is a single number in digits, with a point before its decimals.",
    wants="single number",
    key=_number_key,
    compare=_same_number,
)
CHOICE = ComparisonReward(
    name="choice",
    form="The answer is the letter of one of the given choices.",
    wants="single choice letter from A to J",
    key=single_choice,
)
CONTAINS = ComparisonReward(
    name="contains",
    form="The answer is given in a few words.",
    wants="text",
    key=_text_key,
    compare=contains,
    votes=False,
)
