"""The lab model of this domain: a tiny transformer, schooled by the simulated solver on dialogues of the math agent.

It knows every kind of problem here, and falls into the same traps; so it shows the machinery, not talent. What is
imported here is light; the corpus, which knows the simulated world, is loaded only to school it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlearn.lab.contract import EvaluationTask, Pieces, Scene

__all__ = ["MathLab", "lab"]


@dataclass(frozen=True)
class MathLab:
    """Implements `agentlearn.lab.contract.Lab`."""

    name: str = "novice"
    version: str = "1"
    conditions: tuple[str, ...] = ("none", "right", "full", "irrelevant", "neutral", "placebo", "inverted")

    @property
    def sayings(self) -> tuple[str, ...]:
        """For each trap, that a lesson keeps one out of it, and that it leads into it."""
        from agentlearn_math.lab.corpus import SAYINGS

        return SAYINGS

    @property
    def folder(self) -> Path:
        """Where the shipped files lie."""
        return Path(__file__).parent / self.name

    def pieces(self) -> "Pieces":
        """What its tokenizer is made of."""
        from agentlearn_math.lab.pieces import pieces

        return pieces()

    def scenes(self, seed: int) -> "Iterator[Scene]":
        """Its corpus: endless, the same for the same seed."""
        from agentlearn_math.lab.corpus import scenes

        return scenes(seed)

    def exams(self, condition: str, number: int, seed: int) -> "Sequence[EvaluationTask]":
        """Problems of the test split, under one of the conditions."""
        from agentlearn_math.lab.evaluation_tasks import exams

        return exams(condition, number, seed)

    def is_right(self, exam: "EvaluationTask", text: str) -> bool:
        """Whether a final message has the answer in its box."""
        from agentlearn_math.answers import answer_key, boxed

        return answer_key(boxed(text) or "") == answer_key(exam.answer)


lab = MathLab()
