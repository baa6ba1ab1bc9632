"""Two lessons that say the opposite, found by their words: a negation, a pair of opposites, or another order. Pure.

It finds lessons that are worded alike. What says the opposite in other words needs a model: `contradiction_check`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

_ALIKE = 0.6
_SAME_SITUATION = 0.7
_FEWEST_SHARED = 2
_COMPARED = 1_000
"""Characters of a text that are compared."""
_MOST_COMMON = 400
"""A word in more lessons than this does not decide which lessons are compared."""
_PAIRS = """
    always-never before-after first-last add-subtract multiply-divide increase-decrease maximum-minimum largest-smallest
    left-right more-fewer more-less include-exclude inclusive-exclusive included-excluded ascending-descending up-down
    early-late top-bottom accept-reject open-close enable-disable keep-remove keep-drop start-stop forward-backward
    maximize-minimize higher-lower above-below with-without trust-distrust exact-approximate row-column
    horizontal-vertical most-least odd-even
"""
_NEGATION = re.compile(
    r"^(?:please )?(?:do not|don[’']t|never|avoid|refrain from|skip|stop)\b(?! (?:forget|fail|omit|skip))"
)
_SITUATION = re.compile(r"^(?:when|whenever|if|for|in|on|while|once|unless|during|given|with)\b[^,:;]*[,:;]\s*")
_LABEL = re.compile(r"^[^,:;.]{1,40}:\s+")
_TRAILING = re.compile(r"\b(?:when|whenever|if|unless|while)\b.*$")
_ORDER = (
    re.compile(r"^before\b(?P<later>[^,]+),(?P<sooner>.+)$"),
    re.compile(r"^after\b(?P<sooner>[^,]+),(?P<later>.+)$"),
    re.compile(r"^(?P<sooner>.+?)\bbefore\b(?P<later>.+)$"),
    re.compile(r"^(?P<later>.+?)\bafter\b(?P<sooner>.+)$"),
    re.compile(r"^(?P<sooner>.+?),?\s*\b(?:and )?then\b(?P<later>.+)$"),
)
_STOP = frozenset(
    """
    a an the and or of to in on at by for from with it its is are be been this that these those your you as so than
    do does not don never always avoid please any all each every them they their there then also must should can will
    into about only just when whenever if unless while before after
    """.split()  # noqa: SIM905
)
_WORD = re.compile(r"[^\W_]+")
WordSet = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Said:
    """What a lesson says, in the form in which two are compared."""

    situation: WordSet
    decision: WordSet
    plain: WordSet
    """The words of the decision with the opposites that are no content, such as before and always."""
    negated: bool
    order: tuple[WordSet, WordSet] | None
    """What is done sooner and what later."""

    @classmethod
    def of(cls, text: str) -> "_Said":
        lower = " ".join(text[:_COMPARED].lower().split()).strip(" .!")
        lower = _LABEL.sub("", lower) if not _SITUATION.match(lower) else lower
        leading = _SITUATION.match(lower)
        rest = lower[leading.end() :] if leading else lower
        trailing = None if leading else _TRAILING.search(rest)
        decision = rest[: trailing.start()] if trailing else rest
        situation = leading[0] if leading else trailing[0] if trailing else ""
        negated = _NEGATION.search(decision) is not None
        return cls(
            situation=_content(situation),
            decision=_content(_NEGATION.sub("", decision)),
            plain=frozenset(map(_stem, _WORD.findall(decision))),
            negated=negated,
            order=_order(rest),
        )


def opposite_pairs(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of texts that say the opposite, each with why. The first number of a pair is the smaller one."""
    said = [_Said.of(text) for text in texts]
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(said):
        shared = Counter(
            at for word in one.decision for at in by_word.get(word, ()) if len(by_word[word]) <= _MOST_COMMON
        )
        for at in sorted(other for other, count in shared.items() if count >= _FEWEST_SHARED):
            if why := _why(said[at], one):
                yield at, number, why
        for word in one.decision:
            by_word[word].append(number)


def _why(one: _Said, other: _Said) -> str:
    """Why two lessons say the opposite; empty when they do not."""
    if not _same_situation(one.situation, other.situation):
        return ""
    if one.negated != other.negated and _alike(one.decision, other.decision):
        return "one says to do it, the other not to"
    if one.order and other.order and _reversed(one.order, other.order):
        return "they say the opposite order"
    if one.negated == other.negated and (pair := _swapped(one.plain, other.plain)):
        return f"one says {pair[0]!r} where the other says {pair[1]!r}"
    return ""


def _same_situation(one: WordSet, other: WordSet) -> bool:
    return one == other if not one or not other else len(one & other) >= _SAME_SITUATION * len(one | other)


def _alike(one: WordSet, other: WordSet) -> bool:
    return bool(one and other) and len(one & other) >= _ALIKE * len(one | other)


def _reversed(one: tuple[WordSet, WordSet], other: tuple[WordSet, WordSet]) -> bool:
    """Whether what is done sooner in one is done later in the other, and the other way round."""
    crossed = _held(one[0], other[1]) and _held(one[1], other[0])
    return crossed and not (_held(one[0], other[0]) and _held(one[1], other[1]))


def _held(one: WordSet, other: WordSet) -> bool:
    """Whether most of the smaller text stands in the other."""
    return len(one & other) >= _ALIKE * min(len(one), len(other))


def _swapped(one: WordSet, other: WordSet) -> tuple[str, str] | None:
    """The opposites by which two texts differ, when they differ by nothing else and share enough."""
    only, theirs = one - other, other - one
    if len(only) != 1 or len(theirs) != 1 or len((one & other) - _STOP) < _FEWEST_SHARED:
        return None
    pair = (next(iter(only)), next(iter(theirs)))
    return pair if pair in _opposites() else None


def _order(text: str) -> tuple[WordSet, WordSet] | None:
    for pattern in _ORDER:
        if found := pattern.match(text):
            sooner, later = _content(found["sooner"]), _content(found["later"])
            return (sooner, later) if sooner and later else None
    return None


def _content(text: str) -> WordSet:
    return frozenset(_stem(word) for word in _WORD.findall(text) if word not in _STOP)


@cache
def _opposites() -> frozenset[tuple[str, str]]:
    pairs = [tuple(map(_stem, pair.split("-"))) for pair in _PAIRS.split()]
    return frozenset(both for one, other in pairs for both in ((one, other), (other, one)))


def _stem(word: str) -> str:
    """A word without its usual endings, so that `counting cells` and `count the cell` share their words."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word
