"""What a served model does with tokens: `Engine`. Chat, tools and HTTP stand around it, in `serving`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one answer is drawn."""

    seed: int
    """The only source of chance: the same prompt, weights and sampling give the same tokens, whatever else is asked
    for at the same time."""
    max_tokens: int
    temperature: float = 1.0
    """0: the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0: all."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was drawn."""

    ids: tuple[int, ...]
    """The tokens in order, the one that ends the answer included."""
    logprobs: tuple[float, ...]
    """Of each token: the log of its probability at the temperature that it was drawn with, over the whole vocabulary;
    at temperature 0 as at 1."""
    finish: Literal["stop", "length"]
    cached: int = 0
    """Tokens of the prompt that were not computed again."""


class Engine(Protocol):
    """A language model over tokens, shared by all requests: it batches those that wait together."""

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        ...

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Draw an answer to the prompt. A cancelled call takes no more of the engine's time."""
        ...
