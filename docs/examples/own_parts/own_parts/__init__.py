"""A rule, a reward, a loss and advantages of one's own, which agentlearn finds by the entry points of this package.

pip install ./own_parts
agentlearn learn math --rule names-a-situation --prompt compare=own_parts/own_parts/compare.md
agentlearn train FILE --reward brief --model FOLDER --loss reinforce --set advantages=ranks
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that `learn` does not import torch
    from torch import Tensor

    from agentlearn.train.update.losses import TokenScores
    from agentlearn.types.experience import Library
    from agentlearn.types.operation import Operation
    from agentlearn.types.task import Task


def names_a_situation(operation: Operation, library: Library) -> str | None:
    """Refuse lessons that do not open with the situation they are for, or open as one of the library does."""
    lesson = getattr(operation, "lesson", "When nothing is written")
    if not lesson.startswith(("When", "If")):
        return "open with 'When' or 'If' and the situation"
    opens = " ".join(lesson.split()[:5])
    taken = operation.op == "add" and any(one.lesson.startswith(opens) for one in library.experiences)
    return f"a lesson opens with {opens!r} already; modify it" if taken else None


def brief(task: Task, answer: str) -> float:
    """1 for an answer that is as long as the expected one, falling to 0 at a hundred characters more."""
    return max(0.0, 1 - abs(len(answer) - len(task.answer or "")) / 100)


def ranks(rewards_G: Sequence[float]) -> list[float]:
    """The share of a group's other rewards that are lower, minus the share that are higher: -1 to 1."""
    others = max(1, len(rewards_G) - 1)
    return [sum((one > other) - (one < other) for other in rewards_G) / others for one in rewards_G]


def reinforce(scored: TokenScores) -> Tensor:
    """REINFORCE, which clips nothing: -A logp of each token, shape (N,)."""
    return -scored.advantages_B[scored.row_N] * scored.logprobs_N
