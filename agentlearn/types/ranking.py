"""Which lessons fit a task, by their words: an index of words, ranks, and the choice of the lessons to show. Pure.

It needs no other package, so that `Library.render(query=…)` works in every install. `agentlearn.library.retrieval` adds
embeddings.

The weight of a word in a text does not depend on the query, so it is computed once. A query adds the weights of its
words, the most telling word first, and stops to look at further texts as soon as none of them can enter the ranking.
"""

import re
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import nlargest, nsmallest
from itertools import accumulate
from math import log

from pydantic import Field

from agentlearn.text import IDEOGRAPHS, estimated_tokens, plain
from agentlearn.types.ids import ExperienceId
from agentlearn.types.rendering import Labelled
from agentlearn.types.value import Value

_RANK_OFFSET = 60
"""The larger, the less the first few places of one ranking count against agreement of several."""


def fused(rankings: Sequence[Sequence[int]], names: Sequence[str]) -> list[tuple[int, float]]:
    """Everything that is in a ranking, best first, with its score: the sum of 1 / (60 + rank), ranks counted from 1.

    Of equal scores, the smaller name comes first. Source: Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, place in enumerate(ranking, start=1):
            scores[place] += 1 / (_RANK_OFFSET + rank)
    return sorted(scores.items(), key=lambda one: (-round(one[1], 12), names[one[0]]))


_DEFAULT_SHOWN_TOKENS = 4_000
_DEFAULT_SHOWN_LESSONS = 8


class Retrieval(Value):
    """Which lessons of a library an agent is shown, where they may be too many to show all."""

    max_shown_tokens: int = Field(default=_DEFAULT_SHOWN_TOKENS, ge=1)
    """All lessons are shown while they have at most this many tokens; above that, those that fit the task."""
    shown_lessons: int = Field(default=_DEFAULT_SHOWN_LESSONS, ge=0, le=1_000)
    """The largest number of lessons to show of a library above that size; 0: always show all."""
    embedder: str | None = None
    """The embedding model, such as `openai:text-embedding-3-small`; None: lessons are chosen by their words alone."""
    tags: tuple[str, ...] = ()
    """Show only lessons that have one of these tags; none given: all lessons."""
    domains: tuple[str, ...] = ()
    """Show only lessons that have the name of one of these domains among their tags; none given: all lessons."""

    @property
    def fused_depth(self) -> int:
        """How many places of each ranking count."""
        return max(_FUSED, 4 * self.shown_lessons)


_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\W_{IDEOGRAPHS}]+(?:['’][^\W_{IDEOGRAPHS}]+)*")

_SAYS_NOTHING = frozenset(
    (
        *("a", "all", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does"),
        *("each", "every", "find", "for", "from", "had", "has", "have", "he", "her", "his", "how", "if"),
        *("in", "into", "is", "it", "its", "let", "many", "may", "much", "must", "no", "not", "of", "on"),
        *("one", "or", "our", "over", "she", "so", "some", "than", "that", "the", "their", "them", "then"),
        *("there", "these", "they", "this", "those", "to", "two", "under", "until", "up", "us", "was", "we"),
        *("were", "what", "when", "where", "whenever", "which", "who", "whom", "whose", "why", "will"),
        *("with", "would", "you", "your"),
    )
)
"""English words that say nothing about what a text is about. Measured: docs/decisions/0030."""

_LEAST_BEGINNING = 4
"""Letters that two words must begin with to be one word with two endings."""
_LONGEST_OWN = 2
"""Letters that the shorter of them may have behind their common beginning."""

MAX_QUERY_CHARACTERS = 16_000
"""A longer query is cut to this length: its beginning and its end."""


def single_spaced(text: str) -> str:
    """The text as `plain` returns it, with single spaces."""
    return " ".join(plain(text).split())


def lower_case_words(text: str) -> tuple[str, ...]:
    """The words of a text in order, in lower case."""
    return tuple(_WORD.findall(single_spaced(text).casefold()))


def search_words(text: str) -> tuple[str, ...]:
    """The words by which a text is found, in order: without words that say nothing, and numbers below 100."""
    words = lower_case_words(text)
    return tuple(one for one in words if one not in _SAYS_NOTHING and not (len(one) < 3 and one.isdigit()))


def capped_query(query: str) -> str:
    """The query, or the beginning and the end of one that is longer than `MAX_QUERY_CHARACTERS`.

    Both ends are kept, because a long prompt states the task before or after the material that it is about.
    """
    if len(query) <= MAX_QUERY_CHARACTERS:
        return query
    half = MAX_QUERY_CHARACTERS // 2
    return f"{query[:half]}\n{query[-half:]}"


K1 = 1.2
"""How much a second occurrence of a word in a text counts."""
B = 0.75
"""How much the length of a text counts."""
_MOST_TERMS = 64
"""The largest number of words of a query that are used: those that can count most."""
_FEWEST_COMMON = 10
"""In few texts, a word that many of them hold still tells something."""
SMALL = 256
"""A list of so few texts is added without asking whether it has to be."""
_MARGIN = 1e-6
"""Larger than the rounding error of a sum of weights."""
_DIGITS = 9
"""Digits to which sums of weights are rounded, so that the order of texts is the same on every platform."""


class TermIndex:
    """An index of texts by their words.

    A word that more than half of the texts hold is left out, in any language: it does not tell them apart.
    """

    def __init__(self, texts: Sequence[str], names: Sequence[str]) -> None:
        """names: which text comes first where two are equally good, in every version that has both."""
        self.size, self._names = len(texts), names
        held = [Counter(search_words(text)) for text in texts]
        self.postings: Mapping[str, Mapping[int, float]] = _weighted(held)
        self._bounds = {word: max(weights.values()) for word, weights in self.postings.items()}
        self._sorted = sorted(self.postings)

    def ranked(self, query: str, depth: int) -> list[tuple[int, float]]:
        """The texts that share a word with the query, best first: place of the text, and its score.

        depth: the largest number of texts to return. Texts of equal score are in the order of their names.
        """
        asked = set(search_words(capped_query(query)))
        known = asked & self.postings.keys()
        if not known:
            known.update(other for word in asked for other in self._beginnings(word))
        words = nsmallest(_MOST_TERMS, known, key=lambda word: (-self._bounds[word], word))
        scores = self._scores(words, depth)
        lowest = _lowest_of_best(scores, depth) - _MARGIN
        rounded = ((place, round(score, _DIGITS)) for place, score in scores.items() if score >= lowest)
        return sorted(rounded, key=lambda one: (-one[1], self._names[one[0]]))[:depth]

    def _beginnings(self, word: str) -> Iterator[str]:
        """Yield the words of the texts that begin as a word does and differ in their ending."""
        least = _LEAST_BEGINNING if word < "\u1100" else 2  # one letter of Korean is a syllable
        for other in self._sorted[bisect_left(self._sorted, word[:least]) :]:
            if len(word) < least or not other.startswith(word[:least]):
                break
            if other.startswith(word[: min(len(word), len(other)) - _LONGEST_OWN]):
                yield other

    def _scores(self, words: Sequence[str], depth: int) -> dict[int, float]:
        """The sums of the weights of these words, of every text that may be among the `depth` best."""
        scores: defaultdict[int, float] = defaultdict(float)
        left = list(accumulate(reversed([self._bounds[word] for word in words])))[::-1]
        for number, word in enumerate(words):
            weights = self.postings[word]
            if len(weights) > SMALL and len(scores) >= depth and max(scores.values()) > left[number]:
                lowest = _lowest_of_best(scores, depth)
                if left[number] < lowest - _MARGIN:
                    return self._completed(scores, words[number:], lowest - left[number] - _MARGIN)
            for place, weight in weights.items():
                scores[place] += weight
        return scores

    def _completed(self, scores: Mapping[int, float], words: Sequence[str], lowest: float) -> dict[int, float]:
        """The sums with the weights of the last words, of the texts that have at least the score `lowest` so far."""
        found = {place: score for place, score in scores.items() if score >= lowest}
        for word in words:
            weights = self.postings[word]
            for place in found.keys() & weights.keys() if len(weights) < len(found) else found:
                if (weight := weights.get(place)) is not None:
                    found[place] += weight
        return found


def _lowest_of_best(scores: Mapping[int, float], depth: int) -> float:
    """The lowest of the `depth` best scores; 0 where there are fewer."""
    return nlargest(depth, scores.values())[-1] if len(scores) >= depth else 0.0


def _weighted(held: Sequence[Mapping[str, int]]) -> dict[str, dict[int, float]]:
    """The weight of each word in each text that holds it."""
    found: defaultdict[str, dict[int, float]] = defaultdict(dict)
    lengths = [sum(counts.values()) for counts in held]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    for place, counts in enumerate(held):
        for word, count in counts.items():
            found[word][place] = count
    most = max(_FEWEST_COMMON, len(held) // 2)
    common = [word for word, places in found.items() if len(places) > most]
    for word in common:
        del found[word]
    norms = [K1 * (1 - B + B * length / mean) for length in lengths]
    for places in found.values():
        rarity = log(1 + (len(held) - len(places) + 0.5) / (len(places) + 0.5))
        for place, count in places.items():
            places[place] = rarity * count * (K1 + 1) / (count + norms[place])
    return dict(found)


_FUSED = 50
"""The smallest number of places that count in each ranking."""
_REPEATED = 0.4
"""A lesson repeats another one when they have more than this share of their words in common."""
_MOST_INDEXES = 16
"""Number of indexes that are kept in memory."""


@dataclass(frozen=True, slots=True)
class _RankedLesson:
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
    ranked: tuple[_RankedLesson, ...] = ()
    """The chosen lessons, best first; empty where nothing had to be ranked."""
    note: str = ""
    """Why embeddings were not used although an embedder is configured; else empty."""


EVERYTHING = ChosenLessons(None)
"""Every lesson is shown."""


class LessonIndex:
    """The lessons of one version that may be shown, prepared for queries. The index of words is built when needed."""

    def __init__(self, lessons: Sequence[Labelled], *, whole: bool) -> None:
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
    def _ids(self) -> tuple[ExperienceId, ...]:
        return tuple(one.id for one in self.lessons)

    @cached_property
    def words(self) -> TermIndex:
        """The index of their words."""
        return TermIndex([one.lesson for one in self.lessons], self._ids)

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
        depth = retrieval.fused_depth + len(without)
        by_words = self.words.ranked(query, depth)
        ranking = fused([[place for place, _ in by_words], nearest], self._ids) if nearest else by_words
        ranking = [one for one in ranking if self.lessons[one[0]].id not in without]
        word_ranks = {place: rank for rank, (place, _) in enumerate(by_words, start=1)}
        near_ranks = {place: rank for rank, place in enumerate(nearest, start=1)}
        shown = self._first(ranking, retrieval, without)
        ranked = tuple(
            _RankedLesson(self.lessons[place].id, rank, score, word_ranks.get(place), near_ranks.get(place))
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


def _shown_part(lessons: Sequence[Labelled], retrieval: Retrieval) -> Sequence[Labelled]:
    """The lessons that pass the filters by tag and domain. The same object where all do."""
    tags, domains = frozenset(retrieval.tags), frozenset(retrieval.domains)
    passed = [
        one
        for one in lessons
        if (not tags or tags.intersection(one.tags)) and (not domains or domains.intersection(one.tags))
    ]
    return lessons if len(passed) == len(lessons) else passed


_Key = tuple[int, tuple[str, ...], tuple[str, ...]]
_kept: OrderedDict[_Key, tuple[Sequence[Labelled], LessonIndex]] = OrderedDict()
_lock = threading.Lock()


def lesson_index(lessons: Sequence[Labelled], retrieval: Retrieval) -> LessonIndex:
    """The index of the lessons of a version that pass the filters, built once as long as these lessons are in use."""
    key = (id(lessons), retrieval.tags, retrieval.domains)
    with _lock:
        held = _kept.get(key)
        if held is not None and held[0] is lessons:  # another library may have got the id of one that is gone
            _kept.move_to_end(key)
            return held[1]
        part = _shown_part(lessons, retrieval)
        index = LessonIndex(part, whole=part is lessons)
        _kept[key] = (lessons, index)
        _kept.move_to_end(key)
        while len(_kept) > _MOST_INDEXES:
            _kept.popitem(last=False)
        return index


def shown_tokens(lessons: Sequence[Labelled], retrieval: Retrieval) -> int:
    """The estimated tokens of the lessons that one prompt shows; where they are chosen, those of average length."""
    index = lesson_index(lessons, retrieval)
    if index.shows_all(retrieval):
        return index.total_tokens
    mean = index.total_tokens / len(index.lessons)
    return min(retrieval.max_shown_tokens, round(mean * min(retrieval.shown_lessons, len(index.lessons))))
