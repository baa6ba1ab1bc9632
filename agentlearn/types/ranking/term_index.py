"""BM25 over short texts: which of them share rare words with a query.

The weight of a word in a text does not depend on the query, so it is computed once. A query adds the weights of its
words, the most telling word first, and stops to look at further texts as soon as none of them can enter the ranking.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import accumulate
from math import log

from agentlearn.types.ranking.text_words import capped_query, search_words

K1 = 1.2
"""How much a second occurrence of a word in a text counts."""
B = 0.75
"""How much the length of a text counts."""
MOST_TERMS = 64
"""The largest number of words of a query that are used: those that can count most."""
_FEWEST_COMMON = 10
"""In few texts, a word that many of them hold still tells something."""
_SMALL = 256
"""A list of so few texts is added without asking whether it has to be."""
_MARGIN = 1e-6
"""Larger than the rounding error of a sum of weights."""
_DIGITS = 9
"""Digits to which sums of weights are rounded, so that the order of texts is the same on every platform."""


class TermIndex:
    """An index of texts by their words.

    A word that more than half of the texts hold is left out, in any language: it does not tell them apart.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.size = len(texts)
        held = [Counter(search_words(text)) for text in texts]
        self.postings: Mapping[str, Mapping[int, float]] = _weighted(held)
        self._bounds = {word: max(weights.values()) for word, weights in self.postings.items()}

    def ranked(self, query: str, depth: int) -> list[tuple[int, float]]:
        """The texts that share a word with the query, best first: place of the text, and its score.

        depth: the largest number of texts to return. Texts of equal score are in their own order.
        """
        known = {word for word in search_words(capped_query(query)) if word in self.postings}
        words = nsmallest(MOST_TERMS, known, key=lambda word: (-self._bounds[word], word))
        scores = self._scores(words, depth)
        lowest = _lowest_of_best(scores, depth) - _MARGIN
        rounded = ((place, round(score, _DIGITS)) for place, score in scores.items() if score >= lowest)
        return sorted(rounded, key=lambda one: (-one[1], one[0]))[:depth]

    def _scores(self, words: Sequence[str], depth: int) -> dict[int, float]:
        """The sums of the weights of these words, of every text that may be among the `depth` best."""
        scores: defaultdict[int, float] = defaultdict(float)
        left = list(accumulate(reversed([self._bounds[word] for word in words])))[::-1]
        for number, word in enumerate(words):
            weights = self.postings[word]
            if len(weights) > _SMALL and len(scores) >= depth and max(scores.values()) > left[number]:
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
