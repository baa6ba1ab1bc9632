"""The scores of inspect_ai as verdicts: letters, numbers, and means of lists and dictionaries."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentlearn.types.trajectory import Verdict
from agentlearn_adapters.foreign_domain import undecided, verdict_of

if TYPE_CHECKING:
    from inspect_ai.scorer import Score

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: as in inspect_ai's own `value_to_float`."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def verdict_of_scores(scores: "Mapping[str, Score | None]") -> Verdict:
    """Return the verdict of the first scorer, as inspect_ai's headline; the others are part of the reason."""
    if not scores:
        return undecided("the task has no scorer")
    (name, first), *others = scores.items()
    if first is None:
        return undecided(f"the scorer {name!r} gave no score")
    notes = [f"{other}: {score.value!r}" for other, score in others if score is not None]
    reason = "\n".join(filter(None, [(first.explanation or "").strip(), *notes]))
    reward = reward_of(first.value)
    if isinstance(reward, str):
        return undecided(f"the scorer {name!r} gave {first.value!r}, {reward}")
    if first.value == "N":
        return Verdict(status="no_answer", reward=0.0, reason=reason)
    return verdict_of(reward, reason)


def reward_of(value: Any) -> float | str:
    """Return a score's value as a number from 0 to 1, or why it is none, as the end of a sentence."""
    match value:
        case bool() | int() | float():
            return _in_range(float(value))
        case str():
            known = _LETTERS.get(value, _WORDS.get(value.strip().lower()))
            return known if known is not None else _number(value)
        case Mapping() | list() | tuple():
            parts = [reward_of(one) for one in (value.values() if isinstance(value, Mapping) else value)]
            wrong = [one for one in parts if isinstance(one, str)]
            numbers = [one for one in parts if not isinstance(one, str)]
            return wrong[0] if wrong else sum(numbers) / len(numbers) if numbers else "which is empty"
        case _:
            return "which is no score"


def _number(text: str) -> float | str:
    try:
        return _in_range(float(text))
    except ValueError:
        return "which is not a number"


def _in_range(number: float) -> float | str:
    if math.isnan(number):
        return "which means that it did not score"
    return number if 0 <= number <= 1 else "which is not from 0 to 1"
