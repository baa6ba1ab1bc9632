"""Finding a near-duplicate among many lessons without comparing all pairs. It finds what `LessonWords.is_near` finds.

Two sets of words of which most are shared also share one of their first words, in any fixed order of all words. So it
is enough to compare lessons that share one of these few words.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import ceil

from agentlearn.library.curate.similarity import LessonWords

NEAR = 0.85
"""Jaccard similarity of two lessons' words from which they say nearly the same, as in `CheckContext`."""
_ROUNDING = 1e-9


class NearIndex:
    """Lessons by the words that decide whether another lesson can be near."""

    def __init__(self, texts: Iterable[str] = (), similarity: float = NEAR) -> None:
        """texts: what will be added and looked up; knowing their words makes that fast, and changes no result."""
        self.similarity = similarity
        self._lessons_with = Counter(word for text in texts for word in LessonWords.of(text).vocabulary)
        self._lessons: list[LessonWords] = []
        self._by_word: defaultdict[str, list[int]] = defaultdict(list)
        self._by_text: dict[str, int] = {}

    def add(self, lesson: str) -> None:
        """Add a lesson."""
        words, number = LessonWords.of(lesson), len(self._lessons)
        self._lessons.append(words)
        self._by_text.setdefault(words.normal, number)
        for word in self._deciding(words):
            self._by_word[word].append(number)

    def near(self, lesson: str) -> int | None:
        """The number of the first added lesson that is near this one; None when there is none."""
        words = LessonWords.of(lesson)
        if (same := self._by_text.get(words.normal)) is not None:
            return same
        return min(
            (at for at in self._candidates(words) if words.is_near(self._lessons[at], self.similarity)), default=None
        )

    def all_near(self, lesson: str) -> list[int]:
        """The numbers of all added lessons that are near this one, sorted."""
        words = LessonWords.of(lesson)
        found = {at for at in self._candidates(words) if words.is_near(self._lessons[at], self.similarity)}
        same = self._by_text.get(words.normal)
        return sorted(found if same is None else found | {same})

    def _candidates(self, words: LessonWords) -> set[int]:
        return {at for word in self._deciding(words) for at in self._by_word.get(word, ())}

    def _deciding(self, words: LessonWords) -> Iterator[str]:
        """The first words in order: those of few lessons first, then long words."""
        ordered = sorted(words.vocabulary, key=lambda word: (self._lessons_with[word], -len(word), word))
        kept = ceil(self.similarity * len(ordered) - _ROUNDING)
        return iter(ordered[: len(ordered) - kept + 1])
