"""What a question asks for, as far as it decides how two answers compare: a version, a time, an order, a unit. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from agentlearn_web.matching.answer_text import normal_text
from agentlearn_web.matching.units import PERCENT, MeasureUnit, known_unit

_VERSION = re.compile(
    r"\b(?:which|what|whose|name the|latest|newest|current|oldest|earliest|minimum|lowest|highest|stable|supported"
    r"|required|recommended|first|last|since|from|until|is the)\b(?: [\w.+#'-]+){0,2}"
    r" (?:version|release|revision|build|firmware)s?\b(?! ?v?\d| dates?\b| years?\b| notes?\b| prices?\b)"
)
_AMOUNT = re.compile(
    r"\bhow (?:much|many|long|far|tall|high|wide|deep|heavy|large|big|old|fast|hot)\b|\b(?:price|costs?|fees?|charged?"
    r"|weighs?|weight|height|length|width|depth|average|mean|scores?|rate|ratio|percent|percentage|share|revenue|profit"
    r"|salary|population|number of|amount|total|sum|gpa|grade|distance|speed|temperature|area|volume|size|density"
    r"|figure|probability|median)\b|%"
)
_TIME = re.compile(
    r"\bwhat time|\buntil when|\bopen(?:s|ing)?\b|\bclos(?:e|es|ing)\b|\bdepart|\barriv|\bhours\b"
    r"|\bo'clock\b|\btime of\b"
)
_WHEN = re.compile(r"\b(?:when|what time|which (?:date|day|year|month)|what (?:date|day|year|month)|deadline|date)\b")
_YEAR = re.compile(r"\b(?:which|what) year\b")
_PERCENT = re.compile(r"%|\bper ?cent\b|\bpercentage\b(?! points?)")
_FRACTION = re.compile(r"\b(?:fraction|proportion|share)\b")
_LEAST = re.compile(r"\b(?:minimum|at least|at what age)\b")
_MOST = re.compile(r"\b(?:maximum|at most|limit|up to)\b")
_NUMBERED = re.compile(r"\b(?:status|exit|error|response|return|result) (?:code|status|value)\b|\bport\b")
_IDENTIFIER = re.compile(r"\b(?:post ?code|postal code|zip(?: code)?|isbn|issn|doi|iban|serial number)\b")
_ADDRESS = re.compile(r"\b(?:street|postal|mailing) address\b|\baddress of\b|\bwhere\b|\baddress\?")
_ENDS = re.compile(r"\b(?:ends?|expires?|closes?|until|till|deadline|due|valid|last day)\b")
_INVERTED = re.compile(r"\b(?:who|whom|which|what)\b.*\b(?:did|does|do|by)\b")
_PERSON = re.compile(r"\b(?:who|whom|whose|author|director|professor|dean|chair|lecturer|president|founder|winner)\b")
_PLACE = re.compile(
    r"\bwhere\b|\b(?:in|at|on) (?:which|what)\b|\b(?:which|what) (?:room|hall|city|building|country|town)\b"
)
_CODE = re.compile(
    r"\b(?:flag|option|switch|path|file ?name|folder|directory|variable|function|method|class|identifier|password|token"
    r"|command|attribute|keyword|constant|hash|user ?name|login|parameter|environment"
    r"|key|file|symbol|unit|module|package|field|column|header|property|setting|code|id)s?\b"
)
_PHONE = re.compile(r"\b(?:tele)?phone|\bfax\b|\bdial|\bcall(?:ed)?\b|\bhotline\b|\bmobile\b|\bnumber of the dealer\b")
_LISTED = re.compile(
    r"\b(?:list|name|names)\b|\b(?:which|what) (?:\w+ ){0,3}are\b|\bwho (?:are|were)\b|\ball\b"
    r"|\b(?:which|what) (?!is\b|was\b|does\b|has\b|this\b)\w+s\b"
)
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
_CHOICE = re.compile(r"\b(?:or|not|except|other than|besides|instead|without|neither|nor|excluding)\b|n't\b")
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
    version: bool
    amount: bool
    time: bool
    """A time of day."""
    when: bool
    year: bool
    percent: bool
    fraction: bool
    """A part of a whole."""
    least: bool
    """A lower limit."""
    most: bool
    """An upper limit."""
    numbered: bool
    """A number that has a name too, such as a status code."""
    identifier: bool
    """An identifier in which spaces and case do not matter, such as a postcode."""
    address: bool
    ends: bool
    """When something ends."""
    inverted: bool
    """Its word `did`, `does`, `do` or `by` shows that the answer may not be the subject."""
    person: bool
    place: bool
    code: bool
    """Something of which case matters: a flag, a path, an identifier."""
    phone: bool
    listed: bool
    """A list of things."""
    choice: bool
    """It names candidates, or what is not meant."""
    order: Literal["no", "possible", "yes"]
    """Whether the order of a list is part of the answer."""
    units: frozenset[MeasureUnit]
    """Units in which the answer is asked for: `in km`."""
    named: frozenset[MeasureUnit]
    """Units of measure and money that occur anywhere in it."""


@lru_cache(maxsize=512)
def read_question(question: str) -> QuestionHints:
    """Return what a question asks for."""
    text = normal_text(question)
    amount, version = bool(_AMOUNT.search(text)), bool(_VERSION.search(text))
    order = "yes" if _ORDERED.search(text) else "possible" if _MAYBE_ORDERED.search(text) else "no"
    asked = _units_asked(normal_text(question, fold=False))
    return QuestionHints(
        text=text,
        version=version and not (amount and re.match(r"how (?:much|many|long)", text)),
        amount=amount and not version,
        time=bool(_TIME.search(text)) and not text.startswith("how"),
        when=bool(_WHEN.search(text)),
        year=bool(_YEAR.search(text)),
        percent=bool(_PERCENT.search(text)),
        fraction=bool(_FRACTION.search(text)),
        least=bool(_LEAST.search(text)),
        most=bool(_MOST.search(text)),
        numbered=bool(_NUMBERED.search(text)),
        identifier=bool(_IDENTIFIER.search(text)),
        address=bool(_ADDRESS.search(text)),
        ends=bool(_ENDS.search(text)),
        inverted=bool(_INVERTED.search(text)),
        person=bool(_PERSON.search(text)),
        place=bool(_PLACE.search(text)),
        code=bool(_CODE.search(text)),
        phone=bool(_PHONE.search(text)),
        listed=bool(_LISTED.search(text)),
        choice=bool(_CHOICE.search(text)),
        order=order,
        units=asked,
        named=asked | _units_anywhere(text),
    )


def _units_asked(question: str) -> frozenset[MeasureUnit]:
    """Return the units after `in`, `how many` or an opening bracket."""
    found: set[MeasureUnit] = set()
    for match in _UNIT_AFTER.finditer(question):
        start, text = match.start("one"), match["one"]
        for name in dict.fromkeys((text, re.split(r"[ -]", text)[0])):
            unit = known_unit(name)
            alone = _UNIT_ENDS.match(question, start + len(name))
            if unit is not None and unit != PERCENT and (alone or len(name) > 2):
                found.add(unit)
                break
    return frozenset(found)


def _units_anywhere(text: str) -> frozenset[MeasureUnit]:
    words = re.findall(r"[€$£¥₹]|[\w$^°]+", text)
    pairs = [" ".join(pair) for pair in pairwise(words)]
    # Single letters are usually words, not units: `a` question, player `s`.
    units = (known_unit(one) for one in [*words, *pairs] if len(one) > 1 or one in "€$£¥₹")
    return frozenset(unit for unit in units if unit is not None and unit != PERCENT)
