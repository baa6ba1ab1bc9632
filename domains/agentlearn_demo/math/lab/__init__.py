"""The lab model of the math domain: a tiny transformer, trained on dialogues of the math agent with a simulated solver.

It knows every kind of problem of this domain and falls into the same traps. It has learned to read lessons on these
traps, in many wordings, and to pass over most text that only looks like one. It demonstrates the machinery.
Importing this package is cheap; the corpus, which uses the simulated world, is loaded only for training and evaluation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlearn_demo.lab.contract import EvaluationTask, TokenPieces, TrainingExample

__all__ = ["MathLab", "lab"]


@dataclass(frozen=True)
class MathLab:
    """Implements `agentlearn_demo.lab.contract.Lab`."""

    name: str = "novice"
    version: str = "3"
    conditions: tuple[str, ...] = (
        "none", "right", "paraphrase", "negation", "inverted", "shuffled", "salad", "absurd", "german", "twenty",
        "sixty", "full", "irrelevant", "neutral", "placebo",
    )  # fmt: skip

    @property
    def meanings(self) -> tuple[str, ...]:
        """Names of what a lesson can say: that it is narrow, and for each trap that it warns of it, leads into it, or
        takes back the advice on it.
        """
        from agentlearn_demo.math.lab.corpus import MEANINGS

        return MEANINGS

    @property
    def folder(self) -> Path:
        """Folder of the shipped files."""
        return Path(__file__).parent / self.name

    @property
    def families(self) -> int:
        """Number of families of problems in its corpus."""
        from agentlearn_demo.math.families import FAMILIES

        return len(FAMILIES)

    def knows(self, question: str) -> bool:
        """Whether a question is a problem of these families, in one of their wordings."""
        from agentlearn_demo.math.families import FAMILIES

        return any(family.recognise(question) is not None for family in FAMILIES)

    def export(self, folder: Path) -> None:
        """Write the shipped weights as a checkpoint in Hugging Face format."""
        from agentlearn_demo.lab_training.build import export_lab_model

        export_lab_model(self, folder)

    def token_pieces(self) -> "TokenPieces":
        """Return the texts in its tokenizer's vocabulary."""
        from agentlearn_demo.math.lab.token_pieces import token_pieces

        return token_pieces()

    def examples(self, seed: int) -> "Iterator[TrainingExample]":
        """Yield training examples without end, the same for the same seed."""
        from agentlearn_demo.math.lab.corpus import examples

        return examples(seed)

    def evaluation_tasks(self, condition: str, number: int, seed: int) -> "Sequence[EvaluationTask]":
        """Return problems of the test split, under one of the conditions."""
        from agentlearn_demo.math.lab.evaluation_tasks import evaluation_tasks

        return evaluation_tasks(condition, number, seed)

    def is_right(self, task: "EvaluationTask", text: str) -> bool:
        """Whether the answer in the final message's box is correct."""
        from agentlearn.answers.reply import boxed
        from agentlearn_math.answers import answer_key

        return answer_key(boxed(text) or "") == answer_key(task.answer)


lab = MathLab()
