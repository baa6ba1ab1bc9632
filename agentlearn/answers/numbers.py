r"""Numbers, read exactly: words (`two dozen`, `twenty-first`, `四十二`), digits of many countries, and LaTeX.

`leading_number` reads number words. `parse_number` reads a text that is one number with its unit, with every reading:
`1.240` is 1.24 or 1240, depending on the writer's country. A comma before three digits separates thousands; before any
other number of digits it separates decimals. A text with a leading zero, such as `007`, is a code and not a number.
`single_number` finds the one number in an answer, whose decimal sign is the point. `number_value` reads one number as
mathematicians write it: `1,000`, `1/2`, `2\frac{1}{3}`, `0.1\overline{6}`, `3 \times 10^5`.
"""

import re
import unicodedata
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

from agentlearn.answers.answer_text import plainly_set
from agentlearn.answers.units import MAGNITUDES, NO_MAGNITUDE, NO_UNIT, MeasureUnit, magnitude_at
from agentlearn.text import plain, seen

_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
SMALL_NUMBERS = dict(zip((*_ONES, *_TENS), (*range(20), *range(20, 100, 10)), strict=True))
LARGE_NUMBERS = {word: MAGNITUDES[word] for word in ("hundred", "dozen", "thousand", "million", "billion", "trillion")}
_MONEY_LETTER = re.compile(r" ?([kmb])\b", re.IGNORECASE)
_MONEY_MAGNITUDES = {"k": 1_000, "m": 10**6, "b": 10**9}
"""Letters that are magnitudes next to a currency: `$5m`."""
_IRREGULAR = {
    "first": "one", "second": "two", "third": "three", "fifth": "five", "eighth": "eight", "ninth": "nine",
    "twelfth": "twelve",
}  # fmt: skip


