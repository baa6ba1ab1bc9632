"""The interface of engines, which sample tokens for the services in this package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options for sampling one answer."""

    seed: int
    """Seed of all random choices: the same prompt, weights and options give the same tokens, whatever other requests
    run at the same time."""
    max_tokens: int
    """Largest number of answer tokens."""
    temperature: float = 1.0
    """0: always the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0: all tokens."""
    min_p: float = 0.0
    """Tokens below this share of the likeliest token's probability are left out, before top_k and top_p; 0: none."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sampled answer."""

    ids: tuple[int, ...]
    """The answer's tokens in order, the stop token included."""
    logprobs: tuple[float, ...]
    """Log-probability of each token at the sampling temperature, over the whole vocabulary; at temperature 0 as at 1.
    """
    finish: Literal["stop", "length"]
    cached: int = 0
    """Number of prompt tokens that did not have to be computed."""


class Engine(Protocol):
    """A language model that samples tokens for many requests, in batches."""

    @property
    def context(self) -> int:
        """Largest number of tokens of prompt and answer together."""
        ...

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer to the prompt. A cancelled call uses no further computing time."""
        ...
