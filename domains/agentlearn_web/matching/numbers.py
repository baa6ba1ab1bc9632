"""Parser for exact numbers with units that returns every reading of a text.

`1.240` has two readings, 1.24 and 1240, depending on the writer's country. A comma before three digits separates
thousands; before any other number of digits it separates decimals. A text with a leading zero, such as `007`, is a
code and not a number.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from agentlearn_web.matching.number_words import leading_number, leading_ordinal
from agentlearn_web.matching.units import MAGNITUDES, MONEY_MAGNITUDES, NO_UNIT, MeasureUnit, known_unit, parse_unit

MAX_CHARACTERS = 80
_DIGITS = r"(?P<digits>\d[\d., '_]*\d|\d|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>(?:[^\W\d_]{{0,3}}[$€£¥₹]|[a-z]{{3}}) ?|)(?P<inner>[+-]?){_DIGITS}"
    r"(?:/(?P<bottom>\d{1,30}))?(?P<after>.*)",
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
_FULL_NUMBER_WORDS = re.compile(r"(?P<sign>minus |negative |)(?P<words>[a-z].*)", re.DOTALL)


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
        """Return the first reading in plain digits, in a form with one reading."""
        if self.unit.dimension == "share":
            return _decimal(self.readings[0] * self.unit.size)
        return f"{_decimal(self.readings[0])} {self.unit.name}".strip()


def parse_number(text: str) -> NumberWithUnit | None:
    """Return the number that a text represents; None for any other text.

    text: as `normal_text` returns it. In the case of the writer if symbols such as `mW` and `MW` are to differ.
    """
    text = _MINUS.sub("-", _ALONG.sub("", text))
    if _DECADE.fullmatch(text):
        return None
    if len(text) > MAX_CHARACTERS:
        return _words(text) if len(text) <= 4 * MAX_CHARACTERS else None
    return _digits(text) or _mixed(text) or _hours_and_minutes(text) or _compound(text) or _words(text)


def _digits(text: str) -> NumberWithUnit | None:
    found = _NUMBER.fullmatch(text)
    if found is None or (found["sign"] and found["inner"]):
        return None
    if text[0].isdigit() and (ordinal := leading_ordinal(text.casefold())):
        unit = parse_unit(ordinal[1])
        return None if unit is None else NumberWithUnit((Fraction(ordinal[0]),), unit, Fraction(1), ordinal=True)
    before = found["before"].strip()
    times, after = _magnitude(found["after"].strip(), money=bool(before))
    unit = _unit(before, after)
    if unit is None or (unit.noun and found["after"][:1].isalpha()):
        return None
    values, step = _values(found["digits"]), _step(found["digits"])
    if found["bottom"]:
        values = () if not int(found["bottom"]) else tuple(value / int(found["bottom"]) for value in values)
    if not values:
        return None
    scale = (-1 if "-" in (found["sign"], found["inner"]) else 1) * times
    return NumberWithUnit(
        tuple(value * scale for value in values),
        unit,
        None if found["bottom"] else step * times,
        text=found["digits"],
    )


def _mixed(text: str) -> NumberWithUnit | None:
    """Return a whole number with a fraction, such as `1 1/2 hours`."""
    found = _MIXED.fullmatch(text)
    unit = None if found is None else parse_unit(found["rest"].strip())
    if found is None or unit is None:
        return None
    return NumberWithUnit((int(found["whole"]) + Fraction(int(found["top"]), int(found["bottom"])),), unit)


def _hours_and_minutes(text: str) -> NumberWithUnit | None:
    """Return a duration such as `1:30 h`."""
    found, unit = _HOURS_AND_MINUTES.fullmatch(text), known_unit("min")
    if found is None or unit is None:
        return None
    return NumberWithUnit((Fraction(int(found["hours"]) * 60 + int(found["minutes"])),), unit, Fraction(1))


def _compound(text: str) -> NumberWithUnit | None:
    """Return a quantity in several units, such as `1 hour and 30 minutes` or `5 ft 3 in`."""
    parts = [(found[1], found[2]) for found in _PART.finditer(text)]
    if len(parts) < 2 or "".join(found[0] for found in _PART.finditer(text)) != text:
        return None
    feet = parts[0][1].casefold() in {"ft", "foot", "feet"}
    units = [known_unit("inch" if feet and one == "in" else one) for _, one in parts]
    known = [unit for unit in units if unit is not None]
    if len(known) < len(units) or any(a.dimension != b.dimension or a.size <= b.size for a, b in pairwise(known)):
        return None
    value = sum((Fraction(digits) * unit.size for (digits, _), unit in zip(parts, known, strict=True)), Fraction(0))
    last = known[-1]
    return NumberWithUnit((value / last.size,), last, Fraction(1))


def _words(text: str) -> NumberWithUnit | None:
    """Return a number in words, such as `two dozen eggs` or `the third`."""
    if text.casefold() in _ONE_OF:
        unit = parse_unit(text)
        return unit and NumberWithUnit((Fraction(1),), unit, Fraction(1))
    found = _FULL_NUMBER_WORDS.fullmatch(text.casefold())
    if found is None:
        return None
    number = leading_number(found["words"])
    if number is None or (number.ordinal and found["sign"]):
        return None
    unit = parse_unit(number.rest.removeprefix("a ").removeprefix("an ").removeprefix("of "))
    value = -number.value if found["sign"] else number.value
    return None if unit is None else NumberWithUnit((value,), unit, Fraction(1), number.ordinal)


def _unit(before: str, after: str) -> MeasureUnit | None:
    """Return the unit before or after the digits; None if it is not a single unit. Only money may come before."""
    unit = parse_unit(before or after)
    if unit is None or (before and not unit.money) or (before and after and parse_unit(after) != unit):
        return None
    return unit


def _magnitude(after: str, *, money: bool) -> tuple[Fraction, str]:
    word, _, rest = after.partition(" ")
    folded = word.casefold()
    followed = bool(rest) and ((unit := known_unit(rest)) is not None and unit.money)
    times = MAGNITUDES.get(folded) or (MONEY_MAGNITUDES.get(folded) if money or followed else None)
    if times is None:
        return Fraction(1), after
    return Fraction(times), rest.removeprefix("of ")


def _values(digits: str) -> tuple[Fraction, ...]:
    """Return every reading of the digits; empty if they are not a number."""
    if _PLAIN.fullmatch(digits):
        decimal = Fraction(digits)
        return (decimal, decimal * 1000) if _TWO_WAYS.fullmatch(digits) else (decimal,)
    if _COMMAS.fullmatch(digits):
        return (Fraction(digits.replace(",", "")),)
    if _POINTS.fullmatch(digits):
        return (Fraction(digits.replace(".", "").replace(",", ".")),)
    if _SPACES.fullmatch(digits):
        return (Fraction(re.sub(r"[ '_]", "", digits).replace(",", ".")),)
    return (Fraction(digits.replace(",", ".")),) if _DECIMAL_COMMA.fullmatch(digits) else ()


def _step(digits: str) -> Fraction:
    """Return the value of the last digit: 1/100 for `12.50`."""
    found = _DECIMALS.search(digits)
    grouped = found is None or _COMMAS.fullmatch(digits) or digits.count(".") > 1
    return Fraction(1) if grouped and "." not in digits else Fraction(1, 10 ** len(found[1])) if found else Fraction(1)


def _decimal(value: Fraction) -> str:
    """Return the exact value as a decimal if it is finite, else as a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    twos, fives = _times(value.denominator, 2), _times(value.denominator, 5)
    if value.denominator != 2**twos * 5**fives:
        return str(value)
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    # Three decimals could be read as thousands.
    zero = "0" if places == 3 else ""
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}{zero}"


def _times(number: int, factor: int) -> int:
    """Return how often the factor divides the number."""
    times = 0
    while number % factor == 0:
        number, times = number // factor, times + 1
    return times
