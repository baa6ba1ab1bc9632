"""Units, currencies and magnitudes such as `million`, with the names that people use for them and their sizes."""

import re
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Final
from unicodedata import category, normalize

from agentlearn.text import ATTACHED

_NOT_IN_LOWER_CASE = frozenset("MGHST")
"""Symbols that are not the unit which they become in lower case."""
_CASE_CHANGES_THE_UNIT = frozenset({"m", "g", "h", "s", "t", "mw", "mj", "mpa", "mv", "mm"})
_NOUN = re.compile(r"[^\W\d_]{3,}(?:[ -][^\W\d_]{2,}){0,2}")
_NO_NOUN = frozenset(
    (
        *("and", "or", "to", "of", "not", "no", "minus", "plus", "than", "more", "less", "fewer", "maybe", "perhaps"),
        *("about", "over", "under", "per", "by", "at", "in", "on", "the", "until", "from", "before", "after", "am"),
        *("pm", "each", "every", "for", "with", "as", "if", "but", "hundred", "thousand", "half", "approximately"),
    )
)
_INEXACT = frozenset(
    frozenset(pair)
    for pair in (
        *(("time", "months"), ("celsius", "fahrenheit"), ("celsius", "angle"), ("fahrenheit", "angle")),
        *(("kelvin", "celsius"), ("kelvin", "fahrenheit")),
    )
)
"""Dimensions of which one is converted to the other by more than a factor, or only nearly."""


@dataclass(frozen=True, slots=True)
class MeasureUnit:
    """The unit of a number: a unit of measure or money, a percent sign, or a noun for what is counted."""

    name: str
    dimension: str = ""
    """What it measures: `length`, `money`, `share`; empty for a noun and for no unit."""
    size: Fraction = Fraction(1)
    """How many base units of its dimension it is. Currencies have no common unit: a cent is one of a dollar."""

    @property
    def noun(self) -> bool:
        """Whether it is a noun for what is counted, such as `students`."""
        return bool(self.name) and not self.dimension

    @property
    def known(self) -> bool:
        """Whether it is a unit of measure or money, or a percent sign."""
        return bool(self.dimension)

    @property
    def money(self) -> bool:
        """Whether it is a currency."""
        return self.dimension == "money"

    def power(self, exponent: int) -> "MeasureUnit | None":
        """Return the unit of an area (exponent 2) or a volume (3); None unless this is a unit of length."""
        if self.dimension != "length" or exponent not in {2, 3}:
            return None
        litres = 1_000 if exponent == 3 else 1
        return MeasureUnit(f"{self.name}^{exponent}", {2: "area", 3: "volume"}[exponent], self.size**exponent * litres)

    @classmethod
    def named(cls, text: str) -> "MeasureUnit | None":
        """Return the unit of measure or money, or percent, that a text names. Case matters for symbols such as `mW`."""
        if text in _SYMBOLS:
            return _SYMBOLS[text]
        if text in _NOT_IN_LOWER_CASE:
            return None
        name, mark, exponent = text.casefold().partition("^")
        if (unit := _NAMES.get(text.casefold())) is not None or not mark:
            return unit
        base = _NAMES.get(name)
        return base.power(int(exponent)) if base is not None and exponent.isdecimal() else None

    @classmethod
    def read(cls, text: str) -> "MeasureUnit | None":
        """Return the unit that a text names; `NO_UNIT` for an empty text; None if it is not a unit or short noun."""
        if not text:
            return NO_UNIT
        if unit := cls.named(text):
            return unit
        folded = text.casefold()
        is_noun = _NOUN.fullmatch(folded) and not _NO_NOUN & set(re.split(r"[ -]", folded))
        return cls(folded) if is_noun else None

    def inexact(self, other: "MeasureUnit") -> bool:
        """Whether amounts in two units may be one amount, although no factor says so: months and days, °C and °F."""
        names = {self.name, other.name}
        return (
            (self.money and other.money and self != other and names != {"cent", "usd"})
            or names == {"gbp", "pound"}
            or frozenset({self.dimension, other.dimension}) in _INEXACT
        )

    def convertible(self, other: "MeasureUnit") -> bool:
        """Whether two units measure the same thing, so that their sizes convert one to the other."""
        kinds = {self.dimension, other.dimension}
        return len(kinds) == 1 or kinds == {"bits", "bytes"}

    def celsius(self, degrees: Fraction) -> Fraction:
        """Return a temperature of this unit, degrees Celsius or Fahrenheit, in degrees Celsius."""
        return (degrees - 32) * 5 / 9 if self.dimension == "fahrenheit" else degrees

    def sizes(self) -> frozenset[Fraction]:
        """Return the sizes of all units of the same dimension."""
        return frozenset(unit.size for unit in _NAMES.values() if unit.dimension == self.dimension)

    @classmethod
    def case_matters(cls, one: str, other: str) -> bool:
        """Return whether two spellings that differ only in case may be two units, such as `mW` and `MW`."""
        unit = cls.named(one)
        return unit != cls.named(other) or (unit is None and one.casefold() in _CASE_CHANGES_THE_UNIT)


