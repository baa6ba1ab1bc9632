"""What the check must know beside the library, computed before it starts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from agentlearn.errors import ConfigError
from agentlearn.learn.lessons.curate.answer_search import AnswerSearch
from agentlearn.learn.lessons.curate.similarity import Shingle, shingles, words_line
from agentlearn.types.experience import LibraryLimits
from agentlearn.types.task import Task


@dataclass(frozen=True)
class CheckContext:
    """Limits, and what a lesson must not repeat. Sets throughout: no order in it can matter."""

    limits: LibraryLimits = field(default_factory=LibraryLimits)
    max_deletes: int = 3
    """Deletes in one batch."""
    max_merge_targets: int = 8
    """Experiences that one merge may replace, lest it be the way around `max_deletes`."""
    near_duplicate: float = 0.85
    """Lessons with at least this Jaccard likeness, 0..1, count as the same."""
    answers: frozenset[str] = frozenset()
    """Expected answers of the batch's tasks, as the domain writes them."""
    shingles: frozenset[Shingle] = frozenset()
    """Every run of eight words of the batch's problems."""
    seen: frozenset[str] = frozenset()
    """The pages that the batch read, each as `words_line` has it."""

    def __post_init__(self) -> None:
        if not 0 < self.near_duplicate <= 1:
            raise ConfigError(f"near_duplicate is {self.near_duplicate!r}; give a likeness above 0 and at most 1")
        if self.max_deletes < 0 or self.max_merge_targets < 2:
            raise ConfigError(
                f"max_deletes is {self.max_deletes!r} and max_merge_targets is {self.max_merge_targets!r};"
                " give at least 0 and at least 2"
            )

    @classmethod
    def of(
        cls,
        tasks: Iterable[Task],
        *,
        pages: Iterable[str] = (),
        limits: LibraryLimits | None = None,
        max_deletes: int = 3,
        max_merge_targets: int = 8,
        near_duplicate: float = 0.85,
    ) -> Self:
        """The context of a batch: its tasks' answers, and the words of its problems and of `pages` that it read."""
        batch = tuple(tasks)
        return cls(
            limits=limits or LibraryLimits(),
            max_deletes=max_deletes,
            max_merge_targets=max_merge_targets,
            near_duplicate=near_duplicate,
            answers=frozenset(task.answer for task in batch if task.answer is not None),
            shingles=frozenset[Shingle]().union(*(shingles(task.problem) for task in batch)),
            seen=frozenset(map(words_line, dict.fromkeys(pages))),
        )

    @cached_property
    def answer_search(self) -> AnswerSearch:
        """The answers, ready to be looked for."""
        return AnswerSearch.of(self.answers)
