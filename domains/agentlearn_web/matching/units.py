"""Units and currencies, with the names that people use for them."""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

MAGNITUDES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "mio": 10**6}
_PERCENT = frozenset({"%", "percent", "per cent", "pct"})
_MONEY = {
    "eur": "eur euro euros €",
    "usd": "usd $ us$ dollar dollars us dollars",
    "gbp": "gbp £ pound sterling",
    "jpy": "jpy ¥ yen",
    "chf": "chf franc francs swiss francs",
    "cad": "cad c$ ca$",
    "aud": "aud a$ au$",
}
_MEASURES = {
    "s": "s sec second seconds",
    "min": "min minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "year years yr yrs",
    "mm": "mm millimetre millimetres millimeter millimeters",
    "cm": "cm centimetre centimetres centimeter centimeters",
    "m": "m metre metres meter meters",
    "km": "km kilometre kilometres kilometer kilometers",
    "mi": "mi mile miles",
    "g": "g gram grams",
    "kg": "kg kilogram kilograms",
    "t": "t tonne tonnes",
    "l": "l litre litres liter liters",
    "ml": "ml millilitre millilitres milliliter milliliters",
    "b": "byte bytes",
    "kb": "kb kilobyte kilobytes",
    "mb": "mb megabyte megabytes",
    "gb": "gb gigabyte gigabytes",
    "w": "w watt watts",
    "kw": "kw kilowatt kilowatts",
    "kwh": "kwh",
    "m^2": "m^2 m2 sqm square metres square meters",
    "km^2": "km^2 km2 square kilometres square kilometers",
    "°c": "°c degrees celsius",
    "°": "° degree degrees",
    "ects": "ects ects credits ects points",
}


def _by_name(table: dict[str, str]) -> dict[str, str]:
    """Return the canonical unit for every name."""
    found: dict[str, str] = {}
    for unit, names in table.items():
        for name in _names(names):
            found[name] = unit
    return found


_PAIRED = (
    *("us dollars", "pound sterling", "swiss francs", "square metres", "square meters", "square kilometres"),
    *("square kilometers", "degrees celsius", "ects credits", "ects points"),
)


def _names(text: str) -> list[str]:
    pairs = [pair for pair in _PAIRED if pair in text]
    for pair in pairs:
        text = text.replace(pair, " ")
    return [*pairs, *text.split()]


_MONEY_NAMES = _by_name(_MONEY)
_MEASURE_NAMES = _by_name(_MEASURES)
_NOUN = re.compile(r"[^\W\d_]{3,}(?:[ -][^\W\d_]{2,}){0,2}")
_NO_NOUN = frozenset(
    [
        *("and", "or", "to", "of", "not", "no", "minus", "plus", "than", "more", "less", "fewer", "maybe", "perhaps"),
        *("about", "over", "under", "per", "by"),
    ]
)


@dataclass(frozen=True, slots=True)
class MeasureUnit:
    """The unit of a number: a unit of measure or money, or a noun for what is counted."""

    name: str
    known: bool = False
    money: bool = False
    scale: Fraction = Fraction(1)

    @property
    def noun(self) -> bool:
        """Whether it is a noun for what is counted, such as `students`."""
        return bool(self.name) and not self.known


NO_UNIT = MeasureUnit("")


def parse_unit(text: str) -> MeasureUnit | None:
    """Return the unit that a text names; `NO_UNIT` for an empty text; None if it is not a unit or short noun."""
    if not text:
        return NO_UNIT
    if text in _PERCENT:
        return MeasureUnit("", scale=Fraction(1, 100))
    if text in _MONEY_NAMES:
        return MeasureUnit(_MONEY_NAMES[text], known=True, money=True)
    if text in _MEASURE_NAMES:
        return MeasureUnit(_MEASURE_NAMES[text], known=True)
    if not _NOUN.fullmatch(text) or _NO_NOUN & set(re.split(r"[ -]", text)):
        return None
    return MeasureUnit(text)


def units_named(question: str) -> frozenset[str]:
    """Return the canonical units of measure and money that a question names."""
    found = re.findall(r"[€$£¥]|[\w$^°]+", question)
    pairs = [" ".join(pair) for pair in pairwise(found)]
    names = _MONEY_NAMES | _MEASURE_NAMES
    # Single letters are usually words, not units: `a` question, player `s`.
    return frozenset(names[word] for word in [*found, *pairs] if word in names and (len(word) > 1 or word in "€$£¥"))
