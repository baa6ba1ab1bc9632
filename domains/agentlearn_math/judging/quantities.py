r"""Reading amounts with a unit: percent, degrees, money, `12\text{ cm}^2`, `5 million`."""

import re
from fractions import Fraction

from agentlearn_math.judging.normalise import without_brackets

PERCENT, DEGREES, DOLLARS = "%", "°", "dollar"

MAGNITUDES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}

_SYNONYMS = {
    **dict.fromkeys(("centimeter", "centimetre"), "cm"),
    **dict.fromkeys(("meter", "metre"), "m"),
    **dict.fromkeys(("kilometer", "kilometre"), "km"),
    **dict.fromkeys(("millimeter", "millimetre"), "mm"),
    **dict.fromkeys(("inche", "inch"), "in"),
    **dict.fromkeys(("feet", "foot"), "ft"),
    **dict.fromkeys(("hour", "hr"), "h"),
    **dict.fromkeys(("minute", "mins"), "min"),
    **dict.fromkeys(("second", "sec"), "s"),
    **dict.fromkeys(("gram",), "g"),
    **dict.fromkeys(("kilogram",), "kg"),
    **dict.fromkeys(("liter", "litre"), "l"),
    **dict.fromkeys(("degree", "deg"), DEGREES),
    **dict.fromkeys(("percent", "per cent", "percentage", "pct"), PERCENT),
    **dict.fromkeys(("usd", "buck"), DOLLARS),
}
_SIZES: dict[str, tuple[str, Fraction]] = {
    **{unit: ("length", Fraction(size, 10_000)) for unit, size in (("mm", 10), ("cm", 100), ("m", 10_000))},
    **{unit: ("length", Fraction(size, 10_000)) for unit, size in (("km", 10**7), ("in", 254), ("ft", 3_048))},
    **{unit: ("time", Fraction(size)) for unit, size in (("s", 1), ("min", 60), ("h", 3_600), ("day", 86_400))},
    **{unit: ("mass", Fraction(size, 1_000)) for unit, size in (("mg", 1), ("g", 1_000), ("kg", 10**6))},
    **{unit: ("volume", Fraction(size, 1_000)) for unit, size in (("ml", 1), ("l", 1_000))},
    **{unit: ("money", Fraction(size, 100)) for unit, size in (("cent", 1), (DOLLARS, 100))},
    PERCENT: ("share", Fraction(1, 100)),
    DEGREES: ("angle", Fraction(1)),
}
"""What a unit measures, and how many of one common unit it is."""
_SHORT_UNITS = frozenset((*("cm", "mm", "km", "kg", "mg", "ml", "ft", "in", "lb", "oz", "hr", "min", "sec", "mph"),))
_ONE_LETTER_UNITS = frozenset("acfghjklmnsvw")
_NO_UNITS = frozenset(
    (
        *("or", "and", "to", "if", "is", "for", "when", "where", "mod", "pi", "sqrt", "sin", "cos", "tan", "cot"),
        *("sec", "csc", "log", "ln", "exp", "with"),
    )
)
_POWER = r"(?: ?\^ ?\{? ?([23]) ?\}?)?"
_WRAPPER = r"\\(?:text|textrm|textbf|textit|textsf|textnormal|mathrm|mathbf|mbox|hbox)"
_WRAPPED = re.compile(rf"(.*?\S?) ?{_WRAPPER} ?\{{([^{{}}]*)\}}{_POWER}", re.DOTALL)
_BARE = re.compile(rf"(.*[\d)}}]) ([a-zA-Z][a-zA-Z ]*?)\.?{_POWER}", re.DOTALL)
_PER = re.compile(r"(.*[\d)}]) ([a-z]{1,5}) ?/ ?([a-z]{1,5})(?: ?\^ ?\{? ?([23]) ?\}?)?", re.DOTALL)
_GLUED = re.compile(
    rf"(.*\d) ?({'|'.join(sorted(_SHORT_UNITS | {'st', 'nd', 'rd', 'th', 'am', 'pm'}))}){_POWER}", re.DOTALL
)
_DEGREE = re.compile(r"(.*?) ?(?:\^ ?\{? ?\\circ ?\}?|\\degree)(?: ?(?:\\text ?\{ ?)?([CF]) ?\}?)?", re.DOTALL)
_PERCENT = re.compile(r"(.*?) ?\\?%", re.DOTALL)
_CURRENCIES = "dollar|euro|pound|yen|rupee"
_CURRENCY = re.compile(rf"([+-]?) ?(?:USD?)? ?\\({_CURRENCIES}) ?(.+)|(.+?) ?\\({_CURRENCIES})", re.DOTALL)


def amount_and_unit(text: str) -> tuple[str, str] | None:
    """Return the text of the amount and its unit in one spelling; None for a text without a unit."""
    if found := _CURRENCY.fullmatch(text):
        written, currency = found[3] or found[4], found[2] or found[5]
        if _CURRENCY.fullmatch(written):
            return None
        amount, unit = amount_and_unit(written) or (written, currency)
        return ((found[1] or "") + amount, unit) if unit in {currency, *MAGNITUDES} else None
    if found := _PERCENT.fullmatch(text):
        return found[1], PERCENT
    if found := _DEGREE.fullmatch(text):
        return found[1], DEGREES + (found[2] or "").lower()
    if (found := _WRAPPED.fullmatch(text)) and found[1] and re.search(r"[a-zA-Z%$°]", found[2]):
        return _named(found[1], found[2], found[3])
    if found := _BARE.fullmatch(text):
        words = found[2].casefold().split()
        if not _NO_UNITS & set(words) and all(len(word) > 2 or word in _SHORT_UNITS for word in words[:1]):
            return _named(found[1], found[2], found[3])
    if (found := _PER.fullmatch(text)) and {found[2], found[3]} <= _SHORT_UNITS | _ONE_LETTER_UNITS:
        return _named(found[1], f"{found[2]}/{found[3]}", found[4])
    if found := _GLUED.fullmatch(text):
        return _named(found[1], found[2], found[3])
    return None


def magnitude(unit: str) -> tuple[Fraction, str] | None:
    """Return the factor of the unit's first word (`million dollars`) and the rest of the unit."""
    word, _, rest = unit.partition(" ")
    return (Fraction(MAGNITUDES[word]), rest) if word in MAGNITUDES else None


def size_of(unit: str) -> tuple[str, Fraction] | None:
    """Return what a unit measures and its size in one common unit of that kind; None for an unknown unit."""
    name, _, power = unit.partition("^")
    if name not in _SIZES:
        return None
    kind, size = _SIZES[name]
    return (f"{kind}^{power}", size ** int(power)) if power else (kind, size)


def is_letter_unit(name: str) -> bool:
    """Whether the letter may be a unit behind an amount: `3 h`."""
    return name in _ONE_LETTER_UNITS


def _named(amount: str, words: str, power: str | None) -> tuple[str, str] | None:
    if re.search(r"\d", words):
        return None
    unit = " ".join(words.replace(".", " ").replace("\\", " ").casefold().split())
    if not unit or unit in _NO_UNITS or (len(unit) == 1 and unit not in _ONE_LETTER_UNITS):
        return None
    for prefix, exponent in (("square ", "2"), ("sq ", "2"), ("cubic ", "3"), ("cu ", "3")):
        if unit.startswith(prefix):
            unit, power = unit.removeprefix(prefix), exponent
    singular = " ".join(word[:-1] if len(word) > 2 and word.endswith("s") else word for word in unit.split())
    named = _SYNONYMS.get(singular, singular)
    return without_brackets(amount), f"{named}^{power}" if power else named
