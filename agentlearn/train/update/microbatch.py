"""Micro-batches: training rows of similar length, as the tensors of one forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from agentlearn.train.update.training_row import TrainingRow


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """The tensors of one forward pass: B rows of at most T tokens, with N trained tokens in total.

    A row ends before its last trained token, because nothing after that is needed. Padding is at the end, where no real
    token of a causal model attends to it, so no attention mask is needed. Packed rows are one row of the tensors,
    without padding.
    """

    ids_BT: Tensor
    places_N: Tensor
    """Index into the flattened B x T of the position that predicts each trained token, one before its own."""
    targets_N: Tensor
    """The trained tokens."""
    row_N: Tensor
    sampler_N: Tensor
    """The sampler's log-probability of each trained token."""
    advantages_B: Tensor
    comparable_B: Tensor
    """1 for rows whose sampler's log-probabilities must be those of the present weights, 0 for others."""
    positions_BT: Tensor | None = None
    """Position of each token in its own row, for packed rows and shared prompts; None for padded rows."""
    seen_BTT: Tensor | None = None
    """Which tokens each token sees, where rows share their prompts; None: those before it in its own row."""

    @property
    def forward_inputs(self) -> tuple[Tensor | None, ...]:
        """What `LogprobModel` takes."""
        return self.ids_BT, self.places_N, self.targets_N, self.positions_BT, self.seen_BTT

    def to(self, device: torch.device) -> "MicroBatch":
        """Return a copy on a device."""
        return MicroBatch(
            *(one.to(device) for one in (self.ids_BT, self.places_N, self.targets_N)),
            *(one.to(device) for one in (self.row_N, self.sampler_N, self.advantages_B, self.comparable_B)),
            positions_BT=None if self.positions_BT is None else self.positions_BT.to(device),
            seen_BTT=None if self.seen_BTT is None else self.seen_BTT.to(device),
        )


def forward_length(row: TrainingRow) -> int:
    """Return the number of tokens that a forward pass needs: those before the last trained one; 0 for none."""
    trained = np.flatnonzero(row.mask_T)
    return int(trained[-1]) if len(trained) else 0


def canonical_order(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    """Return the rows sorted by content, so that their original order does not matter."""
    return sorted(rows, key=_content)


def _content(row: TrainingRow) -> tuple[object, ...]:
    arrays = (row.ids_T.tobytes(), row.mask_T.tobytes(), row.logprobs_T.tobytes())
    return (row.length, *arrays, row.advantage, row.staleness)


def plan_microbatches(lengths_B: Sequence[int], budget: int, *, packed: bool = False) -> list[list[int]]:
    """Return row indexes by micro-batch, longest rows first, with at most `budget` tokens each, padding included.

    A row longer than the budget is alone. Rows of length 0 are left out. packed: there is no padding.
    """
    parts: list[list[int]] = []
    held = 0
    by_length = sorted((b for b, length in enumerate(lengths_B) if length), key=lambda b: (-lengths_B[b], b))
    for b in by_length:
        needed = held + lengths_B[b] if packed or not parts else lengths_B[parts[-1][0]] * (len(parts[-1]) + 1)
        if parts and needed <= budget:
            parts[-1].append(b)
            held = needed
        else:
            parts.append([b])
            held = lengths_B[b]
    return parts


def collate(rows: Sequence[TrainingRow], *, packed: bool = False) -> MicroBatch:
    """Return the micro-batch of these rows, each with at least one trained token."""
    lengths = [forward_length(row) for row in rows]
    if packed:
        starts = np.concatenate([[0], np.cumsum(lengths)])[:-1]
        ids_BT = np.concatenate([row.ids_T[:length] for row, length in zip(rows, lengths, strict=True)])[None]
        positions_BT = torch.from_numpy(np.concatenate([np.arange(length) for length in lengths])[None])
    else:
        starts = np.arange(len(rows)) * max(lengths)
        ids_BT = np.zeros((len(rows), max(lengths)), dtype=np.int64)
        for b, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            ids_BT[b, :length] = row.ids_T[:length]
        positions_BT = None
    places = [np.flatnonzero(row.mask_T) - 1 + start for row, start in zip(rows, starts, strict=True)]
    return MicroBatch(
        ids_BT=torch.from_numpy(ids_BT.astype(np.int64)),
        places_N=torch.from_numpy(np.concatenate(places)),
        targets_N=torch.from_numpy(np.concatenate([row.ids_T[row.mask_T] for row in rows]).astype(np.int64)),
        row_N=torch.from_numpy(np.repeat(np.arange(len(rows)), [row.trained for row in rows])),
        sampler_N=torch.from_numpy(np.concatenate([row.logprobs_T[row.mask_T] for row in rows]).astype(np.float32)),
        advantages_B=torch.tensor([row.advantage for row in rows], dtype=torch.float32),
        comparable_B=torch.tensor([float(row.is_comparable) for row in rows]),
        positions_BT=positions_BT,
    )