def _cardinal(word: str) -> str:
    """Return the cardinal number of an ordinal: `four` for `fourth`; the word itself for any other word."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    stem = f"{word[:-4]}y" if word.endswith("ieth") else word.removesuffix("th")
    return stem if stem in SMALL_NUMBERS or stem in LARGE_NUMBERS else word


PARTS = {"half": 2, "halves": 2, "quarter": 4, "hundredth": 100} | {
    word: SMALL_NUMBERS[_cardinal(word)]
    for word in (
        *("third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"),
        *("fifteenth", "sixteenth", "twentieth", "thirtieth", "fortieth", "fiftieth"),
    )
}
"""How many of each part make a whole."""
NUMBER_WORD = rf"(?:(?:{'|'.join(_TENS)})(?:[- ](?:{'|'.join(_ONES[1:10])}))?\b|(?:{'|'.join(reversed(_ONES))}))"
"""Regular expression for a number below 100 in words."""

_HALF_MORE = re.compile(r"(?:an?|one) (?P<noun>[^\W\d_]+) and a half")
_FRACTION = re.compile(
    rf"(?:(?P<top>[a-z]+)[ -]|(?=quarter of ))(?P<part>{'|'.join(PARTS)})(?P<plural>s|)"
    r"(?:(?P<of> of)(?: (?:an?|the))?(?: (?P<rest>.+))?)?"
)
_WORD = re.compile(r"[^\s,-]+")
_ORDINAL_DIGITS = re.compile(r"(?P<digits>\d{1,12})(?:st|nd|rd|th)\b ?")


@dataclass(frozen=True, slots=True)
class _WordNumber:
    """The number that the first words of a text name."""

    value: Fraction
    ordinal: bool
    rest: str
    """The words after the number."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """The number that the words so far name."""

    total: int = 0
    group: Fraction = Fraction(0)
    """The part after the last `thousand`, `million` or larger word."""
    last: int = 10**15
    """The last such word; a larger one cannot follow."""
    started: bool = True

    def plus(self, word: str) -> "_Sum | None":
        """Return the sum with the word; None if the word does not continue the number."""
        group = self.group
        if (small := SMALL_NUMBERS.get(word)) is not None:
            fits = not group % 100 or (group % 100 >= 20 and not group % 10 and 0 < small < 10)
            return _Sum(self.total, group + small, self.last) if fits and group.denominator == 1 else None
        if word == "half" and not self.started:
            return _Sum(group=Fraction(1, 2))
        large = LARGE_NUMBERS.get(word)
        if large is None or large >= self.last or (self.started and not group):
            return None
        group = group if self.started else Fraction(1)
        if large in {12, 100}:
            return _Sum(self.total, group * large, self.last) if group < 100 else None
        whole = int(group * large)
        return _Sum(self.total + whole, group * large - whole, large)


def leading_number(text: str) -> _WordNumber | None:
    """Return the number that the first words of a text name; None if it begins with no such words.

    text: in lower case. `half a million euros` gives 500,000 and `euros`; `two thirds` is a fraction, but `three
    quarters` counts quarters, unless it is `three quarters of`. None if a second number follows the first.
    """
    if found := _HALF_MORE.fullmatch(text):
        return _WordNumber(Fraction(3, 2), ordinal=False, rest=f"{found['noun']}s")
    if found := _FRACTION.fullmatch(text):
        top = SMALL_NUMBERS.get(found["top"] or "one")
        counts_quarters = found["part"] == "quarter" and not found["of"]
        plural = bool(found["plural"]) or found["part"] == "halves"
        if top is not None and (top == 1) != plural and not counts_quarters:
            return _WordNumber(Fraction(top, PARTS[found["part"]]), ordinal=False, rest=found["rest"] or "")
    words = _WORD.findall(text)
    used, ordinal, sum_ = 0, False, _Sum(started=False)
    while used < len(words) and not ordinal:
        ahead = words[used + 1] if used + 1 < len(words) else ""
        word = _cardinal(words[used])
        if sum_.started and words[used] == "and" and words[used + 1 : used + 3] == ["a", "half"]:
            sum_, used = _Sum(sum_.total, sum_.group + Fraction(1, 2), sum_.last), used + 3
            break
        joins = words[used] == "and" and sum_.total + sum_.group >= 100 and _cardinal(ahead) in SMALL_NUMBERS
        if joins or (not sum_.started and word in {"a", "an"} and ahead in LARGE_NUMBERS):
            used += 1
            continue
        if (longer := sum_.plus(word)) is None:
            break
        ordinal, sum_, used = word != words[used], longer, used + 1
        if words[used - 1 : used + 1] == ["half", "a"] and used + 1 < len(words) and words[used + 1] in LARGE_NUMBERS:
            used += 1
    rest = words[used:]
    after = rest[1:2] if rest[:1] == ["and"] else rest[:1]
    if not sum_.started or (
        after
        and after[0] != "second"
        and (_cardinal(after[0]) in SMALL_NUMBERS or after[0] in LARGE_NUMBERS or after[0][0].isdigit())
    ):
        return None
    return _WordNumber(sum_.total + sum_.group, ordinal, " ".join(rest))


_HAN_DIGITS = {one: int(unicodedata.numeric(one)) for one in "〇零一二三四五六七八九壹贰貳叁肆伍陆陸柒捌玖兩"} | {
    "两": 2
}
_HAN = f"[{''.join(_HAN_DIGITS)}十拾百佰千仟万萬亿億兆]"
_WRITTEN = r"\d[\d,]*(?:\.\d+)?"
_SIZE = f"(?!{NO_MAGNITUDE})[十拾百佰千仟万萬亿億兆십백천만억조]"
_NUMERAL = re.compile(rf"(?:{_WRITTEN} ?(?={_SIZE})|(?={_HAN}))(?:{_SIZE}(?: ?{_WRITTEN})?|[{''.join(_HAN_DIGITS)}])+")
HAN_NUMERAL = re.compile(f"{_HAN}{{2,}}")


def numeral_value(numeral: str) -> Decimal | None:
    """Return the value of a numeral of China, Japan or Korea, such as `四十二`, `1億2000万` or `3만5천`.

    None for one such as `三百五`, which may be 305 or 350.
    """
    total = part = Decimal(0)
    digits: Decimal | None = None
    is_loose = False
    for piece in re.findall(rf"{_WRITTEN}|\S", numeral):
        if piece in _HAN_DIGITS:
            is_loose = is_loose and piece not in "〇零"
            digits = _HAN_DIGITS[piece] + 10 * (digits or Decimal(0))
        elif (size := MAGNITUDES.get(piece)) is None:
            digits = Decimal(piece.replace(",", ""))
        else:
            if size < 10_000:
                part += size * (1 if digits is None else digits)
            else:
                part += digits or 0
                total = (total + part) * size if 0 < total < size else total + size * (part or 1)
                part = Decimal(0)
            is_loose, digits = size > 10, None
    return None if is_loose and digits is not None and digits < 10 else total + part + (digits or 0)


def with_digits(text: str) -> str:
    """Return the text with digits for numerals of China, Japan and Korea.

    One without any digit is read in a text without digits, where it stands alone or has several signs.
    """
    if text.isascii():
        return text
    bare = not re.search(r"\d", text)

    def written(found: re.Match[str]) -> str:
        is_read = found[0][0].isdecimal() or (bare and (len(found[0]) > 1 or text.strip(" .。!！") == found[0]))
        value = numeral_value(found[0]) if is_read else None
        return found[0] if value is None else f"{value:f}"

    return _NUMERAL.sub(written, text)


_MAX_CHARACTERS = 80
_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<before>(?:[^\W\d_]{0,3}[$€£¥₹]|[a-z]{3}) ?|)(?P<inner>[+-]?)"
    r"(?P<digits>\d[\d., '_]*\d|\d|\.\d+)(?:/(?P<bottom>\d{1,30}))?(?P<after>.*)",
    re.DOTALL | re.IGNORECASE,
)
_PLAIN = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+")
_COMMAS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_POINTS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,}")
_SPACES = re.compile(r"[1-9]\d{0,2}(?P<mark>[ '_])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d+)?")
_DECIMAL_COMMA = re.compile(r"(?:0|[1-9]\d*),\d+")
_TWO_WAYS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
_DECIMALS = re.compile(r"[.,](\d+)$")
_MIXED = re.compile(
    r"(?P<whole>[1-9]\d{0,3})[ -](?P<top>\d{1,3})/(?P<bottom>[1-9]\d{0,3})(?P<rest>(?: .*)?)", re.DOTALL
)
_PART = re.compile(r"(\d+(?:\.\d+)?) ?([^\W\d_]+|\d)(?:,? and |, | |(?=\d)|$)")
_ALONG = re.compile(
    r" (?:in (?:length|total|width|height|weight)|long|wide|high|tall|deep|old|away|thick|heavy|in all)$"
)
_MINUS = re.compile(r"^(?:minus|negative) (?=\d)", re.IGNORECASE)
_HOURS_AND_MINUTES = re.compile(r"(?P<hours>\d{1,3}):(?P<minutes>[0-5]\d) ?(?:h|hrs?|hours?)", re.IGNORECASE)
_ONE_OF = frozenset({"hour", "day", "week", "fortnight", "month", "year", "decade"})
"""Units that name a duration without a number: `an hour`."""
_DECADE = re.compile(r"[12]\d{2}0s")
_NUMBER_WORDS = re.compile(r"(?P<sign>minus |negative |)(?P<words>[a-z].*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NumberWithUnit:
    """A number and its unit."""

    readings: tuple[Fraction, ...]
    """Possible values, the English reading first."""
    unit: MeasureUnit = NO_UNIT
    step: Fraction | None = None
    """Value of the last digit that was written: 1/10 for `2.5`. None for a fraction."""
    ordinal: bool = False
    """Whether it is a place in an order: `3rd`."""
    text: str = ""
    """The digits as written; empty for words."""

    def __str__(self) -> str:
        """Return the first reading in plain digits with its unit, in a form with one reading; a share as a number."""
        is_share = self.unit.dimension == "share"
        value = self.readings[0] * (self.unit.size if is_share else 1)
        name = "" if is_share else f" {self.unit.name}".rstrip()
        places, rest = 0, value.denominator
        for factor in (2, 5):
            times = 0
            while rest % factor == 0:
                rest, times = rest // factor, times + 1
            places = max(places, times)
        if rest != 1 or not places:
            return f"{value}{name}"
        digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
        zero = "0" if places == 3 else ""  # three decimals could be read as thousands
        return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}{zero}{name}"


def parse_number(text: str) -> NumberWithUnit | None:
    """Return the number that a text represents; None for any other text.

    text: as `normal_text` returns it. In the case of the writer if symbols such as `mW` and `MW` are to differ.
    """
    text = _MINUS.sub("-", _ALONG.sub("", text))
    if _DECADE.fullmatch(text):
        return None
    if len(text) > _MAX_CHARACTERS:
        return _in_words(text) if len(text) <= 4 * _MAX_CHARACTERS else None
    if number := _in_digits(text):
        return number
    if (mixed := _MIXED.fullmatch(text)) and (unit := MeasureUnit.read(mixed["rest"].strip())) is not None:
        return NumberWithUnit((int(mixed["whole"]) + Fraction(int(mixed["top"]), int(mixed["bottom"])),), unit)
    if found := _HOURS_AND_MINUTES.fullmatch(text):
        minutes = Fraction(int(found["hours"]) * 60 + int(found["minutes"]))
        return NumberWithUnit((minutes,), MeasureUnit.named("min") or NO_UNIT, Fraction(1))
    return _in_several_units(text) or _in_words(text)


def _in_digits(text: str) -> NumberWithUnit | None:
    found = _NUMBER.fullmatch(text)
    if found is None or (found["sign"] and found["inner"]):
        return None
    if ordinal := _ORDINAL_DIGITS.match(text.casefold()):
        unit = MeasureUnit.read(text.casefold()[ordinal.end() :])
        return None if unit is None else NumberWithUnit((Fraction(ordinal[1]),), unit, Fraction(1), ordinal=True)
    before, after, digits = found["before"].strip(), found["after"].strip(), found["digits"]
    word, _, behind = after.partition(" ")
    is_money = bool(before) or ((named := MeasureUnit.named(behind)) is not None and named.money)
    times = _MONEY_MAGNITUDES.get(word.casefold()) if is_money else None
    if (size := magnitude_at(after)) is not None:
        times, behind = size[0], after[size[1] :].strip(" .")
        if not times:
            return None
    after = behind.removeprefix("of ") if times else after
    unit = MeasureUnit.read(before or after)
    if unit is None or (before and not unit.money) or (before and after and MeasureUnit.read(after) != unit):
        return None
    if unit.noun and found["after"][:1].isalpha():
        return None
    values: tuple[Fraction, ...] = ()
    if _PLAIN.fullmatch(digits):
        values = (Fraction(digits), Fraction(digits) * 1000) if _TWO_WAYS.fullmatch(digits) else (Fraction(digits),)
    elif _COMMAS.fullmatch(digits):
        values = (Fraction(digits.replace(",", "")),)
    elif _POINTS.fullmatch(digits):
        values = (Fraction(digits.replace(".", "").replace(",", ".")),)
    elif _SPACES.fullmatch(digits) or _DECIMAL_COMMA.fullmatch(digits):
        values = (Fraction(re.sub(r"[ '_]", "", digits).replace(",", ".")),)
    scale = Fraction((-1 if "-" in (found["sign"], found["inner"]) else 1) * (times or 1))
    step = None
    if found["bottom"]:
        scale = scale / int(found["bottom"]) if int(found["bottom"]) else Fraction(0)
    else:
        decimals = _DECIMALS.search(digits)
        grouped = "." not in digits and (_COMMAS.fullmatch(digits) or digits.count(".") > 1)
        step = Fraction(times or 1, 10 ** len(decimals[1]) if decimals and not grouped else 1)
    if not values or not scale:
        return None
    return NumberWithUnit(tuple(value * scale for value in values), unit, step, text=digits)


def _in_several_units(text: str) -> NumberWithUnit | None:
    """Return a quantity in several units, such as `1 hour and 30 minutes` or `5 ft 3 in`."""
    found = list(_PART.finditer(text))
    if len(found) < 2 or "".join(part[0] for part in found) != text:
        return None
    feet = found[0][2].casefold() in {"ft", "foot", "feet"}
    units = [MeasureUnit.named("inch" if feet and part[2] == "in" else part[2]) for part in found]
    known = [unit for unit in units if unit is not None]
    if len(known) < len(units) or any(a.dimension != b.dimension or a.size <= b.size for a, b in pairwise(known)):
        return None
    value = sum((Fraction(part[1]) * unit.size for part, unit in zip(found, known, strict=True)), Fraction(0))
    return NumberWithUnit((value / known[-1].size,), known[-1], Fraction(1))


def _in_words(text: str) -> NumberWithUnit | None:
    """Return a number in words, such as `two dozen eggs` or `the third`."""
    if text.casefold() in _ONE_OF:
        unit = MeasureUnit.read(text)
        return unit and NumberWithUnit((Fraction(1),), unit, Fraction(1))
    found = _NUMBER_WORDS.fullmatch(text.casefold())
    number = leading_number(found["words"]) if found else None
    if found is None or number is None or (number.ordinal and found["sign"]):
        return None
    unit = MeasureUnit.read(number.rest.removeprefix("a ").removeprefix("an ").removeprefix("of "))
    value = -number.value if found["sign"] else number.value
    return None if unit is None else NumberWithUnit((value,), unit, Fraction(1), number.ordinal)


_RELATIVE_TOLERANCE = Fraction(1, 1_000_000)
_KEY_DIGITS = 6
_ONE_DECIMAL = (
    r"(?:(?:[1-9]\d{0,2}(?P<separator>[, '_])\d{3}(?:(?P=separator)\d{3})*|[1-9]\d?(?:,\d\d){1,9},\d{3})"
    r"(?!\d)(?:\.\d{1,400})?"
    r"|\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
)
_LONGEST = 400
"""Most digits of a number that is read."""
_ONE_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[+-]?|(?:minus|negative)(?= )) ?(?P<money>[$€£¥]?) ?"
    rf"(?:(?P<whole>\d{{1,400}}) (?=\d+ ?/))?"
    rf"(?P<top>{_ONE_DECIMAL})(?:e(?P<power>[+-]?\d{{1,3}})(?!\w))?"
    rf"(?: ?/ ?(?P<bottom>\d{{1,400}}(?:\.\d{{1,400}})?))?"
    rf"(?P<percent> ?(?:%|per ?cent\b))?",
    re.ASCII | re.IGNORECASE,
)
_NOT_ALONE = re.compile(
    r"[√∛∜^*+<>≤≥≠±π∞‰]|\d|\b(?:sqrt|root|log|ln|exp|sin|cos|tan|pi|pm|times|cdot|factorial|squared|cubed|or"
    r"|[a-z]*illions?|hundreds?|thousands?)\b",
    re.IGNORECASE,
)
"""Text next to a number that makes it part of an expression or one of several numbers."""
_BOUND = re.compile(
    r"\b(?:(?:less|more|fewer|greater|larger|smaller) than|at least|at most|up to|not|half of)\s*\Z", re.IGNORECASE
)
"""Words right before a number that make it something else."""
_PART_OF_MORE = re.compile(
    r"\s?(?:[ap]\.? ?m\b|o ?'? ?clock\b|noon\b|midnight\b|in the (?:morning|afternoon|evening)\b|at night\b"
    r"|half\b|halves\b|(?:third|fourth|fifth|sixth|eighth|tenth|hundredth|thousandth|[mbtr]{1,2}illionth)s?\b"
    r"|and an? (?:half|third|quarter)\b|(?-i:k)\b)",
    re.IGNORECASE,
)
"""Words right behind a number that make it a time of day, a fraction or a larger number."""
_IN_ONE_NOTATION = {
    "\N{MINUS SIGN}": "-", "\N{FRACTION SLASH}": "/", "\N{RIGHT SINGLE QUOTATION MARK}": "'", "{,}": ",",
    "\\,": ",", "\\%": "%", "\\$": "$", "**": ";", "`": ";",
}  # fmt: skip
_LATEX_FRACTION = re.compile(r"\\[dtc]?frac ?\{([^{}]{1,400})\} ?\{([^{}]{1,400})\}")
_TIMES_TEN = re.compile(r"(?<=\d) ?(?:×|x|\*|\\times|\\cdot) ?10 ?\^ ?\{?([+-]?\d{1,3})\}?(?!\d)")
_POWER_OF_UNIT = re.compile(r"(?<!\d[eE])(?<=[^\W\d_]|\})\^?\{?[23]\}?(?![\d.,])")
_BULLET = re.compile(r"\A\s*[-•]\s+")
_OTHER_MINUS = re.compile(r"(?<![^\W_])[‐‒–](?=\.?\d)|(?:[负負]|マイナス|마이너스 ?)(?=\d)")


def single_number(text: str) -> Fraction | None:
    """Return the exact value of the only number in the text; None when there is none or it is not alone.

    A text with two numbers has no value: an answer that offers `12 or 13` must not be right for either. An expression
    such as `√5` has none either, nor has a time of day or a bound such as `less than 5`. Units are ignored. A percent
    sign divides by 100. The decimal sign is the point. A magnitude such as `million` multiplies, in many languages.
    """
    if text.isdecimal() and text.isascii() and len(text) <= _LONGEST:
        return Fraction(text)
    text = plain(plainly_set(_BULLET.sub("", seen(text))))
    for fancy, usual in _IN_ONE_NOTATION.items():
        text = text.replace(fancy, usual)
    text = with_digits(_OTHER_MINUS.sub("-", text))
    text = _TIMES_TEN.sub(r"e\1", _LATEX_FRACTION.sub(r" \1/\2 ", " ".join(text.split())))
    text = _POWER_OF_UNIT.sub("", text)
    found = _ONE_NUMBER.search(text)
    if found is None:
        return None
    size, end = magnitude_at(text, found.end()) or (1, found.end())
    if found["money"] and (letter := _MONEY_LETTER.match(text, end)):
        size, end = _MONEY_MAGNITUDES[letter[1].casefold()], letter.end()
    if not size or _NOT_ALONE.search(f"{text[: found.start()]} {text[end:]}"):
        return None
    if _BOUND.search(text, 0, found.start()) or _PART_OF_MORE.match(text, end):
        return None
    if not (bottom := Fraction(found["bottom"] or 1)):
        return None
    value = Fraction(re.sub(r"[, '_]", "", found["top"])) * Fraction(10) ** int(found["power"] or 0)
    value = (value / bottom + int(found["whole"] or 0)) / (100 if found["percent"] else 1)
    return size * (value if found["sign"] in {"", "+"} else -value)


def same_number(value: Fraction, gold: Fraction) -> bool:
    """Whether a value equals the expected one: exactly for integers, within a relative 1e-6 for others."""
    return value == gold if gold.denominator == 1 else abs(value - gold) <= _RELATIVE_TOLERANCE * abs(gold)


def number_key(value: Fraction) -> str:
    """Return integers as they are and other numbers to six digits, so that `1/3` and `0.333333` have the same key.

    Never with an exponent. A number that six digits cannot tell from an integer keeps its exact value.
    """
    if value.denominator == 1:
        return str(value.numerator)
    with localcontext(Context(prec=2_000)):
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - _KEY_DIGITS + 1), ROUND_HALF_EVEN)
        return str(value) if rounded == rounded.to_integral_value() else f"{rounded.normalize():f}"


MAX_DIGITS = 1_000
"""Longer numbers are not read, since reading them takes more than linear time."""
_MAX_EXPONENT = 1_000
_D = rf"(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d{{1,{MAX_DIGITS}}})(?:\.\d{{0,{MAX_DIGITS}}})?|\.\d{{1,{MAX_DIGITS}}}"
_SMALL = r"(\d|\{ ?\d{1,%d} ?\})"
_VALUE = re.compile(
    rf"(?P<sign>[+-]?) ?(?:(?P<plain>{_D})"
    rf"|\\frac ?\{{ ?(?P<a>[+-]?(?:{_D})) ?\}} ?\{{ ?(?P<b>[+-]?(?:{_D})) ?\}}"
    rf"|\\frac ?(?P<c>{_SMALL % MAX_DIGITS}) ?(?P<d>{_SMALL % MAX_DIGITS})|(?P<e>{_D}) ?/ ?(?P<f>{_D}))",
    re.ASCII,
)
_MIXED_VALUE = re.compile(
    rf"([+-]?) ?(\d{{1,30}}) ?(?:\\frac ?{_SMALL % 30} ?{_SMALL % 30}|(?<= )(\d{{1,30}}) ?/ ?(\d{{1,30}}))", re.ASCII
)
_REPEATING = re.compile(
    r"([+-]?) ?(\d{0,100})\.(\d{0,100})(?:\\(?:overline|bar|dot) ?(?:\{ ?(\d{1,100}) ?\}|(\d))|\((\d{1,100})\))",
    re.ASCII,
)
_SCIENTIFIC = re.compile(
    rf"([+-]?) ?({_D}) ?(?:\\times|\\cdot|\*) ?10 ?\^ ?(?:\{{ ?(-?\d{{1,4}}) ?\}}|(\d)|\( ?(-?\d{{1,4}}) ?\))", re.ASCII
)


def number_value(text: str) -> int | Fraction | None:
    """Return the exact value of the normalised text; None unless it is one number."""
    if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
        return int(text)
    value: Fraction | None = None
    if found := _VALUE.fullmatch(text):
        top = found["plain"] or found["a"] or found["c"] or found["e"]
        bottom = found["b"] or found["d"] or found["f"] or "1"
        top, bottom = (Fraction(part.strip("{ }").replace(",", "")) for part in (top, bottom))
        value = top / bottom if bottom else None
    elif found := _MIXED_VALUE.fullmatch(text):
        whole, top, bottom = (int(part.strip("{ }")) for part in found.groups()[1:] if part)
        value = whole + Fraction(top, bottom) if 0 < top < bottom else None
    elif found := _REPEATING.fullmatch(text):
        fixed, period = found[3], found[4] or found[5] or found[6]
        start = Fraction(int((found[2] + fixed) or "0"), 10 ** len(fixed))
        value = start + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))
    elif found := _SCIENTIFIC.fullmatch(text):
        exponent = int(found[3] or found[4] or found[5])
        small = abs(exponent) <= _MAX_EXPONENT
        value = Fraction(found[2].replace(",", "")) * Fraction(10) ** exponent if small else None
    if value is None:
        return None
    value = -value if text.startswith("-") else value
    return value.numerator if value.denominator == 1 else value
