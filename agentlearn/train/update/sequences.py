"""Training rows from trajectories, made of the sampler's own tokens, and what the teacher of a distillation reads.

No text is encoded again. Turns whose prompt continues the tokens before it share one row, in which instructions and
tool results are not trained. A turn whose prompt differs, for example because a template renders history in another
way, starts a new row (a fork). So every sampled token is trained exactly once, after exactly the tokens it was sampled
after.

The teacher reads the lessons of a library, chosen and rendered for each task as in any rollout. A rollout has only one
of the two prompts, as the sampler's tokens. The other one is made from its text: the agent's instructions are found in
it, and lessons are put after them or taken away, as `Experiences` puts them.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentlearn.errors import ConfigError, RolloutError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.serving.chat_request import ChatFormat
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import Library
from agentlearn.types.ids import RolloutId, TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import ModelTurn, SampledTokens, Trajectory

_BETWEEN = "\n\n"
"""What pydantic-ai puts between the instructions of an agent and those of its capabilities."""


class PromptPair(NamedTuple):
    """One prompt in tokens, as the student and as the teacher reads it."""

    student: tuple[int, ...]
    teacher: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RolloutPrompts:
    """Makes both prompts of the answers of one rollout."""

    codec: ChatFormat
    lessons: str
    """The block of advice that the teacher reads for the rollout's task."""
    guided: bool = False
    """Whether the rollout was sampled with it."""

    def pair(self, turn: SampledTokens) -> PromptPair | None:
        """Return both prompts of an answer; None when the other one cannot be made.

        That is so where the agent has no instructions or its template changes them, and where the tokens of the prompt
        are not those of its text.
        """
        instructions, lessons = turn.instructions.strip(), self.lessons.strip()
        bare = instructions.removesuffix(f"{_BETWEEN}{lessons}") if self.guided else instructions
        if not bare or (self.guided and bare == instructions):
            return None
        text = self.codec.decode(turn.prompt)
        at = text.find(instructions)
        if at < 0 or self.codec.encode(text) != list(turn.prompt):
            return None
        other = bare if self.guided else f"{bare}{_BETWEEN}{lessons}"
        made = tuple(self.codec.encode(text[:at] + other + text[at + len(instructions) :]))
        return PromptPair(made, turn.prompt) if self.guided else PromptPair(turn.prompt, made)


@dataclass(slots=True)
class Teaching:
    """The lessons that are distilled, and which rollouts are sampled with them."""

    library: Library
    settings: TrainSettings
    codec: ChatFormat
    _experiences: Experiences = field(init=False)
    _blocks: dict[TaskId, str] = field(init=False, default_factory=dict[TaskId, str])
    """The block of advice of each task so far."""

    def __post_init__(self) -> None:
        retriever = Retriever.in_store(self.settings.retrieval, self.settings.store)
        self._experiences = Experiences(self.library, retrieval=retriever)

    def guides(self, g: int) -> bool:
        """Whether the g-th rollout of a group is sampled with the lessons. These are the last of each group."""
        size = self.settings.group_size
        return g >= size - round(self.settings.gradient.distillation.guided_share * size)

    async def read(self, tasks: Iterable[Task]) -> None:
        """Choose the lessons of these tasks."""
        for task in tasks:
            if task.id not in self._blocks:
                shown = await self._experiences.for_query(task.problem)
                self._blocks[task.id] = shown.get_instructions() or ""

    def prompts(self, trajectory: Trajectory) -> RolloutPrompts:
        """What makes both prompts of a rollout, whose task has been read."""
        return RolloutPrompts(self.codec, self._blocks[trajectory.task], guided=self.guided(trajectory))

    def guided(self, trajectory: Trajectory) -> bool:
        """Whether a rollout was sampled with the lessons."""
        return trajectory.treatment.library == self.library.version


def library_to_distil(settings: TrainSettings, libraries: LibraryStore) -> Library | None:
    """Return the library whose lessons are distilled; None without distillation.

    Raises LibraryError for one that cannot be read, and ConfigError for one without lessons.
    """
    if not settings.distils:
        return None
    library = libraries.load(settings.distill)
    if not len(library):
        raise ConfigError(
            f"the library {settings.distill!r} has no lessons to distil; learn some first: agentlearn learn"
            f" {settings.domain}"
        )
    return library


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
    number: int = 0
    """Number of the row in its batch, which `canonical_order` gives."""

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
    Raises RolloutError when a turn has no tokens, or a token no finite log-probability.
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
                " be trained on; sample with local:… or vllm:…, which send them"
            )
        if len(tokens.ids) != len(tokens.logprobs) or not all(map(math.isfinite, tokens.logprobs)):
            raise RolloutError(
                f"model turn {number} of rollout {trajectory.id!r} has {len(tokens.ids)} tokens and"
                f" {sum(map(math.isfinite, tokens.logprobs))} finite log-probabilities; each sampled token needs one"
            )
        instructions = tokens.instructions or instructions
        yield tokens if tokens.instructions else tokens.model_copy(update={"instructions": instructions})
