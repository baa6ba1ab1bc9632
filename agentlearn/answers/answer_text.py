"""Answers as text, without what does not change their meaning, and what a question asks for.

`normalised` is for short answers to tasks of one's own. `normal_text` also takes away an article, brackets and a
lead-in such as `the answer is`, for answers in sentences.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from agentlearn.answers.units import PERCENT, MeasureUnit, magnitude_at
from agentlearn.text import plain, seen, word_places

_MAX_MARKS = 8
"""Largest number of marks inside one another that are taken off an answer."""
_FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*[\w+#.-]*[ \t]*\n(.*?)\n?[ \t]*\1", re.DOTALL)
_COMMAND = re.compile(r"\\(?:f?boxed|framebox|text(?:bf)?|math(?:rm|bf))\s?\{(.*)\}", re.DOTALL)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
BRACKETS = (("(", ")"), ("[", "]"), ("【", "】"), ("「", "」"), ("“", "”"), ("«", "»"))
SYMMETRIC = ("**", "__", "```", "`", "*", "$$", "$")
"""Marks that stand before and behind a text."""
_QUOTES = (*BRACKETS[3:], ('"', '"'), ("'", "'"), ("‘", "’"), ("„", "“"), ("„", "”"))
_DRESSING = (*((mark, mark) for mark in SYMMETRIC), ("\\(", "\\)"), ("\\[", "\\]"))

RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u207f]+")
LOWERED = re.compile("[\u2080-\u208e]+")
_VULGAR = re.compile("(\\d?)([\u00bc-\u00be\u2150-\u215e\u2189])")
_POWER = re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_BEFORE_VULGAR = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_ALIKE = (
    (re.compile(r"[‘’‚‛′`´]"), "'"),
    (re.compile(r"[“”„‟″«»]"), '"'),
    (re.compile(r"[‐‑‒–—―−﹘﹣－]"), "-"),
)

_LED_IN = re.compile(r"(?:the |my )?(?:final )?answer(?: is|:| is:) +(?=\S)", re.IGNORECASE)
_ARTICLE = re.compile(r"(?:the|an?) (?!(?:and|or)\b)(?=[\w\"'])", re.IGNORECASE)
_BULLET = re.compile(r"[-*•·] +(?=[^\W\d])")
_END = re.compile(r"(?<=[\w)\]\"'%€$£¥+#])[.,;:!]+$")

_BEFORE_NUMBER = re.compile(r"(?<!\d[.,:/])(?<![.])(?<!\A-)(?<![\s(=$:]-)(?<!\N{MINUS SIGN})")
_BEHIND_NUMBER = re.compile(r"(?![.,:/]\d)(?! \d+ ?/)(?! \d{3}(?!\d))")
_BEHIND_WORD = re.compile(r"(?![+#])(?![.]\w)")
_END_OF_NUMBER = re.compile(r"\d+ ?/|\d{3}(?!\d)")
"""What a digit and a space may stand before, as in `1 1/2` and `1 500`."""


def end_of_braces(text: str, start: int = 0) -> int | None:
    """Return where a brace closes that was opened before `start`; None when it does not."""
    depth = 1
    for found in _BRACE.finditer(text, start):
        depth += (found[0] == "{") - (found[0] == "}")
        if not depth:
            return found.start()
    return None


def without_marks(text: str) -> str:
    """Return the text without surrounding white space, Markdown and LaTeX marks. `__init__` keeps its lines."""

    def inside(text: str) -> str | None:
        if (fenced := _FENCED.fullmatch(text)) and fenced[1] not in fenced[2]:
            return fenced[2]
        for opening, closing in _DRESSING:
            inner = text[len(opening) : -len(closing)]
            is_name = opening == "__" and inner.isidentifier()
            if inner and text == f"{opening}{inner}{closing}" and opening not in inner and not is_name:
                return inner
        command = _COMMAND.fullmatch(text)
        return command[1] if command and end_of_braces(command[1]) is None else None

    text = text.strip()
    for _ in range(_MAX_MARKS):
        if (inner := inside(text)) is None:
            break
        text = inner.strip()
    return text


def plainly_set(text: str) -> str:
    """Return the text with raised and lowered characters behind `^` and `_`, and fractions with a slash."""
    if text.isascii():
        return text

    def fraction(found: re.Match[str]) -> str:
        written = unicodedata.normalize("NFKC", found[2]).replace("\N{FRACTION SLASH}", "/")
        return f"{found[1]} {written}" if found[1] else written

    text = _VULGAR.sub(fraction, text)
    text = RAISED.sub(lambda found: f"^{unicodedata.normalize('NFKC', found[0])}", text)
    return LOWERED.sub(lambda found: f"_{unicodedata.normalize('NFKC', found[0])}", text)


def normalised(text: str) -> str:
    """Return the text without differences in case, compatible characters (NFKC), digits of other scripts, white space,
    characters that nobody sees, quotation marks around it and final period.

    Raised and lowered characters and fractions keep their meaning: `10²` becomes `10^2`, and `2½` becomes `2 1/2`.
    """
    text, quoted = seen(text), True
    while quoted:
        text, quoted = without_marks(text), False
        for opening, closing in _QUOTES:
            inner = text[len(opening) : -len(closing)]
            if inner.strip() and text == f"{opening}{inner}{closing}" and not {opening, closing} & set(inner):
                text, quoted = inner, True
                break
    # Twice: casefolding can produce characters that NFKC changes again.
    text = " ".join(plain(plain(plainly_set(text)).casefold()).split())
    return text[:-1].rstrip() if text.endswith((".", "。")) and not text.endswith("..") else text


def normal_lines(text: str, *, fold: bool = True) -> str:
    """Return the text with one kind of dash, quote and space. Line ends stay. fold: whether to ignore case."""
    text = _BEFORE_VULGAR.sub(" ", text)
    # Keep a power apart from its base; NFKC would turn m² into m2.
    text = _POWER.sub(lambda found: "^" + unicodedata.normalize("NFKC", found[0]), text)
    for marks, one in _ALIKE:
        text = marks.sub(one, text)

    def in_its_case(line: str) -> str:
        line = " ".join(plain(without_marks(line)).split())
        return line[:-1].rstrip() if line.endswith(".") and not line.endswith("..") else line

    normal = normalised if fold else in_its_case
    lines = (normal(line).replace("\N{FRACTION SLASH}", "/") for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def normal_text(text: str, *, fold: bool = True) -> str:
    """Return the text on one line, without quotes, brackets, an article or closing marks around it."""

    def peeled(text: str) -> str:
        text = without_marks(_END.sub("", text.strip()))
        for opening, closing in (('"', '"'), ("'", "'"), *BRACKETS[:2]):
            inside = text[1:-1]
            if len(text) > 2 and text[0] == opening and text[-1] == closing and not {opening, closing} & set(inside):
                return inside.strip() or text
        for mark in (_LED_IN, _BULLET, _ARTICLE):
            if found := mark.match(text):
                return text[found.end() :]
        return text

    text = " ".join(normal_lines(text, fold=fold).split())
    while (inner := peeled(text)) != text:
        text = inner
    return text


def contains(answer: str, gold: str) -> bool:
    """Whether the expected answer stands in the answer as it is: not inside a word, nor as a part of a number."""
    text, wanted = normalised(answer), normalised(gold)
    ends_in_digit = wanted[-1:].isdecimal()

    def is_whole(at: int) -> bool:
        if wanted[:1].isdecimal() and not _BEFORE_NUMBER.match(text, at):
            return False
        if text[max(0, at - 1) : at] == " " and text[at - 2 : at - 1].isdecimal() and _END_OF_NUMBER.match(wanted):
            return False
        end = at + len(wanted)
        if ends_in_digit and magnitude_at(text, end):
            return False
        return (_BEHIND_NUMBER if ends_in_digit else _BEHIND_WORD).match(text, end) is not None

    return any(map(is_whole, word_places(text, wanted)))


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
