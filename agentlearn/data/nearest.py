"""Grouping texts with their nearest neighbours: deterministic, and of bounded cost.

Two texts are alike when the words that they share weigh at least `ALIKE` of all their words; a word weighs more the
fewer texts hold it (its inverse document frequency). Every two texts of a group are alike. A text is compared only with
those that share one of its rarest words, so the cost grows with the number of texts and not with its square.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

ALIKE = 0.5
"""Share of the weight of two texts' words that must be common."""
_RAREST = 8
"""Words of a text that it is looked up by."""
_LISTED = 64
"""Largest number of groups that are looked up by one word: the latest."""
_COMPARED = 12
"""Largest number of groups that a text is compared with: those that share most of its rare words."""

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def same_text(text: str) -> str:
    """The text without differences in case, compatible characters (NFKC) and white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def nearest_groups(
    texts: Sequence[str],
    kinds: Sequence[Hashable],
    rewards: Sequence[float],
    *,
    max_size: int,
    begun: Sequence[Sequence[int]] = (),
) -> list[list[int]]:
    """Return the places of the texts in groups of at most `max_size`, single ones included.

    begun: groups that exist already, such as those of equal texts; they come first in the result.
    kinds: texts of different kinds are never grouped. rewards: of the groups that a text is near enough to, it joins
    one in which rewards then differ, if there is any, and of these the nearest. The order of the texts decides ties.
    """
    words = [frozenset(_WORD.findall(same_text(text))) for text in texts]
    held_by = Counter(word for one in words for word in one)
    weight = {word: math.log1p(len(texts) / n) for word, n in held_by.items()}
    total = [sum(weight[word] for word in sorted(one)) for one in words]
    groups = [list(places) for places in begun]
    listed: defaultdict[tuple[Hashable, str], list[int]] = defaultdict(list)

    def likeness(one: int, other: int) -> float:
        if words[one] == words[other]:
            return 1.0
        common = sum(weight[word] for word in sorted(words[one] & words[other]))
        return common / (total[one] + total[other] - common)

    def rarest(place: int) -> list[str]:
        return sorted(words[place], key=lambda word: (held_by[word], word))[:_RAREST]

    def enlist(place: int, number: int) -> None:
        for word in rarest(place):
            if number not in listed[kinds[place], word][-_LISTED:]:
                listed[kinds[place], word].append(number)

    def best_group(place: int) -> int | None:
        shared = Counter(number for word in rarest(place) for number in listed[kinds[place], word][-_LISTED:])
        best: tuple[bool, float, int] | None = None
        for number, _ in sorted(shared.items(), key=lambda found: (-found[1], found[0]))[:_COMPARED]:
            group = groups[number]
            if len(group) < max_size and (near := min(likeness(place, other) for other in group)) >= ALIKE:
                found = any(rewards[other] != rewards[place] for other in group), near, -number
                best = found if best is None else max(best, found)
        return None if best is None else -best[2]

    for number, group in enumerate(groups):
        enlist(group[0], number)
    placed = {place for group in groups for place in group}
    for place in range(len(texts)):
        if place in placed:
            continue
        if (number := best_group(place)) is None:
            number = len(groups)
            groups.append([])
        groups[number].append(place)
        enlist(place, number)
    return groups


def most_central(texts: Sequence[str]) -> int:
    """Return the place of the text that shares most words with the others; of equal ones the first."""
    words = [frozenset(_WORD.findall(same_text(text))) for text in texts]

    def overlap(place: int) -> float:
        return sum(len(words[place] & one) / max(len(words[place] | one), 1) for one in words)

    return max(range(len(texts)), key=lambda place: (overlap(place), -place))
