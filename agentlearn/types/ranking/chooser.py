"""The choice of the lessons that an agent is shown."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

from agentlearn.text import estimated_tokens
from agentlearn.types.ids import ExperienceId
from agentlearn.types.ranking.reciprocal_rank import fused
from agentlearn.types.ranking.retrieval import Retrieval
from agentlearn.types.ranking.term_index import TermIndex
from agentlearn.types.ranking.text_words import search_words

_FUSED = 50
"""The smallest number of places that count in each ranking."""
_REPEATED = 0.4
"""A lesson repeats another one when they have more than this share of their words in common."""
_MOST_INDEXES = 16
"""Number of indexes that are kept in memory."""


class Tagged(Protocol):
    """A lesson, as retrieval sees it."""

    @property
    def id(self) -> ExperienceId:
        """The permanent id."""
        ...

    @property
    def lesson(self) -> str:
        """The lesson in words."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags."""
        ...


@dataclass(frozen=True, slots=True)
class RankedLesson:
    """A lesson in the ranking for one query."""

    lesson: ExperienceId
    rank: int
    """From 1."""
    score: float
    """The reciprocal ranks in both rankings added up; by words alone, the score of the words. 0: nothing matches."""
    word_rank: int | None = None
    """Its rank by words alone; None where it shares no telling word with the query."""
    embedding_rank: int | None = None
    """Its rank by embeddings alone; None without embeddings, and below the first ranks."""


@dataclass(frozen=True, slots=True)
class ChosenLessons:
    """The lessons that retrieval chose for one query."""

    lessons: tuple[ExperienceId, ...] | None
    """The chosen lessons in library order, masked ones included; None: all lessons of the version."""
    ranked: tuple[RankedLesson, ...] = ()
    """The chosen lessons, best first; empty where nothing had to be ranked."""
    note: str = ""
    """Why embeddings were not used although an embedder is configured; else empty."""


EVERYTHING = ChosenLessons(None)
"""Every lesson is shown."""


