"""Units and currencies with the names that people use for them, and how many base units each one is."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MAGNITUDES: Final = {
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "mio": 10**6,
    "mn": 10**6,
    "bn": 10**9,
    "tn": 10**12,
    "dozen": 12,
    "millions": 10**6,
    "billions": 10**9,
}
MONEY_MAGNITUDES: Final = {"k": 1_000, "m": 10**6, "b": 10**9}
"""Letters that are magnitudes next to a currency: `$5m`."""
_PERCENT = ("%", "percent", "per cent", "pct", "prozent")
_MONEY = {
    "eur": "eur,euro,euros,€",
    "usd": "usd,$,us$,dollar,dollars,us dollar,us dollars,u.s. dollars",
    "gbp": "gbp,£,pound sterling,pounds sterling,british pounds",
    "jpy": "jpy,¥,yen,japanese yen",
    "chf": "chf,franc,francs,swiss franc,swiss francs,sfr",
    "cad": "cad,c$,ca$,canadian dollars",
    "aud": "aud,a$,au$,australian dollars",
    "inr": "inr,₹,rupee,rupees,indian rupees",
    "cny": "cny,rmb,yuan,renminbi",
}
_MEASURES = (
    ("time", "s", "1", "s,sec,secs,second,seconds"),
    ("time", "ms", "1/1000", "ms,millisecond,milliseconds"),
    ("time", "min", "60", "min,mins,minute,minutes"),
    ("time", "h", "3600", "h,hr,hrs,hour,hours"),
    ("time", "day", "86400", "day,days"),
    ("time", "week", "604800", "week,weeks"),
    ("time", "fortnight", "1209600", "fortnight,fortnights"),
    ("months", "month", "1", "month,months"),
    ("months", "year", "12", "year,years,yr,yrs"),
    ("months", "decade", "120", "decade,decades"),
    ("length", "mm", "1/1000", "mm,millimetre,millimetres,millimeter,millimeters"),
    ("length", "cm", "1/100", "cm,centimetre,centimetres,centimeter,centimeters"),
    ("length", "m", "1", "m,metre,metres,meter,meters"),
    ("length", "km", "1000", "km,kilometre,kilometres,kilometer,kilometers"),
    ("length", "mi", "1609344/1000", "mi,mile,miles"),
    ("length", "ft", "3048/10000", "ft,foot,feet"),
    ("length", "inch", "254/10000", "inch,inches"),
    ("length", "yd", "9144/10000", "yd,yard,yards"),
    ("mass", "mg", "1/1000000", "mg,milligram,milligrams"),
    ("mass", "g", "1/1000", "g,gram,grams"),
    ("mass", "kg", "1", "kg,kilogram,kilograms,kilo,kilos"),
    ("mass", "t", "1000", "t,tonne,tonnes,metric tons"),
    ("mass", "lb", "45359237/100000000", "lb,lbs"),
    ("mass", "pound", "45359237/100000000", "pound,pounds"),
    ("mass", "oz", "45359237/1600000000", "oz,ounce,ounces"),
    ("volume", "ml", "1/1000", "ml,millilitre,millilitres,milliliter,milliliters"),
    ("volume", "cl", "1/100", "cl,centilitre,centilitres"),
    ("volume", "l", "1", "l,litre,litres,liter,liters"),
    ("volume", "m^3", "1000", "m^3,m3,cubic metres,cubic meters"),
    ("bytes", "byte", "1", "byte,bytes"),
    ("bytes", "kb", "1000", "kb,kilobyte,kilobytes"),
    ("bytes", "mb", "1000000", "mb,megabyte,megabytes"),
    ("bytes", "gb", "1000000000", "gb,gigabyte,gigabytes"),
    ("bytes", "tb", "1000000000000", "tb,terabyte,terabytes"),
    ("bytes", "kib", "1024", "kib,kibibyte,kibibytes"),
    ("bytes", "mib", "1048576", "mib,mebibyte,mebibytes"),
    ("bytes", "gib", "1073741824", "gib,gibibyte,gibibytes"),
    ("bits", "mbit", "1", "mbit,megabit,megabits"),
    ("bits", "gbit", "1000", "gbit,gigabit,gigabits"),
    ("power", "w", "1", "w,watt,watts"),
    ("power", "kw", "1000", "kw,kilowatt,kilowatts"),
    ("power", "megawatt", "1000000", "megawatt,megawatts"),
    ("power", "milliwatt", "1/1000", "milliwatt,milliwatts"),
    ("power", "gigawatt", "1000000000", "gw,gigawatt,gigawatts"),
    ("energy", "kwh", "1", "kwh,kilowatt-hours,kilowatt hours,kilowatt-hour,kilowatt hour"),
    ("energy", "megawatt-hours", "1000", "megawatt-hours,megawatt hours,megawatt hour"),
    ("voltage", "v", "1", "v,volt,volts"),
    ("voltage", "kv", "1000", "kv,kilovolt,kilovolts"),
    ("current", "ampere", "1", "amp,amps,ampere,amperes"),
    ("current", "milliampere", "1/1000", "milliamp,milliamps,milliampere,milliamperes"),
    ("frequency", "hz", "1", "hz,hertz"),
    ("frequency", "khz", "1000", "khz,kilohertz"),
    ("frequency", "megahertz", "1000000", "megahertz,mhz"),
    ("frequency", "ghz", "1000000000", "ghz,gigahertz"),
    ("joules", "joule", "1", "joule,joules"),
    ("force", "newton", "1", "newton,newtons"),
    ("kelvin", "kelvin", "1", "kelvin"),
    (
        "speed",
        "km/h",
        "1",
        "km/h,kph,kmh,kilometres per hour,kilometers per hour,kilometre per hour,kilometer per hour",
    ),
    ("speed", "mph", "1609344/1000000", "mph,miles per hour,mile per hour"),
    ("speed", "m/s", "36/10", "m/s,metres per second,meters per second"),
    ("area", "m^2", "1", "m^2,m2,sqm,square metres,square meters,square metre,square meter"),
    ("area", "km^2", "1000000", "km^2,km2,square kilometres,square kilometers,square kilometre,square kilometer"),
    ("area", "ha", "10000", "ha,hectare,hectares"),
    ("area", "acre", "40468564224/10000000", "acre,acres"),
    ("celsius", "°c", "1", "°c,degrees celsius,degree celsius"),
    ("fahrenheit", "°f", "1", "°f,degrees fahrenheit,degree fahrenheit"),
    ("angle", "°", "1", "°,degree,degrees"),
    ("credits", "ects", "1", "ects,ects credits,ects points"),
)
_CASED = {
    "A": "ampere",
    "mA": "milliampere",
    "V": "v",
    "W": "w",
    "K": "kelvin",
    "J": "joule",
    "N": "newton",
    "L": "l",
    "MW": "megawatt",
    "mW": "milliwatt",
    "Mb": "mbit",
    "Gb": "gbit",
    "MWh": "megawatt-hours",
}
"""Symbols whose meaning depends on case."""
_BARRED = frozenset({"M", "G", "H", "S", "T"})
"""Symbols that are not the unit which they become in lower case."""
_CASE_CHANGES_THE_UNIT = frozenset({"m", "g", "h", "s", "t", "mw", "mj", "mpa", "mv", "mm"})
_NOUN = re.compile(r"[^\W\d_]{3,}(?:[ -][^\W\d_]{2,}){0,2}")
_NO_NOUN = frozenset(
    [
        *("and", "or", "to", "of", "not", "no", "minus", "plus", "than", "more", "less", "fewer", "maybe", "perhaps"),
        *(
            "about",
            "over",
            "under",
            "per",
            "by",
            "at",
            "in",
            "on",
            "the",
            "until",
            "from",
            "before",
            "after",
            "am",
            "pm",
        ),
        *("each", "every", "for", "with", "as", "if", "but", "hundred", "thousand", "half", "approximately"),
    ]
)


@dataclass(frozen=True, slots=True)
class MeasureUnit:
    """The unit of a number: a unit of measure or money, a percent sign, or a noun for what is counted."""

    name: str
    dimension: str = ""
    """What it measures: `length`, `money`, `share`; empty for a noun and for no unit."""
    size: Fraction = Fraction(1)
    """How many base units of its dimension it is."""

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


NO_UNIT: Final = MeasureUnit("")
PERCENT: Final = MeasureUnit("%", "share", Fraction(1, 100))


def _tables() -> tuple[dict[str, MeasureUnit], dict[str, MeasureUnit]]:
    """Return the units by lower-case name, and by symbol in its case."""
    units = {name: MeasureUnit(name, dimension, Fraction(size)) for dimension, name, size, _ in _MEASURES}
    named = {one: units[name] for _, name, _, names in _MEASURES for one in names.split(",")}
    money = {one: MeasureUnit(name, "money") for name, names in _MONEY.items() for one in names.split(",")}
    percent = dict.fromkeys(_PERCENT, PERCENT)
    return named | money | percent, {symbol: units[name] for symbol, name in _CASED.items()}


_NAMES, _SYMBOLS = _tables()


def parse_unit(text: str) -> MeasureUnit | None:
    """Return the unit that a text names; `NO_UNIT` for an empty text; None if it is not a unit or short noun."""
    if not text:
        return NO_UNIT
    if unit := known_unit(text):
        return unit
    folded = text.casefold()
    if not _NOUN.fullmatch(folded) or _NO_NOUN & set(re.split(r"[ -]", folded)):
        return None
    return MeasureUnit(folded)


def known_unit(text: str) -> MeasureUnit | None:
    """Return the unit of measure or money, or percent, that a text names. Case matters for symbols such as `mW`."""
    if text in _SYMBOLS:
        return _SYMBOLS[text]
    return None if text in _BARRED else _NAMES.get(text.casefold())


def sizes(dimension: str) -> frozenset[Fraction]:
    """Return the sizes of all units of a dimension."""
    return frozenset(unit.size for unit in _NAMES.values() if unit.dimension == dimension)


def case_changes_unit(one: str, other: str) -> bool:
    """Return whether two spellings that differ only in case may be two units, such as `mW` and `MW`."""
    return known_unit(one) != known_unit(other) or (
        known_unit(one) is None and one.casefold() in _CASE_CHANGES_THE_UNIT
    )
