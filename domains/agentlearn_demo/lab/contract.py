"""The interface of lab models: tiny models that a package trains, ships and announces under `agentlearn.lab`.

Training, serving and evaluating them use these types, which depend on no domain and no tensor library.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from agentlearn.domain.demo import LabModel, lab_model
from agentlearn.serving.chat_request import Message


@dataclass(frozen=True, slots=True)
class SoftTarget:
    """A position in the assistant's first message where the teacher could have continued in several ways."""

    options: tuple[tuple[str, float], ...]
    """The possible texts, the written one included, with their probabilities, which sum to 1."""
    lessons: tuple[int, ...] = ()
    """Indexes into `TrainingExample.lessons` of the lessons that changed these probabilities."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation from the user's question to the assistant's final message."""

    messages: tuple[Message, ...]
    soft_targets: tuple[SoftTarget, ...] = ()
    """Soft targets in the order of the text."""


@dataclass(frozen=True, slots=True)
class LessonMeaning:
    """What the teacher reads in one lesson of the system message."""

    end: int
    """End of the lesson, in characters of the system message."""
    meanings: tuple[str, ...]
    """The lesson's meanings, out of `Lab.meanings`; empty for a lesson without any."""


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """Dialogues with the same system message, like the rollouts of a learner."""

    system: str
    """System message: instructions and then the fenced lessons. May be empty."""
    tools: tuple[str, ...]
    """Names of the available tools."""
    dialogues: tuple[Dialogue, ...]
    lessons: tuple[LessonMeaning, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """One question of a lab model's evaluation."""

    system: str
    tools: tuple[str, ...]
    question: str
    answer: str
    expected: float
    """Probability that the teacher answers it correctly with this system message."""


@dataclass(frozen=True, slots=True)
class TokenPieces:
    """The texts in a tokenizer's vocabulary, besides single bytes."""

    whole: tuple[str, ...]
    """Texts that are always one token. They may contain digits."""
    parts: tuple[str, ...]
    """Texts without digits. A text is split into the smallest possible number of them."""


class Lab(LabModel, Protocol):
    """A lab model with its corpus."""

    @property
    def version(self) -> str:
        """Version of the corpus."""
        ...

    @property
    def meanings(self) -> tuple[str, ...]:
        """Names of all meanings that a lesson can have for the teacher."""
        ...

    def token_pieces(self) -> TokenPieces:
        """Return the texts in its tokenizer's vocabulary."""
        ...

    def examples(self, seed: int) -> Iterator[TrainingExample]:
        """Yield the training examples of its corpus without end, the same for the same seed."""
        ...

    def evaluation_tasks(self, condition: str, number: int, seed: int) -> Sequence[EvaluationTask]:
        """Return questions that are not in the corpus, under one of `conditions`."""
        ...

    def is_right(self, task: EvaluationTask, text: str) -> bool:
        """Whether a final message answers the task correctly."""
        ...

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the evaluation conditions. They differ in the lessons in context: none, right ones, controls."""
        ...


def announced_lab(name: str) -> Lab:
    """Return the lab model with this name. Raises ConfigError when no package announces it."""
    return cast("Lab", lab_model(name))
