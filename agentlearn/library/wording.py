"""What the words of a lesson show: that two lessons say the opposite, numbers of one problem, and platitudes."""

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
_WordSet = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Said:
    """What a lesson says, in the form in which two are compared."""

    situation: _WordSet
    decision: _WordSet
    plain: _WordSet
    """The words of the decision with the opposites that are no content, such as before and always."""
    negated: bool
    order: tuple[_WordSet, _WordSet] | None
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
        ordered = next(filter(None, (pattern.match(rest) for pattern in _ORDER)), None)
        return cls(
            situation=_content(situation),
            decision=_content(_NEGATION.sub("", decision)),
            plain=frozenset(map(_stem, _WORD.findall(decision))),
            negated=negated,
            order=(_content(ordered["sooner"]), _content(ordered["later"])) if ordered else None,
        )

    def why(self, other: "_Said") -> str:
        """Why two lessons say the opposite; empty when they do not."""

        def alike(first: _WordSet, second: _WordSet, share: float = _ALIKE) -> bool:
            return bool(first and second) and len(first & second) >= share * len(first | second)

        def held(first: _WordSet, second: _WordSet) -> bool:
            """Whether most of the smaller text stands in the other."""
            return len(first & second) >= _ALIKE * min(len(first), len(second))

        if self.situation != other.situation and not alike(self.situation, other.situation, _SAME_SITUATION):
            return ""
        if self.negated != other.negated and alike(self.decision, other.decision):
            return "one says to do it, the other not to"
        if self.order and other.order and all((*self.order, *other.order)):
            (first, last), (theirs, their_last) = self.order, other.order
            if held(first, their_last) and held(last, theirs) and not (held(first, theirs) and held(last, their_last)):
                return "they say the opposite order"
        only, others = self.plain - other.plain, other.plain - self.plain
        if self.negated == other.negated and len(only) == len(others) == 1:
            pair = (next(iter(only)), next(iter(others)))
            if pair in _opposites() and len((self.plain & other.plain) - _STOP) >= _FEWEST_SHARED:
                return f"one says {pair[0]!r} where the other says {pair[1]!r}"
        return ""


