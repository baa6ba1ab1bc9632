"""From training rows to the tensors of one forward pass: of like length together, little padding, tokens flat."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentlearn.train.update.training_row import TrainingRow


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """Rows that pass the model together: B rows of at most T tokens, N of them trained.

    A row ends before its last trained token, since nothing is predicted from what follows. Padding stands at the end,
    where a causal model cannot see it from any real token, so there is no attention mask.
    """

    ids_BT: Tensor
    places_N: Tensor
    """Where each trained token is predicted from, in B x T flattened: the place before its own."""
    targets_N: Tensor
    """The trained tokens."""
    row_N: Tensor
    sampler_N: Tensor
    """What the sampler reported of each."""
    advantages_B: Tensor

    def to(self, device: torch.device) -> "MicroBatch":
        """The same on a device."""
        return MicroBatch(
            *(one.to(device) for one in (self.ids_BT, self.places_N, self.targets_N)),
            *(one.to(device) for one in (self.row_N, self.sampler_N, self.advantages_B)),
        )


def passed(row: TrainingRow) -> int:
    """Tokens of a row that pass the model: those before its last trained one; 0 where none is trained."""
    trained = np.flatnonzero(row.mask_T)
    return int(trained[-1]) if len(trained) else 0


def in_order(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """The rows in an order that follows from their content: it does not matter how they came, or in which run."""
    return sorted(rows, key=_content)


def _content(row: TrainingRow) -> tuple[object, ...]:
    arrays = (row.ids_T.tobytes(), row.mask_T.tobytes(), row.logprobs_T.tobytes())
    return (row.length, *arrays, row.advantage, row.staleness)


def plan(lengths_B: Sequence[int], budget: int) -> list[list[int]]:
    """Rows by number, the longest first, cut into micro-batches whose padded size is at most the budget.

    A row longer than the budget is alone. Rows of length 0 are in none.
    """
    parts: list[list[int]] = []
    by_length = sorted((b for b, length in enumerate(lengths_B) if length), key=lambda b: (-lengths_B[b], b))
    for b in by_length:
        if parts and lengths_B[parts[-1][0]] * (len(parts[-1]) + 1) <= budget:
            parts[-1].append(b)
        else:
            parts.append([b])
    return parts


def collate(rows: Sequence[TrainingRow]) -> MicroBatch:
    """The tensors of rows that train at least one token each."""
    lengths = [passed(row) for row in rows]
    ids_BT = np.zeros((len(rows), max(lengths)), dtype=np.int64)
    places: list[np.ndarray] = []
    for b, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        ids_BT[b, :length] = row.ids_T[:length]
        places.append(np.flatnonzero(row.mask_T) - 1 + b * ids_BT.shape[1])
    return MicroBatch(
        ids_BT=torch.from_numpy(ids_BT),
        places_N=torch.from_numpy(np.concatenate(places)),
        targets_N=torch.from_numpy(np.concatenate([row.ids_T[row.mask_T] for row in rows]).astype(np.int64)),
        row_N=torch.from_numpy(np.repeat(np.arange(len(rows)), [row.trained for row in rows])),
        sampler_N=torch.from_numpy(np.concatenate([row.logprobs_T[row.mask_T] for row in rows]).astype(np.float32)),
        advantages_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
    )
