"""From trajectories to training rows, by the sampler's own tokens. No text is ever encoded again here.

Turns whose prompts continue the tokens before them, as they do where a sampler is given back what it drew, make one
row; tool results and instructions stand in it untrained. A turn whose prompt differs anywhere, because a template
wrote history in another way, begins a row of its own (a fork): every drawn token is trained once, behind the very
tokens that it was drawn behind.
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
    """The rows of one rollout."""

    rows: tuple[TrainingRow, ...]
    clean: int
    """Turns that continue the tokens before them."""
    forked: int
    """Turns that do not."""


@dataclass(slots=True)
class _Sequence:
    """A row in the making."""

    ids: list[int] = field(default_factory=list[int])
    drawn: list[bool] = field(default_factory=list[bool])
    logprobs: list[float] = field(default_factory=list[float])

    def is_continued_by(self, prompt: Sequence[int]) -> bool:
        return len(prompt) >= len(self.ids) and list(prompt[: len(self.ids)]) == self.ids

    def append(self, turn: SampledTokens) -> None:
        given = turn.prompt[len(self.ids) :]
        self.ids += [*given, *turn.ids]
        self.drawn += [False] * len(given) + [True] * len(turn.ids)
        self.logprobs += [0.0] * len(given) + list(turn.logprobs)


def rows_of(trajectory: Trajectory, *, advantage: float, reward: float, staleness: int = 0) -> RolloutRows:
    """The rows of a rollout, in the order of its turns.

    Raises RolloutError (code `no_tokens`) where a turn has no tokens, or not one finite log-probability each.
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
            mask_T=np.asarray(one.drawn, dtype=np.bool_),
            logprobs_T=np.asarray(one.logprobs, dtype=np.float32),
            advantage=advantage,
            reward=reward,
            staleness=staleness,
            overlong=overlong(trajectory),
        )
        for one in sequences
        if any(one.drawn)
    )
    turns = sum(isinstance(step, ModelTurn) for step in trajectory.steps)
    return RolloutRows(rows, clean=max(turns - 1 - forked, 0), forked=forked)


def overlong(trajectory: Trajectory) -> bool:
    """Whether an answer was cut at a limit of tokens, or the rollout at its limit of turns."""
    cut = any(isinstance(step, ModelTurn) and step.finish == "length" for step in trajectory.steps)
    return cut or (trajectory.failure is not None and trajectory.failure.code == "too_many_turns")


def reward_of(trajectory: Trajectory) -> float | None:
    """What a rollout is trained on: its reward; 0 where the model itself gave nothing to judge; None: not at all."""
    if trajectory.failure is not None and trajectory.failure.boundary == "output":
        return 0.0
    return trajectory.reward


def _sampled(trajectory: Trajectory) -> Iterator[SampledTokens]:
    for number, turn in enumerate((one for one in trajectory.steps if isinstance(one, ModelTurn)), start=1):
        tokens = turn.tokens
        if tokens is None:
            raise RolloutError(
                f"model turn {number} of rollout {trajectory.id!r} came without token ids and log-probabilities, so it"
                " cannot be trained on; sample with local:… or vllm:…, which send them",
                code="no_tokens",
            )
        if len(tokens.ids) != len(tokens.logprobs) or not all(map(math.isfinite, tokens.logprobs)):
            raise RolloutError(
                f"model turn {number} of rollout {trajectory.id!r} has {len(tokens.ids)} tokens and"
                f" {sum(map(math.isfinite, tokens.logprobs))} finite log-probabilities; each drawn token needs one",
                code="no_tokens",
            )
        yield tokens
