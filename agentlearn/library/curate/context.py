"""Inputs of the check besides the library: limits, and texts that a lesson must not repeat."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from agentlearn.config.options import LessonOptions
from agentlearn.errors import ConfigError
from agentlearn.library.curate.answer_search import AnswerSearch
from agentlearn.library.curate.similarity import COPIED_WORDS, Shingle, lower_case_words, shingles, words_line
from agentlearn.types.author import Author
from agentlearn.types.task import Task

_FEWEST_WORDS = 4
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FORMAT_WORDS = frozenset(
    {"decimal", "place", "places", "digit", "digits", "nearest", "modulo", "mod", "percent", "round"}
)


def _short_lines(problem: str) -> Iterable[str]:
    """The problem when it is short, and its short sentences with a number that do not only ask for a form."""
    if _FEWEST_WORDS <= len(lower_case_words(problem)) < COPIED_WORDS:
        yield words_line(problem)
    for sentence in _SENTENCE_END.split(problem):
        words = lower_case_words(sentence)
        if (
            _FEWEST_WORDS <= len(words) < COPIED_WORDS
            and any(map(str.isdigit, words))
            and not _FORMAT_WORDS & set(words)
        ):
            yield words_line(sentence)


@dataclass(frozen=True)
class CheckContext:
    """Limits of a batch, and the answers, problems, pages and reasons that its lessons must not repeat.

    All collections are sets, so the order of tasks, pages and reasons cannot matter.
    """

    options: LessonOptions = field(default_factory=LessonOptions)
    """Limits on deletes and on the library."""
    max_merge_targets: int = 8
    """Largest number of experiences that one merge may replace; else a merge could evade `max_deletes`."""
    near_duplicate: float = 0.85
    """Jaccard similarity of two lessons' words, 0..1, from which they count as the same."""
    answers: frozenset[str] = frozenset()
    """Expected answers of the batch's tasks, as the domain writes them."""
    shingles: frozenset[Shingle] = frozenset()
    """Every run of eight words in the batch's problems, and in what users said after them."""
    short_problems: frozenset[str] = frozenset()
    """Problems of four to seven words, and short sentences of problems with a number, as `words_line` returns them."""
    seen: frozenset[str] = frozenset()
    """Pages that the batch's rollouts read, each in the form that `words_line` returns."""
    reasons: frozenset[str] = frozenset()
    """Reasons of verdicts that the stages were shown, each in the form that `words_line` returns."""
    refused: frozenset[str] = frozenset()
    """Lessons that a person refused, as `refusal_key` returns them."""
    waived: frozenset[str] = frozenset()
    """Codes of rules that do not count, because a person set them aside. Only those of `codes.ACCEPTABLE` can be."""
    by_person: bool = False
    """Whether a person asks, and not a stage of a run."""
    strangers: tuple[Author, ...] = ()
    """The strangers whose text those who propose have read."""
    refused_authors: frozenset[Author] = frozenset()
    """The strangers behind lessons and versions that a person refused."""
    library: str = ""
    """Name of the library that is changed, which the ids of new lessons belong to."""

    def __post_init__(self) -> None:
        if not 0 < self.near_duplicate <= 1:
            raise ConfigError(f"near_duplicate is {self.near_duplicate!r}; give a similarity above 0 and at most 1")
        if self.max_merge_targets < 2:
            raise ConfigError(f"max_merge_targets is {self.max_merge_targets!r}; give at least 2")

    @classmethod
    def of(
        cls,
        tasks: Iterable[Task],
        *,
        pages: Iterable[str] = (),
        reasons: Iterable[str] = (),
        said: Iterable[str] = (),
        options: LessonOptions | None = None,
        refused: frozenset[str] = frozenset(),
        strangers: tuple[Author, ...] = (),
        refused_authors: frozenset[Author] = frozenset(),
        library: str = "",
    ) -> Self:
        """The context of a batch: its tasks, the pages that its rollouts read, and the reasons of their verdicts.

        said: what users said in its dialogues after the task.
        """
        batch = tuple(tasks)
        asked = dict.fromkeys((*(task.problem for task in batch), *said))
        return cls(
            options=options or LessonOptions(),
            answers=frozenset(task.answer for task in batch if task.answer is not None),
            shingles=frozenset[Shingle]().union(*map(shingles, asked)),
            short_problems=frozenset(line for text in asked for line in _short_lines(text)),
            refused=refused,
            strangers=strangers,
            refused_authors=refused_authors,
            library=library,
            seen=frozenset(map(words_line, dict.fromkeys(pages))),
            reasons=frozenset(words_line(reason) for reason in dict.fromkeys(reasons) if reason),
        )

    @cached_property
    def answer_search(self) -> AnswerSearch:
        """Patterns that find the answers in a lesson."""
        return AnswerSearch.of(self.answers)
