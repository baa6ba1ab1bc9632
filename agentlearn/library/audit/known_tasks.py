"""What a lesson may have taken from given tasks: an answer, eight words in a row, or most of a wording. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from agentlearn.library.curate.context import CheckContext
from agentlearn.library.curate.similarity import lower_case_words, shingles, words_line
from agentlearn.types.task import Task

_RUN = 3
_NEAR_COPY = 0.5
"""Share of a lesson's runs of three words that one task holds, from which it is a near-copy."""
_FEWEST_RUNS = 4
_NUMBER = re.compile(r"\d+")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class KnownTasks:
    """Tasks that lessons must not repeat, prepared for the search."""

    context: CheckContext = field(default_factory=CheckContext)
    runs: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict[tuple[str, ...], tuple[int, ...]])
    """The tasks that hold each run of three words, numbers left out of account."""
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> Self:
        """Prepare these tasks."""
        given = tuple(tasks)
        found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, task in enumerate(given):
            for run in _runs(task.problem):
                found[run].append(number)
        runs = {run: tuple(numbers) for run, numbers in found.items()}
        return cls(CheckContext.of(given), runs, tuple(task.problem for task in given))

    @property
    def answers(self) -> frozenset[str]:
        """The expected answers."""
        return self.context.answers

    def holds_answer(self, lesson: str) -> bool:
        """Whether the lesson holds an expected answer that hardly occurs by chance."""
        return self.context.answer_search.found(lesson) == "distinctive"

    def copied_words(self, lesson: str) -> str:
        """Words in a row that a task holds too: eight, or a whole short problem. Empty when there are none."""
        if copied := shingles(lesson) & self.context.shingles:
            return " ".join(min(copied))
        line = words_line(lesson)
        return next((one.strip() for one in sorted(self.context.short_problems) if one in line), "")

    def near_copy(self, lesson: str) -> str:
        """The start of a problem that holds most of the lesson's wording; empty when there is none."""
        runs = _runs(lesson)
        if len(runs) < _FEWEST_RUNS:
            return ""
        shared: defaultdict[int, int] = defaultdict(int)
        for run in runs:
            for number in self.runs.get(run, ()):
                shared[number] += 1
        most = max(shared, key=lambda number: (shared[number], -number), default=None)
        if most is None or shared[most] < _NEAR_COPY * len(runs):
            return ""
        return self.problems[most][:_SHOWN]


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    """Every run of three words, with one sign for all numbers."""
    words = tuple("#" if _NUMBER.fullmatch(word) else word for word in lower_case_words(text))
    return frozenset(words[start : start + _RUN] for start in range(len(words) - _RUN + 1))