def opposite_pairs(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield pairs of texts that say the opposite, each with why. The first number of a pair is the smaller one."""
    said = [_Said.of(text) for text in texts]
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(said):
        shared = Counter(
            at for word in one.decision for at in by_word.get(word, ()) if len(by_word[word]) <= _MOST_COMMON
        )
        for at in sorted(other for other, count in shared.items() if count >= _FEWEST_SHARED):
            if why := said[at].why(one):
                yield at, number, why
        for word in one.decision:
            by_word[word].append(number)


def _content(text: str) -> _WordSet:
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


_NUMBER = re.compile(r"(?<![\w.^/*+=:−-])(\d[\d,]*(?:\.\d+)?)(?![\w/*^=+]|[.:-]\d)")
_STATUS = re.compile(r"40[013459]|42[29]|50[0234]")
_SMALL = 12
_USUAL = frozenset({"24", "30", "45", "50", "60", "90", "100", "180", "270", "360", "365", "366", "0.5", "0.1", "0.01"})
_POWER = re.compile(r"10+|16|32|64|128|256|512|1024")
_ROLE = re.compile(
    r"(?:\b(?:mod|modulo|base|step|page|status|code|error|codes|top|first|last|least|most|about|around|approximately|"
    r"roughly|over|under|below|above|within|every|each|exceeds?|exceeding|between|port|version|chapter|rule|"
    r"level|max|min|maximum|minimum|limit|up to|than|python|type)\s*|[≤≥<>\[{~√]\s*)$",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"\s*[-–]?\s*(?:%|°|degrees?\b|percent\b|words?\b|digits?\b|characters?\b|items?\b|lines?\b|tokens?\b|bits?\b|"
    r"bytes?\b|seconds?\b|minutes?\b|hours?\b|days?\b|weeks?\b|months?\b|years?\b|times\b|pages?\b|steps?\b|"
    r"decimals?\b|decimal places?\b|results?\b|attempts?\b|columns?\b|rows?\b|k?m\b|cm\b|mm\b|kg\b|g\b|ms\b|s\b|th\b|"
    r"status\b|errors?\b|codes?\b|responses?\b)",
    re.IGNORECASE,
)


_WITH = re.compile(r"\bwith (\d+) and (\d+)\b")


def specific_numbers(text: str) -> tuple[str, ...]:
    """The numbers of a text that look as if they came from one problem, in order."""
    if named := _WITH.search(text):
        return named.groups()
    found: list[str] = []
    for one in _NUMBER.finditer(text):
        plain = one[1].replace(",", "")
        usual = plain in _USUAL or _POWER.fullmatch(plain) or _STATUS.fullmatch(plain)
        small = "." not in plain and int(plain[:20]) <= _SMALL
        if not (usual or small or _UNIT.match(text, one.end()) or _ROLE.search(text[: one.start()])):
            found.append(one[1])
    return tuple(found)


_PLATITUDES = re.compile(
    r"\b(?:be (?:very |extra |more )?(?:careful|cautious|precise|accurate|thorough|systematic|methodical|attentive)"
    r"|(?:always )?(?:double|triple)[- ]?check(?: (?:your|the|all))?"
    r"(?: (?:\w+ )?(?:work|answers?|calculations?|results?))?"
    r"|(?:carefully )?(?:re-?)?read (?:the |each |every )?(?:entire |whole |full )?(?:question|problem|task|prompt)"
    r"(?: statement)?(?: (?:carefully|closely|twice|again))?"
    r"|think (?:carefully|step[- ]by[- ]step|clearly|logically|before (?:you )?answer\w*)|take your time"
    r"|pay (?:close |careful )?attention(?: to (?:the )?details?)?|(?:check|verify|review) (?:your|the|all) "
    r"(?:\w+ )?(?:work|answers?|calculations?|results?|solutions?)"
    r"|make sure (?:that )?(?:your|the) (?:\w+ )?(?:answer|solution|result) is (?:correct|right|accurate)"
    r"|(?:work|proceed|solve(?: \w+){0,4}) (?:carefully|systematically|step[- ]by[- ]step|slowly)"
    r"|avoid (?:\w+ )?(?:mistakes|errors)|understand (?:the|what the) (?:problem|question|task)(?: (?:asks|is asking))?"
    r"|(?:stay|remain|keep|be) (?:\w+ and )?(?:focused|calm|organi[sz]ed|attentive|patient|alert|concentrated)"
    r"|(?:mind|keep|maintain|watch) (?:your )?(?:concentration|focus|composure|discipline)|do your best"
    r"|break (?:\w+ ){0,4}problems? (?:down )?into (?:smaller |clear )?"
    r"(?:steps|parts|pieces)|use common sense|show your work)\b",
    re.IGNORECASE,
)
_FILLER = frozenset(
    """
    a along an and any all always answer answers answering are as at be before by calculation calculations careful
    carefully clear clearly complex correct do each ensure every final finally first for from give giving given have
    in into is it
    its key long make mistakes more of on or order problem problems proceed question questions required result results
    shown so solution solutions solve solving step steps submit submitting sure task tasks that the then this through
    to understand verify what when with work you your
    """.split()  # noqa: SIM905
)
_FEWEST_LEFT = 4
_FEWEST_LEFT_TO_DO = 2
_CONDITION = re.compile(r"^(?:when|whenever|if|while|before|after|once)\b[^,;:]*[,;:]\s*", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")


def platitude_in(text: str) -> str:
    """The platitude that is all that the text says, or all that it says to do; empty when it says more."""
    condition = _CONDITION.match(text)
    for part, fewest in ((text, _FEWEST_LEFT), (text[condition.end() :] if condition else "", _FEWEST_LEFT_TO_DO)):
        if found := _PLATITUDES.search(part):
            rest = _PLATITUDES.sub(" ", part)
            if sum(word not in _FILLER for word in _LETTERS.findall(rest.lower())) < fewest:
                return found[0]
    return ""