def _tables() -> tuple[dict[str, MeasureUnit], dict[str, MeasureUnit], dict[str, int]]:
    """Return the units by lower-case name, the units by symbol in its case, and the sizes of magnitudes by word."""
    table = tomllib.loads(files("agentlearn.answers").joinpath("units.toml").read_text(encoding="utf-8"))
    symbols, magnitudes = table.pop("symbols"), table.pop("magnitudes")
    named: dict[str, MeasureUnit] = {}
    for dimension, rows in table.items():
        for name, row in rows.items():
            size, _, names = row.partition(" ")
            named |= dict.fromkeys([name, *names.split(", ")], MeasureUnit(name, dimension, Fraction(size)))
    rows = (
        (int(size), re.split(r",\s+", normalize("NFKC", words.strip().casefold())))
        for size, words in magnitudes.items()
    )
    sizes = {word: size for size, words in rows for word in words}
    plain = {_LETTER_WITH_ACCENT.sub(lambda one: normalize("NFD", one[0])[0], word): word for word in sizes}
    sizes |= {without: sizes[word] for without, word in plain.items() if len(word) > _KEEPS_ACCENTS}
    return named, {symbol: named[name] for symbol, name in symbols.items()}, sizes


_LETTER_WITH_ACCENT = re.compile("[\u00c0-\u04ff\u1e00-\u1fff]")
"""In Latin, Greek and Cyrillic, where people leave accents out."""
_KEEPS_ACCENTS = 3
"""So short a word may be another one without its accents."""
_NAMES, _SYMBOLS, MAGNITUDES = _tables()
"""Of magnitudes: the size of each by its word in lower case; 0 where the word means several."""
NO_UNIT: Final = MeasureUnit("")
PERCENT: Final = _NAMES["%"]
_WORDS_AT = re.compile(r" ?([^\W\d_]+)(?: ([^\W\d_]+))?")
NO_MAGNITUDE = "조각|천사|พันธ|百分|[千兆][克米瓦卡帕赫伏焦字比安]"
"""Beginnings of words that count pieces and units, and multiply nothing, as a regular expression."""


def magnitude_at(text: str, at: int = 0) -> tuple[int, int] | None:
    """Return the size of a magnitude that stands here, after at most one space, and where it ends; None without one.

    The size is 0 where the word means several, as `mil` does.
    """
    if (found := _WORDS_AT.match(text, at)) is None:
        return None
    first, second = found[1], found[2]
    if not first.isascii():
        if glued := _glued_magnitude().match(text, at):
            goes_on = category(text[glued.end() : glued.end() + 1] or " ")[0] in "LM"
            return None if goes_on and not re.match(ATTACHED, glued[1]) else (MAGNITUDES[glued[1]], glued.end())
        first = re.split(ATTACHED, first, maxsplit=1)[0]
    if second and (size := MAGNITUDES.get(f"{first} {second}".casefold())) is not None:
        return size, found.end()
    size = MAGNITUDES.get(first.casefold() if len(first) > 2 else first)
    return None if size is None else (size, found.start(1) + len(first))


@cache
def _glued_magnitude() -> re.Pattern[str]:
    """Return a pattern for magnitudes that other letters may follow, in scripts without blanks, Korean and Indian."""
    words = (re.escape(one) for one in MAGNITUDES if not _WORDS_AT.fullmatch(f" {one}") or re.match(ATTACHED, one))
    return re.compile(f" ?(?!{NO_MAGNITUDE})({'|'.join(sorted(words, key=len, reverse=True))})")
