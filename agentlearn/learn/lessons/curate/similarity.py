"""Words as the rules compare them: without case, width and punctuation."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

# Scripts that write no spaces: each character counts as a word.
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+(?:['’][^\W_{_UNSPACED}]+)*")
COPIED_WORDS = 8
"""A run of this many words is a copy."""

Shingle = tuple[str, ...]


def normal(text: str) -> str:
    """The text with compatibility characters (full-width letters, odd spaces) made common and spaces made single."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def words(text: str) -> tuple[str, ...]:
    """Its words in order, in lower case."""
    return tuple(_WORD.findall(normal(text).casefold()))


def words_line(text: str) -> str:
    """Its words with one space before, between and after them, so that a run of words is a part of this text."""
    return f" {' '.join(words(text))} "


def runs(text: str) -> tuple[str, ...]:
    """Every run of eight words as `words_line` has it; of a shorter text, all of its words as one run."""
    listed = words(text)
    starts = range(max(len(listed) - COPIED_WORDS, 0) + 1)
    return tuple(f" {' '.join(listed[start : start + COPIED_WORDS])} " for start in starts)


def shingles(text: str) -> frozenset[Shingle]:
    """Every run of eight words; none for a shorter text."""
    listed = words(text)
    return frozenset(listed[start : start + COPIED_WORDS] for start in range(len(listed) - COPIED_WORDS + 1))


@dataclass(frozen=True, slots=True)
class LessonWords:
    """A lesson's text and what comparing it takes."""

    text: str
    normal: str
    vocabulary: frozenset[str]

    @classmethod
    @lru_cache(maxsize=16_384)  # one library is compared again and again, with every group's proposals
    def of(cls, text: str) -> "LessonWords":
        return cls(text=text, normal=normal(text), vocabulary=frozenset(words(text)))

    def is_near(self, other: "LessonWords", likeness: float) -> bool:
        """Whether at least this share, 0..1, of their words is used by both (Jaccard), or their texts are the same."""
        if self.normal == other.normal:
            return True
        fewer, more = sorted((len(self.vocabulary), len(other.vocabulary)))
        if fewer < likeness * more:  # most pairs end here, without comparing words
            return False
        shared = len(self.vocabulary & other.vocabulary)
        return shared >= likeness * (fewer + more - shared)
