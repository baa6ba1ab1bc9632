"""A training row: one sequence of tokens exactly as the sampler read and sampled them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    """Number of updates made since its rollout was planned."""
    overlong: bool = False
    """Whether it was cut at a limit of tokens or turns."""
    guided: bool = False
    """Whether it was sampled with lessons that it is trained without."""
    teacher_ids_T: NDArray[np.int64] | None = None
    """The row as a teacher reads it: another prompt, then the same tokens. None: no teacher reads it."""

    @property
    def length(self) -> int:
        """Number of tokens, T."""
        return len(self.ids_T)

    @property
    def trained(self) -> int:
        """Number of sampled tokens."""
        return int(self.mask_T.sum())

    @property
    def is_comparable(self) -> bool:
        """Whether the sampler's log-probabilities must be those of the weights before this update."""
        return self.staleness == 0 and not self.guided

    @property
    def taught(self) -> int:
        """Number of sampled tokens that a teacher reads."""
        return 0 if self.teacher_ids_T is None else self.trained

    def with_prompts(self, prompt: Sequence[int], teacher_prompt: Sequence[int], *, instead_of: int) -> "TrainingRow":
        """Return the row with another prompt, and with a teacher's. instead_of: number of tokens of the prompt it has.

        No token of that prompt may be a sampled one.
        """
        assert not self.mask_T[:instead_of].any(), "a prompt holds no sampled token"
        moved = len(prompt) - instead_of
        tail_T = self.ids_T[instead_of:]
        return replace(
            self,
            ids_T=np.concatenate([np.asarray(prompt, dtype=np.int64), tail_T]),
            mask_T=_moved(self.mask_T, moved),
            logprobs_T=_moved(self.logprobs_T, moved),
            teacher_ids_T=np.concatenate([np.asarray(teacher_prompt, dtype=np.int64), tail_T]),
        )

    def for_teacher(self) -> "TrainingRow":
        """Return the row that the teacher reads, with the same sampled tokens; this row where no teacher reads it."""
        if self.teacher_ids_T is None:
            return self
        moved = len(self.teacher_ids_T) - len(self.ids_T)
        return replace(
            self,
            ids_T=self.teacher_ids_T,
            mask_T=_moved(self.mask_T, moved),
            logprobs_T=_moved(self.logprobs_T, moved),
            teacher_ids_T=None,
        )


def _moved(values_T: NDArray[Any], by: int) -> NDArray[Any]:
    """Values with that many zeros before them, or with that many fewer, which are zeros."""
    return values_T[-by:] if by <= 0 else np.concatenate([np.zeros(by, dtype=values_T.dtype), values_T])
