"""Joining several rankings into one by the places that they give, whatever their scores mean."""

from collections import defaultdict
from collections.abc import Sequence

RANK_OFFSET = 60
"""The larger, the less the first few places of one ranking count against agreement of several."""


def fused(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Everything that is in a ranking, best first, with its score: the sum of 1 / (60 + rank), ranks counted from 1.

    Of equal scores, the smaller number comes first. Source: Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, place in enumerate(ranking, start=1):
            scores[place] += 1 / (RANK_OFFSET + rank)
    return sorted(scores.items(), key=lambda one: (-round(one[1], 12), one[0]))
