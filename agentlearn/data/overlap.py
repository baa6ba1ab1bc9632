"""Near-copies between two sets of problems.

The same text twice is easy; a copy with a few words changed is what spoils a held-out set unseen. Generated problems of
one family share their wording and differ in what is given, so two texts are near-copies only when numbers and names in
capitals agree too.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator

from agentlearn.types.task import Task

SHINGLE_WORDS = 8
SIMILAR = 0.6
"""Jaccard index of two texts' shingles from which they are near-copies; one word changed in the middle of forty."""

_WORD = re.compile(r"\w+")
_GIVEN = re.compile(r"\d+|\b[A-Z]{2,}\b")
_SPACE = re.compile(r"\s+|\$|\\[,;:! ]")


def overlaps(
    learned: Iterable[Task], held: Iterable[Task], key: Callable[[str], Hashable] = str
) -> Iterator[tuple[Task, Task]]:
    """Pairs (learned, held) of the same problem or of near-copies, in the order of `learned`.

    key: expected answers with different keys tell near-copies apart; the same text is the same problem whatever its
    answer.
    """
    layout = _Layout(key)
    for task in held:
        layout.add(task)
    for task in learned:
        if (copy_of := layout.copy_of(task)) is not None:
            yield task, copy_of


def near_copies(tasks: Iterable[Task], key: Callable[[str], Hashable] = str) -> int:
    """How many tasks are the same as an earlier one, or nearly."""
    layout, count = _Layout(key), 0
    for task in tasks:
        count += layout.copy_of(task) is not None
        layout.add(task)
    return count


class _Layout:
    """Tasks laid out by their shingles, so that a near-copy is found without looking at each."""

    def __init__(self, key: Callable[[str], Hashable]) -> None:
        self._key = key
        self._texts: dict[str, Task] = {}
        self._tasks: list[tuple[Task, _Marks]] = []
        # By what is given first: generated problems share nearly all of their wording, and seldom their numbers.
        self._with: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def add(self, task: Task) -> None:
        """Lay out one more."""
        marks = _Marks(task, self._key)
        self._texts.setdefault(plain_text(task.problem), task)
        for shingle in marks.shingles:
            self._with[marks.given, shingle].append(len(self._tasks))
        self._tasks.append((task, marks))

    def copy_of(self, task: Task) -> Task | None:
        """The same problem, or the first near-copy; None where there is none."""
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
    """The text without what a re-typesetting changes: case, white space, `$`, LaTeX spacing, compatibility forms."""
    return _SPACE.sub("", unicodedata.normalize("NFKC", problem)).casefold()


class _Marks:
    """What near-copies are told by."""

    __slots__ = ("answer", "given", "shingles")

    def __init__(self, task: Task, key: Callable[[str], Hashable]) -> None:
        words = _WORD.findall(task.problem.casefold())
        starts = range(max(1, len(words) - SHINGLE_WORDS + 1))
        self.shingles = frozenset(" ".join(words[at : at + SHINGLE_WORDS]) for at in starts)
        self.given = " ".join(sorted(_GIVEN.findall(task.problem)))
        self.answer = None if task.answer is None else key(task.answer)

    def copies(self, other: "_Marks", common: int) -> bool:
        """Whether two problems with the same givens are near-copies; common: how many shingles they share."""
        similar = common >= SIMILAR * (len(self.shingles) + len(other.shingles) - common)
        told_apart = self.answer is not None and other.answer is not None and self.answer != other.answer
        return similar and not told_apart
