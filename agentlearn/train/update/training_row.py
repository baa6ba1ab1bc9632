"""A training row: one sequence of tokens exactly as the sampler saw and drew them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentlearn.types.ids import RolloutId


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRow:
    """One sequence of a rollout. T tokens; what the policy drew is trained, prompts and tool results are not."""

    rollout: RolloutId
    ids_T: NDArray[np.int64]
    """The sampler's own token ids."""
    mask_T: NDArray[np.bool_]
    """Whether the policy drew this token. False at the first: nothing stands before it."""
    logprobs_T: NDArray[np.float32]
    """The sampler's log-probability of each drawn token at the sampling temperature; 0 elsewhere."""
    advantage: float
    reward: float
    staleness: int = 0
    """Optimiser steps between the weights that drew it and those that are trained on it."""
    overlong: bool = False
    """Whether it was cut at a limit of tokens."""

    @property
    def length(self) -> int:
        """T."""
        return len(self.ids_T)

    @property
    def trained(self) -> int:
        """Tokens that the policy drew."""
        return int(self.mask_T.sum())
