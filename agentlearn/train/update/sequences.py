"""Training rows from trajectories, made of the sampler's own tokens. No text is encoded again.

Turns whose prompt continues the tokens before it share one row, in which instructions and tool results are not trained.
A turn whose prompt differs, for example because a template renders history in another way, starts a new row (a fork).
So every sampled token is trained exactly once, after exactly the tokens it was sampled after.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentlearn.errors import RolloutError
from agentlearn.train.update.training_row import TrainingRow
from agentlearn.types.trajectory import ModelTurn, SampledTokens, Trajectory


@dataclass(frozen=True, slots=True)
class RolloutRows:
    """The training rows of one rollout, and counts of its turns."""

    rows: tuple[TrainingRow, ...]
    clean: int
    """Number of turns that continue the tokens before them."""
    forked: int
    """Number of turns that start a new row."""


@dataclass(slots=True)
class _Sequence:
    """A row under construction."""

    ids: list[int] = field(default_factory=list[int])
    sampled: list[bool] = field(default_factory=list[bool])
    logprobs: list[float] = field(default_factory=list[float])

    def is_continued_by(self, prompt: Sequence[int]) -> bool:
        return len(prompt) >= len(self.ids) and list(prompt[: len(self.ids)]) == self.ids

    def append(self, turn: SampledTokens) -> None:
        given = turn.prompt[len(self.ids) :]
        self.ids += [*given, *turn.ids]
        self.sampled += [False] * len(given) + [True] * len(turn.ids)
        self.logprobs += [0.0] * len(given) + list(turn.logprobs)


def training_rows(trajectory: Trajectory, *, advantage: float, reward: float, staleness: int = 0) -> RolloutRows:
    """Return the rows of a rollout, in the order of its turns.

    Raises RolloutError (code `no_tokens`) when a turn has no tokens, or a token no finite log-probability.
    """
    sequences, forked = [_Sequence()], 0
    for turn in _sampled(trajectory):
        if not sequences[-1].is_continued_by(turn.prompt):
            sequences.append(_Sequence())
            forked += 1
        sequences[-1].append(turn)
    rows = tuple(
        TrainingRow(
            rollout=trajectory.id,
            ids_T=np.asarray(one.ids, dtype=np.int64),
            mask_T=np.asarray(one.sampled, dtype=np.bool_),
            logprobs_T=np.asarray(one.logprobs, dtype=np.float32),
            advantage=advantage,
            reward=reward,
            staleness=staleness,
            overlong=overlong(trajectory),
        )
        for one in sequences
        if any(one.sampled)
    )
    turns = sum(isinstance(step, ModelTurn) for step in trajectory.steps)
    return RolloutRows(rows, clean=max(turns - 1 - forked, 0), forked=forked)


def overlong(trajectory: Trajectory) -> bool:
    """Whether an answer was cut at the limit of tokens, or the rollout at the limit of turns."""
    cut = any(isinstance(step, ModelTurn) and step.finish == "length" for step in trajectory.steps)
    return cut or (trajectory.failure is not None and trajectory.failure.code == "too_many_turns")


def _sampled(trajectory: Trajectory) -> Iterator[SampledTokens]:
    for number, turn in enumerate((one for one in trajectory.steps if isinstance(one, ModelTurn)), start=1):
        tokens = turn.tokens
        if tokens is None:
            raise RolloutError(
                f"model turn {number} of rollout {trajectory.id!r} has no token ids and log-probabilities, so it cannot"
                " be trained on; sample with local:… or vllm:…, which send them",
                code="no_tokens",
            )
        if len(tokens.ids) != len(tokens.logprobs) or not all(map(math.isfinite, tokens.logprobs)):
            raise RolloutError(
                f"model turn {number} of rollout {trajectory.id!r} has {len(tokens.ids)} tokens and"
                f" {sum(map(math.isfinite, tokens.logprobs))} finite log-probabilities; each sampled token needs one",
                code="no_tokens",
            )
        yield tokens
