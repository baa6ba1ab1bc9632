"""Polarity of a clause: whether it says to do a thing or to avoid it, from negation words, without a parser.

Some words negate the whole clause ("do not", "never", "is unnecessary"), others what follows them ("avoid", "without",
"forget"). Two negations cancel: "do not forget" says to do it. After warnings ("beware", "easily missed") nothing is
negated, because they mention what matters. Clauses end at punctuation and conjunctions, so "do not answer before
checking" still says to check.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

_OMISSIONS = (
    r"skip(?:ped|ping|s)?|ignor(?:e|es|ed|ing)|omit(?:s|ted|ting)?|forget(?:s|ting)?|forgot(?:ten)?"
    r"|neglect(?:s|ed|ing)?|overlook(?:s|ed|ing)?|disregard(?:s|ed|ing)?|miss(?:es|ed|ing)?|los(?:e|es|ing)|lost"
)
_REMOVALS = (
    r"exclud(?:e|es|ed|ing)|remov(?:e|es|ed|ing)|discard(?:s|ed|ing)?|drop(?:s|ped|ping)?|eliminat(?:e|es|ed|ing)"
    r"|delet(?:e|es|ed|ing)|reject(?:s|ed|ing)?|rul(?:e|es|ed|ing) out|filter(?:s|ed|ing)? out"
)
_LEAVING = r"(?:leave|leaves|leaving|left)\b(?=(?:\s+\S+){0,5}?\s+(?:out|off|aside|behind)\b)"
_AUXILIARIES = (
    r"do|does|did|is|are|was|were|be|should|shall|must|can|could|may|might|need|needs|will|would|has|have|had|to|please"
)
_OFTEN = r"easily|often|commonly|frequently|sometimes|usually|typically"

_NEUTRAL = re.compile(
    r"\b(?:whether or not|not (?:only|just|merely|yet)|if not|no matter"
    r"|(?:not|no) (?:more|less|fewer|later|earlier) than)\b"
)
_WARNING = re.compile(
    r"\b(?:beware|watch (?:out )?for|watch out|guard against|look out for"
    rf"|(?:{_OFTEN}) (?:be |get )?(?:{_OMISSIONS}|left out)|(?:easy|tempting|wrong) to (?:{_OMISSIONS}|{_LEAVING}))\b"
)
_NEGATES_CLAUSE = re.compile(
    rf"\b(?:(?:{_AUXILIARIES}) not|cannot|dont|\w+n't|never|no (?:need|reason|point)|under no circumstances"
    r"|by no means|in no case|hardly|rarely|seldom)\b|^\s*not\b|\b(?:double|over)[- ]?count\w*"
    # Counting something twice is a mistake, so it counts as a negation.
    r"|\b(?:count|includ|list|consider)\w*\b(?=.*\b(?:twice|more than once)\b)"
)


def _afterwards(losses: str) -> re.Pattern[str]:
    """Words that negate a clause from its end: "… is unnecessary", "… may be skipped"."""
    return re.compile(
        r"\b(?:be|is|are|was|were|been|being|gets?|got)\s+(?:(?:not|never|always|safely|simply|just)\s+)*"
        rf"(?P<loss>{losses}|left out|unnecessary|needless|optional|irrelevant|pointless|superfluous|avoided|assumed"
        r"|a waste)\b|\b(?P<little>makes? no difference|matters? little"
        r"|wastes time|costs? time|waste time\b(?! (?:on|by|with|\w+ing)))\b"
    )


def _leading(losses: str) -> re.Pattern[str]:
    """Words that negate what follows them."""
    return re.compile(
        rf"\b(?:{losses}|{_LEAVING}|avoid(?:s|ed|ing)?|without|fail(?:s|ed|ing)? to|failure to|refrain(?:ing|s)?"
        r"|stop(?:s|ped|ping)?(?=\s+\w+ing)|instead of|rather than|in place of|assum(?:e|es|ed|ing)"
        r"|presum(?:e|es|ed|ing)|unnecessary|needless|pointless|useless|wrong|mistakes?|errors?|pitfalls?|blunders?"
        r"|dangers? of|risks? of|waste of|decide against|neither|not|no)\b"
    )


_REMOVING = re.compile(r"exclud|remov|discard|drop|eliminat|delet|reject|rul|filter")
_NEGATIONS = {
    removals: (_afterwards(losses), _leading(losses))
    for removals, losses in ((True, f"{_OMISSIONS}|{_REMOVALS}"), (False, _OMISSIONS))
}
"""The two patterns, with (True) and without words of removal ("exclude", "drop") as negations. Such words are not
negations for a trap that careful solvers avoid by removing something."""

_ASKING = re.compile(r"\b(check|see|test|verify|ask|decide|determine|know|care|worry|matters?|tell)((?: about)?) if\b")
_CLAUSE_END = re.compile(
    r"[,;:.!?()–—]|\s-\s|\b(?:but|however|because|since|until|unless|before|after|while|so|if(?! not)|then|though"
    r"|although|where)\b|\band\b(?=\s+(?:do|don't|never|always|only|then|not|avoid|skip|ignore|use|check|keep|count|include"
    r"|reduce|take|write|test|verify|try|compare|list|treat|leave|add|search|print|state|give|simplify|convert|bring"
    r"|enforce|require|filter|merge|cancel|divide|turn|start|allow|let|make|work)\b)"
)
_OPENING = re.compile(r"^(?:when(?:ever)?|if|while|for|in|on|with|before|after|given)\b([^,:;.]*)[,:;]\s*")
_TRAILING = re.compile(r"\bwhen(?:ever)?\b[^,;:.]*")


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause and its negations."""

    text: str
    negated: bool
    """Whether an odd number of words negates the whole clause."""
    negated_spans: tuple[tuple[int, int], ...]
    """Start and end of the part that each negating word applies to."""
    warns: bool
    """Whether it is a warning, in which nothing is negated."""

    def sign(self, at: int) -> int:
        """+1 if the clause says to do the thing at position `at`, -1 if it says to avoid it."""
        if self.warns:
            return 1
        odd = self.negated ^ (sum(start <= at < end for start, end in self.negated_spans) % 2 == 1)
        return -1 if odd else 1

    @property
    def tone(self) -> int:
        """The sign at the end of the clause."""
        return self.sign(len(self.text) - 1)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A parsed lesson: when it applies, and the clauses that say what to do."""

    whole: str
    context: str
    """The "When …" clause; empty if there is none."""
    clauses: tuple[Clause, ...]


def normalised_text(text: str) -> str:
    """The text in lower case, with straight quotes and single spaces."""
    return " ".join(text.casefold().replace("’", "'").replace("‘", "'").split())


@lru_cache(maxsize=16_384)
def parse_sentence(text: str, *, removals_negate: bool = True) -> Sentence:
    """Parse a lesson. text: result of `normalised_text`. removals_negate: whether words like "remove" are negations."""
    opening = _OPENING.match(text)
    context = opening.group(1).strip() if opening else ""
    advice = text[opening.end() :] if opening else text
    trailing = _TRAILING.search(advice)
    if not opening and trailing:
        rest = f"{advice[: trailing.start()]}, {advice[trailing.end() :]}"
        context = trailing.group()
        # "When you count do not …": without a comma, the advice is part of the context.
        advice = rest if re.search(r"\w", rest) else advice
    parts = _CLAUSE_END.split(_ASKING.sub(r"\1\2 whether", advice))
    return Sentence(text, context, tuple(_clause(part, removals_negate) for part in parts if part.strip()))


def is_removal(words: str) -> bool:
    """Whether the text starts with a word of removal."""
    return _REMOVING.match(words) is not None


def _clause(text: str, removals_negate: bool) -> Clause:
    afterwards, leading = _NEGATIONS[removals_negate]
    # A clause after "whether" is a question: its negations do not count.
    question = text.find(" whether ")
    asked = len(text) if question < 0 else question
    bare = _NEUTRAL.sub(_blank, text)
    warns = _WARNING.search(bare) is not None
    negated = False
    for match in afterwards.finditer(bare):
        negated ^= match.start() < asked
    bare = afterwards.sub(_blank_loss, bare)
    for match in _NEGATES_CLAUSE.finditer(bare):
        negated ^= match.start() < asked
    bare = _NEGATES_CLAUSE.sub(_blank, bare)
    negated_spans = tuple(
        (match.end(), _reach(text, match.end())) for match in leading.finditer(bare) if match.start() < asked
    )
    return Clause(text, negated, negated_spans, warns)


def _reach(text: str, start: int) -> int:
    """End of the part that a negating word applies to: "without a factor from the list" does not negate "list"."""
    end = text.find(" from ", start)
    return len(text) if end < 0 else end


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _blank_loss(match: re.Match[str]) -> str:
    """Blank only the matched word: a "not" before it must still be counted."""
    name = "loss" if match["loss"] is not None else "little"
    start, end = (at - match.start() for at in match.span(name))
    return match.group()[:start] + " " * (end - start) + match.group()[end:]
