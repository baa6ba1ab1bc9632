"""Micro-batches: training rows of similar length, as the tensors of one forward pass."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.sequences import TrainingRow


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


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """The rows of a batch to train, in canonical order, and counts of the others."""

    rows: tuple[TrainingRow, ...]
    masked: int
    """Number of rows without a token to train."""


def check_rows(rows: Sequence[TrainingRow], vocabulary: int) -> None:
    """Raise ConfigError for a row with missing log-probabilities, or with tokens that the model does not have."""
    for row in rows:
        if fault := _fault(row, vocabulary):
            code, sentence = fault
            raise ConfigError(f"a row of rollout {row.rollout!r} {sentence}", code=code)


def select_rows(rows: Sequence[TrainingRow], arguments: GradientArguments) -> SelectedRows:
    """Return the rows to train: those with at least one token to train."""
    trained = [row for row in rows if row.trained and not (row.overlong and arguments.overlong == "mask")]
    return SelectedRows(
        rows=tuple(canonical_order(trained)),
        masked=len(rows) - len(trained),
    )


def divide_rows(rows: Sequence[TrainingRow], minibatches: int, seed: object) -> list[list[TrainingRow]]:
    """Return the rows of each optimiser step: shuffled by the seed, of similar number; fewer steps for few rows."""
    if not rows:
        return []
    shuffled = list(rows)
    if minibatches > 1:
        random.Random(repr(seed)).shuffle(shuffled)
    cuts = [round(k * len(shuffled) / minibatches) for k in range(minibatches + 1)]
    return [shuffled[low:high] for low, high in pairwise(cuts) if high > low]


def _fault(row: TrainingRow, vocabulary: int) -> tuple[str, str] | None:
    """Error code and the rest of the error message; None for a valid row."""
    if len(row.logprobs_T) == 0 and row.trained:
        return "missing_logprobs", (
            f"has {row.trained} sampled tokens and no log-probabilities; sample from an endpoint that reports them"
        )
    if not len(row.ids_T) == len(row.mask_T) == len(row.logprobs_T):
        return "unequal_logprobs", (
            f"has {len(row.ids_T)} tokens, a mask of {len(row.mask_T)} and {len(row.logprobs_T)} log-probabilities; "
            "these numbers must be equal, so leave the rollout out and check its sampler"
        )
    sampled = row.logprobs_T[row.mask_T]
    if not bool(np.isfinite(sampled).all()):
        return "missing_logprobs", (
            f"has {int((~np.isfinite(sampled)).sum())} sampled tokens whose log-probability is not a number; "
            "sample from an endpoint that reports them"
        )
    if len(row.mask_T) and bool(row.mask_T[0]):
        return "bad_row", "marks its first token as sampled, but has no prompt before it; include the prompt"
    if len(row.ids_T) and not 0 <= int(row.ids_T.min()) <= int(row.ids_T.max()) < vocabulary:
        return "foreign_tokens", (
            f"has token ids from {int(row.ids_T.min())} to {int(row.ids_T.max())}, but the model has 0 to "
            f"{vocabulary - 1}; train the model that sampled them"
        )
    if not math.isfinite(row.advantage):
        return "bad_row", f"has the advantage {row.advantage!r}; an advantage is a finite number"
    return None
