"""What a question asks for, as far as it decides how two answers compare: a version, a time, an order, a unit."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from agentlearn.answers.answer_text import normal_text
from agentlearn.answers.units import PERCENT, MeasureUnit

Asked = Literal[
    "version", "amount", "time", "when", "year", "percent", "fraction", "least", "most", "numbered", "identifier",
    "address", "ends", "inverted", "person", "place", "code", "phone", "listed", "choice",
]  # fmt: skip
"""What a question may ask for.

`time`: a time of day; `fraction`: a part of a whole; `least` and `most`: a limit; `numbered`: a number that has a name
too, such as a status code; `identifier`: one in which spaces and case do not matter, such as a postcode; `ends`: when
something ends; `inverted`: by `did`, `does`, `do` or `by` the answer may not be the subject; `code`: something of which
case matters; `listed`: several things; `choice`: the question names candidates, or what is not meant.
"""
_PATTERNS: dict[Asked, str] = {
    "version": r"\b(?:which|what|whose|name the|latest|newest|current|oldest|earliest|minimum|lowest|highest|stable"
    r"|supported|required|recommended|first|last|since|from|until|is the)\b(?: [\w.+#'-]+){0,2}"
    r" (?:version|release|revision|build|firmware)s?\b(?! ?v?\d| dates?\b| years?\b| notes?\b| prices?\b)",
    "amount": r"\bhow (?:much|many|long|far|tall|high|wide|deep|heavy|large|big|old|fast|hot)\b|\b(?:price|costs?|fees?"
    r"|charged?|weighs?|weight|height|length|width|depth|average|mean|scores?|rate|ratio|percent|percentage|share"
    r"|revenue|profit|salary|population|number of|amount|total|sum|gpa|grade|distance|speed|temperature|area|volume"
    r"|size|density|figure|probability|median)\b|%",
    "time": r"\A(?!how).*?(?:\bwhat time|\buntil when|\bopen(?:s|ing)?\b|\bclos(?:e|es|ing)\b|\bdepart|\barriv"
    r"|\bhours\b|\bo'clock\b|\btime of\b)",
    "when": r"\b(?:when|what time|which (?:date|day|year|month)|what (?:date|day|year|month)|deadline|date)\b",
    "year": r"\b(?:which|what) year\b",
    "percent": r"%|\bper ?cent\b|\bpercentage\b(?! points?)",
    "fraction": r"\b(?:fraction|proportion|share)\b",
    "least": r"\b(?:minimum|at least|at what age)\b",
    "most": r"\b(?:maximum|at most|limit|up to)\b",
    "numbered": r"\b(?:status|exit|error|response|return|result) (?:code|status|value)\b|\bport\b",
    "identifier": r"\b(?:post ?code|postal code|zip(?: code)?|isbn|issn|doi|iban|serial number)\b",
    "address": r"\b(?:street|postal|mailing) address\b|\baddress of\b|\bwhere\b|\baddress\?",
    "ends": r"\b(?:ends?|expires?|closes?|until|till|deadline|due|valid|last day)\b",
    "inverted": r"\b(?:who|whom|which|what)\b.*\b(?:did|does|do|by)\b",
    "person": r"\b(?:who|whom|whose|author|director|professor|dean|chair|lecturer|president|founder|winner)\b",
    "place": r"\bwhere\b|\b(?:in|at|on) (?:which|what)\b"
    r"|\b(?:which|what) (?:room|hall|city|building|country|town)\b",
    "code": r"\b(?:flag|option|switch|path|file ?name|folder|directory|variable|function|method|class|identifier"
    r"|password|token|command|attribute|keyword|constant|hash|user ?name|login|parameter|environment"
    r"|key|file|symbol|unit|module|package|field|column|header|property|setting|code|id)s?\b",
    "phone": r"\b(?:tele)?phone|\bfax\b|\bdial|\bcall(?:ed)?\b|\bhotline\b|\bmobile\b|\bnumber of the dealer\b",
    "listed": r"\b(?:list|name|names)\b|\b(?:which|what) (?:\w+ ){0,3}are\b|\bwho (?:are|were)\b|\ball\b"
    r"|\b(?:which|what) (?!is\b|was\b|does\b|has\b|this\b)\w+s\b",
    "choice": r"\b(?:or|not|except|other than|besides|instead|without|neither|nor|excluding)\b|n't\b",
}
_KINDS: dict[Asked, re.Pattern[str]] = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}
_ORDERED = re.compile(
    r"\bin order\b(?! to\b)|\bin (?:which|what|\w+) order\b|\bin (?:the )?order of\b|\bordered\b|\brank(?:ed|ing)\b"
    r"|^rank\b"
    r"|\bascending\b|\bdescending\b|\bchronological|\balphabetical|\bsteps\b|\bsort(?:ed|s? (?:by|the|them))\b"
    r"|\bfrom (?:where|which|what)\b.*\bto\b|\bfrom and to\b|\bfirst\b.*\bthen\b|\b\w+est to \w+est\b"
    r"|\bfrom .* to which\b|\brespectively\b|\border in which\b|\bsuccessive|\bone after the other\b"
)
_MAYBE_ORDERED = re.compile(
    r"\bfrom\b|\bto\b.*\?|\band\b|&|\bthen\b|\bfirst\b|\bbefore\b|\bafter\b|\bversus\b|\bvs\b|\bagainst\b|\bbeat\b"
    r"|\bdefeat|\btop\b|\bpath\b|\border\b|\bnext\b|\broutes?\b|\bstages?\b|\bitinerary\b|\bsequence\b|\branks?\b|\bbetween\b"
    r"|\bstart|\bend\b|\bsteps?\b|\bdirection\b|\bscored?\b"
)
_UNIT_AFTER = re.compile(
    r"(?:\b(?:in|many|number of|unit:?) |[(\[](?:in )?)(?P<one>[\w$€£¥°/^²³%]+(?:[ -][^\W\d_]+)?)",
    re.IGNORECASE,
)
_UNIT_ENDS = re.compile(r"\s*(?:[?.,;:)\]]|$)|\s(?:and|or|is|was|does|do|did|are|were|has|have|of|per|can|will)\b")


@dataclass(frozen=True, slots=True)
class QuestionHints:
    """What a question asks for."""

    text: str
    """The question in lower case; empty if it is not known."""
    kinds: frozenset[Asked]
    order: Literal["no", "possible", "yes"]
    """Whether the order of a list is part of the answer."""
    units: frozenset[MeasureUnit]
    """Units in which the answer is asked for, after `in`, `how many` or an opening bracket."""
    named: frozenset[MeasureUnit]
    """Units of measure and money that occur anywhere in it."""

    def asks(self, *kinds: Asked) -> bool:
        """Return whether the question asks for something of one of the kinds."""
        return not self.kinds.isdisjoint(kinds)

    @classmethod
    @lru_cache(maxsize=512)
    def of(cls, question: str) -> "QuestionHints":
        """Return what a question asks for."""
        text = normal_text(question)
        kinds: set[Asked] = {kind for kind, pattern in _KINDS.items() if pattern.search(text)}
        if {"version", "amount"} <= kinds:
            kinds.remove("amount")
            if re.match(r"how (?:much|many|long)", text):
                kinds.remove("version")
        units: set[MeasureUnit] = set()
        cased = normal_text(question, fold=False)
        for match in _UNIT_AFTER.finditer(cased):
            for name in dict.fromkeys((match["one"], re.split(r"[ -]", match["one"])[0])):
                alone = _UNIT_ENDS.match(cased, match.start("one") + len(name))
                unit = MeasureUnit.named(name)
                if unit is not None and unit != PERCENT and (alone or len(name) > 2):
                    units.add(unit)
                    break
        words = re.findall(r"[€$£¥₹]|[\w$^°]+", text)
        # Single letters are usually words, not units: `a` question, player `s`.
        names = (one for one in [*words, *map(" ".join, pairwise(words))] if len(one) > 1 or one in "€$£¥₹")
        named = {unit for unit in map(MeasureUnit.named, names) if unit is not None and unit != PERCENT}
        order = "yes" if _ORDERED.search(text) else "possible" if _MAYBE_ORDERED.search(text) else "no"
        return cls(text, frozenset(kinds), order, frozenset(units), frozenset(units | named))


NO_HINTS = QuestionHints.of("")
