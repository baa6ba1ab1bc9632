"""Checking the training rows of a batch, selecting those to train, and dividing them into optimiser steps."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.microbatch import canonical_order
from agentlearn.train.update.training_row import TrainingRow


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
