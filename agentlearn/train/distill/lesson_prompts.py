"""The two prompts of a rollout in distillation: the student's without lessons, and the teacher's with them.

A rollout has only one of them, as the sampler's tokens. The other one is made from its text: the agent's instructions
are found in it, and lessons are put after them or taken away, as `Experiences` puts them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agentlearn.errors import ConfigError
from agentlearn.types.trajectory import SampledTokens

_BETWEEN = "\n\n"
"""What pydantic-ai puts between the instructions of an agent and those of its capabilities."""


class Codec(Protocol):
    """Turns text into tokens and back, special tokens included."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        ...


class PromptPair(NamedTuple):
    """One prompt in tokens, as the student and as the teacher reads it."""

    student: tuple[int, ...]
    teacher: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RolloutPrompts:
    """Makes both prompts of the answers of one rollout."""

    codec: Codec
    lessons: str
    """The block of advice that the teacher reads for the rollout's task."""
    guided: bool = False
    """Whether the rollout was sampled with it."""

    def pair(self, turn: SampledTokens) -> PromptPair | None:
        """Return both prompts of an answer; None when the other one cannot be made.

        That is so where the agent has no instructions or its template changes them, and where the tokens of the prompt
        are not those of its text.
        """
        instructions, lessons = turn.instructions.strip(), self.lessons.strip()
        bare = instructions.removesuffix(f"{_BETWEEN}{lessons}") if self.guided else instructions
        if not bare or (self.guided and bare == instructions):
            return None
        text = self.codec.decode(turn.prompt)
        at = text.find(instructions)
        if at < 0 or self.codec.encode(text) != list(turn.prompt):
            return None
        other = bare if self.guided else f"{bare}{_BETWEEN}{lessons}"
        made = tuple(self.codec.encode(text[:at] + other + text[at + len(instructions) :]))
        return PromptPair(made, turn.prompt) if self.guided else PromptPair(turn.prompt, made)


def no_place_for_lessons(model: str) -> ConfigError:
    """Return the error for a run in which no prompt with lessons could be made."""
    return ConfigError(
        f"the lessons cannot be put into the prompts that {model!r} is sampled with: the agent has no instructions, or"
        " the model's chat template or tokenizer changes their text; give the agent instructions, or train another"
        " model",
        code="no_place_for_lessons",
    )
