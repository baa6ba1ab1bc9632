"""A training row: one sequence of tokens exactly as the sampler read and sampled them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentlearn.types.ids import RolloutId


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRow:
    """One sequence of T tokens of a rollout. Sampled tokens are trained; prompts and tool results are not."""

    rollout: RolloutId
    ids_T: NDArray[np.int64]
    """The sampler's own token ids."""
    mask_T: NDArray[np.bool_]
    """Whether the token was sampled. False for the first token, which has no context."""
    logprobs_T: NDArray[np.float32]
    """The sampler's log-probability of each sampled token at the sampling temperature; 0 for other tokens."""
    advantage: float
    reward: float
    staleness: int = 0
    """Number of optimiser steps between the weights that sampled it and the weights being trained."""
    overlong: bool = False
    """Whether it was cut at a limit of tokens or turns."""

    @property
    def length(self) -> int:
        """Number of tokens, T."""
        return len(self.ids_T)

    @property
    def trained(self) -> int:
        """Number of sampled tokens."""
        return int(self.mask_T.sum())
