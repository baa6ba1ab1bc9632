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
from agentlearn.train.distill.lesson_prompts import RolloutPrompts
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
    untaught: int = 0
    """Number of rows for which no teacher's prompt could be made."""


@dataclass(slots=True)
class _Sequence:
    """A row under construction."""

    first: SampledTokens | None = None
    """Its first answer."""
    ids: list[int] = field(default_factory=list[int])
    sampled: list[bool] = field(default_factory=list[bool])
    logprobs: list[float] = field(default_factory=list[float])

    def is_continued_by(self, prompt: Sequence[int]) -> bool:
        return len(prompt) >= len(self.ids) and list(prompt[: len(self.ids)]) == self.ids

    def append(self, turn: SampledTokens) -> None:
        self.first = self.first or turn
        given = turn.prompt[len(self.ids) :]
        self.ids += [*given, *turn.ids]
        self.sampled += [False] * len(given) + [True] * len(turn.ids)
        self.logprobs += [0.0] * len(given) + list(turn.logprobs)


def training_rows(
    trajectory: Trajectory,
    *,
    advantage: float,
    reward: float,
    staleness: int = 0,
    prompts: RolloutPrompts | None = None,
) -> RolloutRows:
    """Return the rows of a rollout, in the order of its turns.

    prompts: makes the prompts of student and teacher; None without distillation. A row for which they cannot be made
    has no teacher. If it was sampled with the lessons, it is left out, because the student must not read them.
    Raises RolloutError (code `no_tokens`) when a turn has no tokens, or a token no finite log-probability.
    """
    sequences, forked = [_Sequence()], 0
    for turn in _sampled(trajectory):
        if not sequences[-1].is_continued_by(turn.prompt):
            sequences.append(_Sequence())
            forked += 1
        sequences[-1].append(turn)
    rows = list[TrainingRow]()
    untaught = 0
    for one in sequences:
        if one.first is None or not any(one.sampled):
            continue
        row = TrainingRow(
            rollout=trajectory.id,
            ids_T=np.asarray(one.ids, dtype=np.int64),
            mask_T=np.asarray(one.sampled, dtype=np.bool_),
            logprobs_T=np.asarray(one.logprobs, dtype=np.float32),
            advantage=advantage,
            reward=reward,
            staleness=staleness,
            overlong=overlong(trajectory),
            guided=prompts is not None and prompts.guided,
        )
        pair = None if prompts is None else prompts.pair(one.first)
        untaught += prompts is not None and pair is None
        if pair is not None:
            rows.append(row.with_prompts(pair.student, pair.teacher, instead_of=len(one.first.prompt)))
        elif prompts is None or not prompts.guided:
            rows.append(row)
    turns = sum(isinstance(step, ModelTurn) for step in trajectory.steps)
    return RolloutRows(tuple(rows), clean=max(turns - 1 - forked, 0), forked=forked, untaught=untaught)


def overlong(trajectory: Trajectory) -> bool:
    """Whether an answer was cut at the limit of tokens, or the rollout at the limit of turns."""
    cut = any(isinstance(step, ModelTurn) and step.finish == "length" for step in trajectory.steps)
    return cut or (trajectory.failure is not None and trajectory.failure.code == "too_many_turns")


def _sampled(trajectory: Trajectory) -> Iterator[SampledTokens]:
    """Yield the sampled tokens of each answer, each with the instructions in its prompt."""
    instructions = ""
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
        instructions = tokens.instructions or instructions
        yield tokens if tokens.instructions else tokens.model_copy(update={"instructions": instructions})
