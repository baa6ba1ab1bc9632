"""Parser for exact numbers with units that returns every reading of a text.

`1.240 €` has two readings, 1.24 and 1240, depending on the writer's country. A comma before three digits separates
thousands; before any other number of digits it separates decimals. A text with a leading zero, such as `007`, is a
code and not a number.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from agentlearn_web.matching.units import MAGNITUDES, MeasureUnit, parse_unit

MAX_CHARACTERS = 80
_DIGITS = r"(?P<digits>\d[\d., '_]*\d|\d|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>(?:[^\W\d_]{{0,3}}[$€£¥]|[a-z]{{3}}) ?|)(?P<inner>[+-]?){_DIGITS}"
    r"(?:/(?P<bottom>\d{1,30}))?(?P<after>.*)",
    re.DOTALL,
)
_PLAIN = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+")
_COMMAS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_POINTS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d+|[1-9]\d{0,2}(?:\.\d{3}){2,}")
_SPACES = re.compile(r"[1-9]\d{0,2}(?P<mark>[ '_])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d+)?")
_DECIMAL_COMMA = re.compile(r"(?:0|[1-9]\d*),\d+")
_TWO_WAYS = re.compile(r"[1-9]\d{0,2}\.\d{3}")


@dataclass(frozen=True, slots=True)
class NumberWithUnit:
    """A number and its unit."""

    readings: tuple[Fraction, ...]
    """Possible values, the English reading first."""
    unit: str = ""
    """Canonical unit (`eur`, `km`), a noun, or empty. A percent sign becomes part of the value instead."""
    known: bool = False
    """Whether the unit is a unit of measure or money, not a noun."""

    def __str__(self) -> str:
        """Return the first reading in plain digits, in a form with one reading."""
        return f"{_decimal(self.readings[0])} {self.unit}".strip()


def parse_number(text: str) -> NumberWithUnit | None:
    """Return the number that a text represents; None for any other text. text: as `normal_text` returns it."""
    found = _NUMBER.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if found is None or (found["sign"] and found["inner"]):
        return None
    times, after = _magnitude(found["after"].strip())
    before = found["before"].strip()
    unit = _unit(before, after)
    if unit is None or (unit.noun and found["after"][:1].isalpha()):
        return None
    values = _values(found["digits"], money=unit.money)
    if found["bottom"]:
        values = () if not int(found["bottom"]) else tuple(value / int(found["bottom"]) for value in values)
    if not values:
        return None
    scale = (-1 if "-" in (found["sign"], found["inner"]) else 1) * times * unit.scale
    return NumberWithUnit(tuple(value * scale for value in values), unit.name, unit.known)


def _unit(before: str, after: str) -> MeasureUnit | None:
    """Return the unit before or after the digits; None if it is not a single unit. Only money may come before."""
    unit = parse_unit(before or after)
    if unit is None or (before and not unit.money) or (before and after and parse_unit(after) != unit):
        return None
    return unit


def _magnitude(after: str) -> tuple[Fraction, str]:
    word, _, rest = after.partition(" ")
    times = MAGNITUDES.get(word)
    return (Fraction(1), after) if times is None else (Fraction(times), rest)


def _values(digits: str, *, money: bool) -> tuple[Fraction, ...]:
    """Return every reading of the digits; empty if they are not a number."""
    if _PLAIN.fullmatch(digits):
        decimal = Fraction(digits)
        return (decimal, decimal * 1000) if money and _TWO_WAYS.fullmatch(digits) else (decimal,)
    if _COMMAS.fullmatch(digits):
        return (Fraction(digits.replace(",", "")),)
    if _POINTS.fullmatch(digits):
        return (Fraction(digits.replace(".", "").replace(",", ".")),)
    if _SPACES.fullmatch(digits):
        return (Fraction(re.sub(r"[ '_]", "", digits).replace(",", ".")),)
    return (Fraction(digits.replace(",", ".")),) if _DECIMAL_COMMA.fullmatch(digits) else ()


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
