"""Comparing texts by their words, ignoring case, character width and punctuation.

Two sets of words of which most are shared also share two of their first words, in any fixed order of all words. So it
is enough to compare lessons that share such a pair (the prefix filter of set similarity joins).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil

from agentlearn.types.ranking import lower_case_words, single_spaced

COPIED_WORDS = 8
"""A run of this many equal words is a copy."""
FEWEST_COPIED_WORDS = 5
"""A lesson of fewer words is not a copy of a reason: so short a hint has hardly another wording."""

SAME_LESSON = 0.6
"""Jaccard similarity of two lessons' words, 0..1, from which one of unknown origin counts as a copy of the other."""

Shingle = tuple[str, ...]
"""A run of `COPIED_WORDS` words."""


def words_line(text: str) -> str:
    """The words of a text with one space before, between and after them, so that any run of words is a substring."""
    return f" {' '.join(lower_case_words(text))} "


def refusal_key(text: str) -> str:
    """The words of a lesson, the same for texts that differ in case, spaces and punctuation only."""
    return words_line(text).strip()


def word_runs(text: str) -> tuple[str, ...]:
    """Every run of eight words in the form that `words_line` returns; all words as one run when there are fewer."""
    listed = lower_case_words(text)
    starts = range(max(len(listed) - COPIED_WORDS, 0) + 1)
    return tuple(f" {' '.join(listed[start : start + COPIED_WORDS])} " for start in starts)


def shingles(text: str) -> frozenset[Shingle]:
    """Every run of eight words; empty for a shorter text."""
    listed = lower_case_words(text)
    return frozenset(listed[start : start + COPIED_WORDS] for start in range(len(listed) - COPIED_WORDS + 1))


@dataclass(frozen=True, slots=True)
class LessonWords:
    """A lesson's text, prepared for comparisons."""

    text: str
    normal: str
    """The text as `single_spaced` returns it."""
    vocabulary: frozenset[str]
    """Its different words in lower case."""

    @classmethod
    @lru_cache(maxsize=16_384)  # the same library is compared with every group's proposals
    def of(cls, text: str) -> "LessonWords":
        """The prepared text; cached."""
        return cls(text=text, normal=single_spaced(text), vocabulary=frozenset(lower_case_words(text)))

    def is_near(self, other: "LessonWords", similarity: float) -> bool:
        """Whether the vocabularies' Jaccard similarity is at least `similarity`, or the texts are the same."""
        if self.normal == other.normal:
            return True
        fewer, more = sorted((len(self.vocabulary), len(other.vocabulary)))
        if fewer < similarity * more:  # decides most pairs without comparing words
            return False
        shared = len(self.vocabulary & other.vocabulary)
        return shared >= similarity * (fewer + more - shared)

    def similarity_to(self, other: "LessonWords") -> float:
        """The share of their words that two texts have in common; 1 for the same text."""
        either = self.vocabulary | other.vocabulary
        return (
            1.0 if self.normal == other.normal or not either else len(self.vocabulary & other.vocabulary) / len(either)
        )


NEAR = 0.85
"""Jaccard similarity of two lessons' words from which they say nearly the same, as in `CheckContext`."""
_ROUNDING, _HALF = 1e-9, 0.5


class NearIndex:
    """Lessons by the words that decide whether another lesson can be near."""

    def __init__(self, texts: Iterable[str] = (), similarity: float = NEAR) -> None:
        """texts: what will be added and looked up; knowing their words makes that fast, and changes no result."""
        self.similarity = similarity
        self._lessons_with = Counter(word for text in texts for word in LessonWords.of(text).vocabulary)
        self._lessons: list[LessonWords] = []
        self._by_words: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        self._by_text: dict[str, int] = {}

    def add(self, lesson: str) -> None:
        """Add a lesson."""
        words, number = LessonWords.of(lesson), len(self._lessons)
        self._lessons.append(words)
        self._by_text.setdefault(words.normal, number)
        for key in self._deciding(words):
            self._by_words[key].append(number)

    def near(self, lesson: str) -> int | None:
        """The number of the first added lesson that is near this one; None when there is none."""
        words = LessonWords.of(lesson)
        if (same := self._by_text.get(words.normal)) is not None:
            return same
        near = (at for at in sorted(self._candidates(words)) if words.is_near(self._lessons[at], self.similarity))
        return next(near, None)

    def all_near(self, lesson: str) -> list[int]:
        """The numbers of all added lessons that are near this one, sorted."""
        words = LessonWords.of(lesson)
        found = {at for at in self._candidates(words) if words.is_near(self._lessons[at], self.similarity)}
        same = self._by_text.get(words.normal)
        return sorted(found if same is None else found | {same})

    def _candidates(self, words: LessonWords) -> set[int]:
        return {at for key in self._deciding(words) for at in self._by_words.get(key, ())}

    def _deciding(self, words: LessonWords) -> Iterator[tuple[str, ...]]:
        """Pairs of the first words in order: those of few lessons first, then long words.

        Lessons that share one word alone can only be near when that is all that one of them has, or half is enough.
        """
        ordered = sorted(words.vocabulary, key=lambda word: (self._lessons_with[word], -len(word), word))
        kept = ceil(self.similarity * len(ordered) - _ROUNDING)
        size = 1 if len(ordered) == 1 or self.similarity <= _HALF else 2
        return combinations(ordered[: len(ordered) - kept + size], size)
