"""Whether a clause tells to do a thing or to leave it: negation read from the words, without a parser.

Four kinds of words turn a clause. *Whole* ones ("do not", "never", "is unnecessary") turn all of it, *leading* ones
("avoid", "without", "forget") turn what follows them, and two turns cancel: "do not forget" asks for the thing.
*Warnings* ("beware", "easily missed") speak of the thing because it matters. Clauses end at punctuation and at
conjunctions, so that "do not answer before checking" still asks for the check.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

_LOSSES = (
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
    rf"|(?:{_OFTEN}) (?:be |get )?(?:{_LOSSES}|left out)|(?:easy|tempting|wrong) to (?:{_LOSSES}|{_LEAVING}))\b"
)
_WHOLE = re.compile(
    rf"\b(?:(?:{_AUXILIARIES}) not|cannot|dont|\w+n't|never|no (?:need|reason|point)|under no circumstances"
    r"|by no means|in no case|hardly|rarely|seldom)\b|^\s*not\b|\b(?:double|over)[- ]?count\w*"
    # What is counted twice is counted wrongly.
    r"|\b(?:count|includ|list|consider)\w*\b(?=.*\b(?:twice|more than once)\b)"
)


def _afterwards(losses: str) -> re.Pattern[str]:
    """Words that turn a clause from its end: "… is unnecessary", "… may be skipped"."""
    return re.compile(
        r"\b(?:be|is|are|was|were|been|being|gets?|got)\s+(?:(?:not|never|always|safely|simply|just)\s+)*"
        rf"(?P<loss>{losses}|left out|unnecessary|needless|optional|irrelevant|pointless|superfluous|avoided|assumed"
        r"|a waste)\b|\b(?P<little>makes? no difference|matters? little"
        r"|wastes time|costs? time|waste time\b(?! (?:on|by|with|\w+ing)))\b"
    )


def _leading(losses: str) -> re.Pattern[str]:
    """Words that turn what follows them."""
    return re.compile(
        rf"\b(?:{losses}|{_LEAVING}|avoid(?:s|ed|ing)?|without|fail(?:s|ed|ing)? to|failure to|refrain(?:ing|s)?"
        r"|stop(?:s|ped|ping)?(?=\s+\w+ing)|instead of|rather than|in place of|assum(?:e|es|ed|ing)"
        r"|presum(?:e|es|ed|ing)|unnecessary|needless|pointless|useless|wrong|mistakes?|errors?|pitfalls?|blunders?"
        r"|dangers? of|risks? of|waste of|decide against|neither|not|no)\b"
    )


_REMOVING = re.compile(r"exclud|remov|discard|drop|eliminat|delet|reject|rul|filter")
_TURNING = {
    removals: (_afterwards(losses), _leading(losses))
    for removals, losses in ((True, f"{_LOSSES}|{_REMOVALS}"), (False, _LOSSES))
}
"""By whether words of removal turn a clause: they do not where removing is what careful people do."""

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
    """A clause and the places in it that turn its sense."""

    text: str
    turned: bool
    """Whether an odd number of words turns all of it."""
    turns: tuple[tuple[int, int], ...]
    """From where to where each leading word turns the sense."""
    warns: bool

    def sign(self, at: int) -> int:
        """+1 where the word at that place is asked for, -1 where it is asked to be left."""
        if self.warns:
            return 1
        odd = self.turned ^ (sum(start <= at < end for start, end in self.turns) % 2 == 1)
        return -1 if odd else 1

    @property
    def tone(self) -> int:
        """The sign of its end."""
        return self.sign(len(self.text) - 1)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A lesson taken apart: when it applies, and the clauses that say what to do."""

    whole: str
    context: str
    """The "When …" clause; empty where there is none."""
    clauses: tuple[Clause, ...]


def plain(text: str) -> str:
    """The text in lower case, with straight quotes and single spaces."""
    return " ".join(text.casefold().replace("’", "'").replace("‘", "'").split())


@lru_cache(maxsize=16_384)
def sentence(text: str, *, removals_turn: bool = True) -> Sentence:
    """The text taken apart. text: as `plain` gives it; removals_turn: whether "remove" and its like say to leave."""
    opening = _OPENING.match(text)
    context = opening.group(1).strip() if opening else ""
    advice = text[opening.end() :] if opening else text
    trailing = _TRAILING.search(advice)
    if not opening and trailing:
        rest = f"{advice[: trailing.start()]}, {advice[trailing.end() :]}"
        context = trailing.group()
        # "When you count do not …": nobody set a comma, so the advice is inside.
        advice = rest if re.search(r"\w", rest) else advice
    parts = _CLAUSE_END.split(_ASKING.sub(r"\1\2 whether", advice))
    return Sentence(text, context, tuple(_clause(part, removals_turn) for part in parts if part.strip()))


def removes(words: str) -> bool:
    """Whether the words begin a word of removal."""
    return _REMOVING.match(words) is not None


def _clause(text: str, removals_turn: bool) -> Clause:
    afterwards, leading = _TURNING[removals_turn]
    # What hangs on "whether" is a question: its own negation turns nothing.
    question = text.find(" whether ")
    asked = len(text) if question < 0 else question
    bare = _NEUTRAL.sub(_blank, text)
    warns = _WARNING.search(bare) is not None
    turned = False
    for match in afterwards.finditer(bare):
        turned ^= match.start() < asked
    bare = afterwards.sub(_blank_loss, bare)
    for match in _WHOLE.finditer(bare):
        turned ^= match.start() < asked
    bare = _WHOLE.sub(_blank, bare)
    turns = tuple((match.end(), _reach(text, match.end())) for match in leading.finditer(bare) if match.start() < asked)
    return Clause(text, turned, turns, warns)


def _reach(text: str, start: int) -> int:
    """Where a leading word's sense ends: "without a factor from the list" keeps the list."""
    end = text.find(" from ", start)
    return len(text) if end < 0 else end


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _blank_loss(match: re.Match[str]) -> str:
    """Blank the loss alone: a "not" before it has still to be counted."""
    name = "loss" if match["loss"] is not None else "little"
    start, end = (at - match.start() for at in match.span(name))
    return match.group()[:start] + " " * (end - start) + match.group()[end:]
