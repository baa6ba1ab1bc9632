"""What rows must be before weights are changed by them, and how a batch of them is cut into optimiser steps."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from agentlearn.errors import ConfigError
from agentlearn.train.arguments import GradientArguments
from agentlearn.train.update.microbatch import in_order
from agentlearn.train.update.training_row import TrainingRow


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows of a batch that train, in an order that does not depend on how they came; and the others."""

    rows: tuple[TrainingRow, ...]
    stale: int
    masked: int
    staleness: Counter[int]


def checked(rows: Sequence[TrainingRow], vocabulary: int) -> None:
    """Raises ConfigError for a row that the sampler did not report whole, or that is not of this model."""
    for row in rows:
        if fault := _fault(row, vocabulary):
            code, sentence = fault
            raise ConfigError(f"a row of rollout {row.rollout!r} {sentence}", code=code)


def chosen(rows: Sequence[TrainingRow], arguments: GradientArguments) -> Chosen:
    """Without those too stale, or of which no token is to be trained."""
    fresh = [row for row in rows if row.staleness <= arguments.max_staleness]
    trained = [row for row in fresh if row.trained and not (row.overlong and arguments.overlong == "mask")]
    return Chosen(
        rows=tuple(in_order(trained)),
        stale=len(rows) - len(fresh),
        masked=len(fresh) - len(trained),
        staleness=Counter(row.staleness for row in rows),
    )


def windows(rows: Sequence[TrainingRow], minibatches: int, seed: object) -> list[list[TrainingRow]]:
    """The rows of each optimiser step: drawn from the seed, of like number; fewer steps than asked for few rows."""
    if not rows:
        return []
    shuffled = list(rows)
    if minibatches > 1:
        random.Random(repr(seed)).shuffle(shuffled)
    cuts = [round(k * len(shuffled) / minibatches) for k in range(minibatches + 1)]
    return [shuffled[low:high] for low, high in pairwise(cuts) if high > low]


def _fault(row: TrainingRow, vocabulary: int) -> tuple[str, str] | None:
    """A stable code and the rest of a sentence; None for a good row."""
    if len(row.logprobs_T) == 0 and row.trained:
        return "missing_logprobs", (
            f"has {row.trained} drawn tokens and no log-probabilities; sample from an endpoint that reports them"
        )
    if not len(row.ids_T) == len(row.mask_T) == len(row.logprobs_T):
        return "unequal_logprobs", (
            f"has {len(row.ids_T)} tokens, a mask of {len(row.mask_T)} and {len(row.logprobs_T)} log-probabilities; "
            "they must be as many, so leave the rollout out and look at its sampler"
        )
    drawn = row.logprobs_T[row.mask_T]
    if not bool(np.isfinite(drawn).all()):
        return "missing_logprobs", (
            f"has {int((~np.isfinite(drawn)).sum())} drawn tokens whose log-probability is not a number; "
            "sample from an endpoint that reports them"
        )
    if len(row.mask_T) and bool(row.mask_T[0]):
        return "bad_row", "says that its first token was drawn, but nothing stands before it; give it its prompt"
    if len(row.ids_T) and not 0 <= int(row.ids_T.min()) <= int(row.ids_T.max()) < vocabulary:
        return "foreign_tokens", (
            f"has token ids from {int(row.ids_T.min())} to {int(row.ids_T.max())}, but the model knows 0 to "
            f"{vocabulary - 1}; train the model that drew them"
        )
    if not math.isfinite(row.advantage):
        return "bad_row", f"has the advantage {row.advantage!r}; an advantage is a finite number"
    return None
