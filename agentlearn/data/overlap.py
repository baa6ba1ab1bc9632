"""Finding near-copies between two sets of problems.

A copy with a few words changed leaks a held-out problem without being noticed. Generated problems of one family share
their wording and differ in what is given, so two texts are near-copies only when their numbers and names in capitals
are equal too.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator

from agentlearn.types.task import Task

SHINGLE_WORDS = 8
SIMILAR = 0.6
"""Jaccard index of two texts' shingles from which they are near-copies: about one word in forty changed."""

_WORD = re.compile(r"\w+")
_GIVEN = re.compile(r"\d+|\b[A-Z]{2,}\b")
_SPACE = re.compile(r"\s+|\$|\\[,;:! ]")


def overlaps(
    learned: Iterable[Task], held: Iterable[Task], key: Callable[[str], Hashable] = str
) -> Iterator[tuple[Task, Task]]:
    """Yield pairs (learned, held) of equal problems or near-copies, in the order of `learned`.

    key: near-copies whose expected answers have different keys are different problems; equal texts are always the same
    problem.
    """
    layout = _Layout(key)
    for task in held:
        layout.add(task)
    for task in learned:
        if (copy_of := layout.copy_of(task)) is not None:
            yield task, copy_of


def near_copies(tasks: Iterable[Task], key: Callable[[str], Hashable] = str) -> int:
    """Return how many tasks equal an earlier task or nearly do."""
    layout, count = _Layout(key), 0
    for task in tasks:
        count += layout.copy_of(task) is not None
        layout.add(task)
    return count


class _Layout:
    """An index of tasks by shingles, which finds a near-copy without comparing all pairs."""

    def __init__(self, key: Callable[[str], Hashable]) -> None:
        self._key = key
        self._texts: dict[str, Task] = {}
        self._tasks: list[tuple[Task, _Marks]] = []
        # Indexed by the givens first: generated problems share nearly all their wording, but seldom their numbers.
        self._with: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def add(self, task: Task) -> None:
        """Add a task."""
        marks = _Marks(task, self._key)
        self._texts.setdefault(plain_text(task.problem), task)
        for shingle in marks.shingles:
            self._with[marks.given, shingle].append(len(self._tasks))
        self._tasks.append((task, marks))

    def copy_of(self, task: Task) -> Task | None:
        """Return the same problem, or the first near-copy; None when there is none."""
        if (same := self._texts.get(plain_text(task.problem))) is not None:
            return same
        marks = _Marks(task, self._key)
        shared = Counter(number for shingle in marks.shingles for number in self._with.get((marks.given, shingle), ()))
        for number in sorted(shared):
            other, theirs = self._tasks[number]
            if marks.copies(theirs, shared[number]):
                return other
        return None


def plain_text(problem: str) -> str:
    """Return the text without case, white space, `$`, LaTeX spacing and compatibility forms."""
    return _SPACE.sub("", unicodedata.normalize("NFKC", problem)).casefold()


class _Marks:
    """What near-copies are recognised by."""

    __slots__ = ("answer", "given", "shingles")

    def __init__(self, task: Task, key: Callable[[str], Hashable]) -> None:
        words = _WORD.findall(task.problem.casefold())
        starts = range(max(1, len(words) - SHINGLE_WORDS + 1))
        self.shingles = frozenset(" ".join(words[at : at + SHINGLE_WORDS]) for at in starts)
        self.given = " ".join(sorted(_GIVEN.findall(task.problem)))
        self.answer = None if task.answer is None else key(task.answer)

    def copies(self, other: "_Marks", common: int) -> bool:
        """Whether two problems with equal givens are near-copies. common: number of shingles they share."""
        similar = common >= SIMILAR * (len(self.shingles) + len(other.shingles) - common)
        told_apart = self.answer is not None and other.answer is not None and self.answer != other.answer
        return similar and not told_apart
