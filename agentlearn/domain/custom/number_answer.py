"""Reading the one number in an answer exactly: integers, decimals, fractions, separators, percent, magnitudes.

A text with two numbers has no value: an answer that offers `12 or 13` must not be right for either. An expression such
as `√5` has none either, nor has a time of day or a bound such as `less than 5`. Units are ignored. A percent sign
divides by 100. The decimal sign is the point.
"""

import re
import unicodedata
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction

from agentlearn.domain.custom.final_answer import plainly_set

RELATIVE_TOLERANCE = Fraction(1, 1_000_000)
_KEY_DIGITS = 6

_DECIMAL = (
    r"(?:[1-9]\d{0,2}(?P<separator>[, '_])\d{3}(?:(?P=separator)\d{3})*(?!\d)(?:\.\d{1,400})?"
    r"|\d{1,400}(?:\.\d{1,400})?|\.\d{1,400})"
)
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[+-]?|(?:minus|negative)(?= )) ?[$€£¥]? ?"
    rf"(?:(?P<whole>\d{{1,400}}) (?=\d+ ?/))?"
    rf"(?P<top>{_DECIMAL})(?:e(?P<power>[+-]?\d{{1,3}})(?!\w))?"
    rf"(?: ?/ ?(?P<bottom>\d{{1,400}}(?:\.\d{{1,400}})?))?"
    rf"(?P<percent> ?(?:%|per ?cent\b))?"
    rf"(?: ?(?P<magnitude>dozen|hundred|thousand|million|billion|trillion)s?\b)?",
    re.ASCII | re.IGNORECASE,
)
_MAGNITUDES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_NOT_ALONE = re.compile(
    r"[√∛∜^*+<>≤≥≠±π∞‰]|\d"
    r"|\b(?:sqrt|root|log|ln|exp|sin|cos|tan|pi|pm|times|cdot|factorial|squared|cubed|or|[a-z]*illions?|hundreds?|thousands?)\b",
    re.IGNORECASE,
)
"""Text next to a number that makes it part of an expression or one of several numbers."""

_BOUND = re.compile(
    r"\b(?:(?:less|more|fewer|greater|larger|smaller) than|at least|at most|up to|not|half of)\s*\Z", re.IGNORECASE
)
"""Words right before a number that make it something else."""
_PART_OF_MORE = re.compile(
    r"\s?(?:[ap]\.? ?m\b|o ?'? ?clock\b|noon\b|midnight\b|in the (?:morning|afternoon|evening)\b|at night\b"
    r"|half\b|halves\b|(?:third|fourth|fifth|sixth|eighth|tenth|hundredth|thousandth)s?\b"
    r"|and an? (?:half|third|quarter)\b"
    r"|(?-i:k|bn|mn)\b)",
    re.IGNORECASE,
)
"""Words right behind a number that make it a time of day, a fraction or a larger number."""

_PLAIN = {
    "\N{MINUS SIGN}": "-",
    "\N{FRACTION SLASH}": "/",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "{,}": ",",
    "\\,": ",",
    "\\%": "%",
    "\\$": "$",
    "**": ";",
    "`": ";",
}
_FRACTION = re.compile(r"\\[dtc]?frac ?\{([^{}]{1,400})\} ?\{([^{}]{1,400})\}")
_SCIENTIFIC = re.compile(r"(?<=\d) ?(?:×|x|\*|\\times|\\cdot) ?10 ?\^ ?\{?([+-]?\d{1,3})\}?(?!\d)")
_POWER_OF_UNIT = re.compile(r"(?<!\d[eE])(?<=[^\W\d_]|\})\^?\{?[23]\}?(?![\d.,])")
_BULLET = re.compile(r"\A\s*[-•]\s+")


def single_number(text: str) -> Fraction | None:
    """Return the exact value of the only number in the text; None when there is none or it is not alone."""
    text = _plain(text)
    found = _NUMBER.search(text)
    if found is None or _NOT_ALONE.search(f"{text[: found.start()]} {text[found.end() :]}"):
        return None
    if _BOUND.search(text, 0, found.start()) or _PART_OF_MORE.match(text, found.end()):
        return None
    return _value(found)


def same_number(value: Fraction, gold: Fraction) -> bool:
    """Whether a value equals the expected one: exactly for integers, within a relative 1e-6 for others."""
    return value == gold if gold.denominator == 1 else abs(value - gold) <= RELATIVE_TOLERANCE * abs(gold)


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


def _plain(text: str) -> str:
    """Return the text in plain characters, one notation and single spaces, without bullets and powers of units."""
    text = unicodedata.normalize("NFKC", plainly_set(_BULLET.sub("", text)))
    for fancy, plain in _PLAIN.items():
        text = text.replace(fancy, plain)
    text = " ".join(text.split())
    return _POWER_OF_UNIT.sub("", _SCIENTIFIC.sub(r"e\1", _FRACTION.sub(r" \1/\2 ", text)))


def _value(found: re.Match[str]) -> Fraction | None:
    value = _decimal(found["top"]) * Fraction(10) ** int(found["power"] or 0)
    if found["bottom"]:
        bottom = Fraction(found["bottom"])
        if not bottom:
            return None
        value /= bottom
    value += int(found["whole"] or 0)
    if found["percent"]:
        value /= 100
    if found["magnitude"]:
        value *= _MAGNITUDES[found["magnitude"].casefold()]
    return value if found["sign"] in {"", "+"} else -value


def _decimal(text: str) -> Fraction:
    return Fraction(re.sub(r"[, '_]", "", text))