class LessonIndex:
    """The lessons of one version that may be shown, prepared for queries. The index of words is built when needed."""

    def __init__(self, lessons: Sequence[Tagged], *, whole: bool) -> None:
        self.lessons = lessons
        self.whole = whole
        """Whether these are all lessons of the version."""

    @cached_property
    def tokens(self) -> tuple[int, ...]:
        """The estimated tokens of each lesson."""
        return tuple(estimated_tokens(one.lesson) for one in self.lessons)

    @cached_property
    def total_tokens(self) -> int:
        """The estimated tokens of all lessons."""
        return sum(self.tokens)

    @cached_property
    def words(self) -> TermIndex:
        """The index of their words."""
        return TermIndex([one.lesson for one in self.lessons])

    def shows_all(self, retrieval: Retrieval) -> bool:
        """Whether every lesson is shown whatever the query is."""
        return not retrieval.shown_lessons or self.total_tokens <= retrieval.max_shown_tokens

    def all(self, without: Collection[ExperienceId] = ()) -> ChosenLessons:
        """The choice of every lesson but those of `without`."""
        if self.whole and not without:
            return EVERYTHING
        return ChosenLessons(tuple(one.id for one in self.lessons if one.id not in without))

    def choose(
        self,
        query: str,
        retrieval: Retrieval,
        *,
        nearest: Sequence[int] = (),
        without: Collection[ExperienceId] = (),
        note: str = "",
    ) -> ChosenLessons:
        """The lessons to show for a query: all where they are few, else those that fit it best.

        nearest: the ranking by embeddings, as places in `lessons`; empty without one. without: lessons that are not to
        be chosen. Where fewer lessons match the query than may be shown, the first ones of the library follow.
        """
        if self.shows_all(retrieval):
            return self.all(without)
        depth = fused_depth(retrieval) + len(without)
        by_words = self.words.ranked(query, depth)
        ranking = fused([[place for place, _ in by_words], nearest]) if nearest else by_words
        ranking = [one for one in ranking if self.lessons[one[0]].id not in without]
        word_ranks = {place: rank for rank, (place, _) in enumerate(by_words, start=1)}
        near_ranks = {place: rank for rank, place in enumerate(nearest, start=1)}
        shown = self._first(ranking, retrieval, without)
        ranked = tuple(
            RankedLesson(self.lessons[place].id, rank, score, word_ranks.get(place), near_ranks.get(place))
            for rank, (place, score) in enumerate(shown, start=1)
        )
        return ChosenLessons(
            tuple(self.lessons[place].id for place in sorted(place for place, _ in shown)), ranked, note
        )

    def _first(
        self, ranking: Sequence[tuple[int, float]], retrieval: Retrieval, without: Collection[ExperienceId]
    ) -> list[tuple[int, float]]:
        """The lessons to show, best first: as many as are asked for, and no more tokens than may be shown.

        The best lesson is shown even if it alone has more tokens.
        """
        found: list[tuple[int, float]] = []
        tokens = 0
        apart = self._apart(ranking, retrieval.shown_lessons)
        for place, score in (*apart, *self._others(ranking, retrieval, without)):
            tokens += self.tokens[place]
            if found and (len(found) >= retrieval.shown_lessons or tokens > retrieval.max_shown_tokens):
                break
            found.append((place, score))
        return found

    def _apart(self, ranking: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
        """The ranking with lessons that repeat a better one after the others, without an end that is not needed."""
        apart, repeated = list[tuple[int, float]](), list[tuple[int, float]]()
        for one in ranking:
            if len(apart) == most:
                break
            words = _words_of(self.lessons[one[0]].lesson)
            near = any(_shared(words, _words_of(self.lessons[place].lesson)) > _REPEATED for place, _ in apart)
            (repeated if near else apart).append(one)
        return [*apart, *repeated]

    def _others(
        self, ranking: Sequence[tuple[int, float]], retrieval: Retrieval, without: Collection[ExperienceId]
    ) -> list[tuple[int, float]]:
        """The first lessons of the library that are not in the ranking, as many as may be needed."""
        had = {place for place, _ in ranking}
        others: list[tuple[int, float]] = []
        for place, one in enumerate(self.lessons):
            if len(ranking) + len(others) >= retrieval.shown_lessons:
                break
            if place not in had and one.id not in without:
                others.append((place, 0.0))
        return others


@lru_cache(maxsize=16_384)
def _words_of(lesson: str) -> frozenset[str]:
    return frozenset(search_words(lesson))


def _shared(first: frozenset[str], second: frozenset[str]) -> float:
    """The share of their words that two lessons have in common."""
    return len(first & second) / len(first | second) if first or second else 1.0


def fused_depth(retrieval: Retrieval) -> int:
    """How many places of each ranking count."""
    return max(_FUSED, 4 * retrieval.shown_lessons)


def shown_part(lessons: Sequence[Tagged], retrieval: Retrieval) -> Sequence[Tagged]:
    """The lessons that pass the filters by tag and domain. The same object where all do."""
    tags, domains = frozenset(retrieval.tags), frozenset(retrieval.domains)
    passed = [
        one
        for one in lessons
        if (not tags or tags.intersection(one.tags)) and (not domains or domains.intersection(one.tags))
    ]
    return lessons if len(passed) == len(lessons) else passed


_Key = tuple[int, tuple[str, ...], tuple[str, ...]]
_kept: OrderedDict[_Key, tuple[Sequence[Tagged], LessonIndex]] = OrderedDict()
_lock = threading.Lock()


def lesson_index(lessons: Sequence[Tagged], retrieval: Retrieval) -> LessonIndex:
    """The index of the lessons of a version that pass the filters, built once as long as these lessons are in use."""
    key = (id(lessons), retrieval.tags, retrieval.domains)
    with _lock:
        held = _kept.get(key)
        if held is not None and held[0] is lessons:  # another library may have got the id of one that is gone
            _kept.move_to_end(key)
            return held[1]
        part = shown_part(lessons, retrieval)
        index = LessonIndex(part, whole=part is lessons)
        _kept[key] = (lessons, index)
        _kept.move_to_end(key)
        while len(_kept) > _MOST_INDEXES:
            _kept.popitem(last=False)
        return index


def shown_tokens(lessons: Sequence[Tagged], retrieval: Retrieval) -> int:
    """The estimated tokens of the lessons that one prompt shows; where they are chosen, those of average length."""
    index = lesson_index(lessons, retrieval)
    if index.shows_all(retrieval):
        return index.total_tokens
    mean = index.total_tokens / len(index.lessons)
    return min(retrieval.max_shown_tokens, round(mean * min(retrieval.shown_lessons, len(index.lessons))))
