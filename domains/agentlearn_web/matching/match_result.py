"""The result of a comparison of two answers."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AnswerMatch:
    """The result of a comparison."""

    status: Literal["equal", "different", "unclear"]
    """`equal` and `different` are proven; `unclear` is everything else."""
    reason: str


OTHER_WORDS = AnswerMatch("unclear", "says it in other words, or something else")
SAME_VALUE = AnswerMatch("equal", "the same value")
OTHER_VALUE = AnswerMatch("different", "another value")
SEVERAL_READINGS = AnswerMatch("unclear", "can be read in several ways")


def combined(matches: list[AnswerMatch]) -> AnswerMatch | None:
    """Return the result that all readings of a text agree on; unclear if they disagree; None without readings."""
    if not matches:
        return None
    first = matches[0]
    return first if all(one.status == first.status for one in matches) else SEVERAL_READINGS
