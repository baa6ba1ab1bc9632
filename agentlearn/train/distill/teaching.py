"""What the teacher reads: the lessons of a library, chosen and rendered for each task as in any rollout."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentlearn.errors import ConfigError
from agentlearn.library import LibraryStore
from agentlearn.library.capability import Experiences
from agentlearn.library.retrieval import Retriever
from agentlearn.train.distill.lesson_prompts import Codec, RolloutPrompts
from agentlearn.train.settings import TrainSettings
from agentlearn.types.experience import Library
from agentlearn.types.ids import TaskId
from agentlearn.types.task import Task
from agentlearn.types.trajectory import Trajectory


@dataclass(slots=True)
class Teaching:
    """The lessons that are distilled, and which rollouts are sampled with them."""

    library: Library
    settings: TrainSettings
    codec: Codec
    _experiences: Experiences = field(init=False)
    _blocks: dict[TaskId, str] = field(init=False, default_factory=dict[TaskId, str])
    """The block of advice of each task so far."""

    def __post_init__(self) -> None:
        retriever = Retriever.in_store(self.settings.retrieval, self.settings.store)
        self._experiences = Experiences(self.library, retrieval=retriever)

    def guides(self, g: int) -> bool:
        """Whether the g-th rollout of a group is sampled with the lessons. These are the last of each group."""
        size = self.settings.group_size
        return g >= size - round(self.settings.gradient.guided_share * size)

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
            f" {settings.domain}",
            code="no_lessons",
        )
    return library
