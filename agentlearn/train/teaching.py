"""What the teacher reads: the lessons of a library, chosen and rendered for each task as in any rollout.

A rollout has only one of them, as the sampler's tokens. The other one is made from its text: the agent's instructions
are found in it, and lessons are put after them or taken away, as `Experiences` puts them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.serving.chat_request import ChatFormat
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import Library
from agentlearn.types.ids import TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import SampledTokens, Trajectory

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
