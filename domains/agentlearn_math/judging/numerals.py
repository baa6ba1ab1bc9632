r"""Reading numbers exactly: `1,000`, `1/2`, `2\frac{1}{3}`, `0.1\overline{6}`, `3 \times 10^5`."""

import re
from fractions import Fraction

MAX_DIGITS = 1_000
"""Longer numbers are not read, since reading them takes more than linear time."""
MAX_EXPONENT = 1_000

_DECIMAL = rf"(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d{{1,{MAX_DIGITS}}})(?:\.\d{{0,{MAX_DIGITS}}})?|\.\d{{1,{MAX_DIGITS}}}"
_SIGNED = re.compile(rf"([+-]?) ?({_DECIMAL})", re.ASCII)
_QUOTIENT = re.compile(
    rf"([+-]?) ?(?:"
    rf"\\frac ?\{{ ?([+-]?(?:{_DECIMAL})) ?\}} ?\{{ ?([+-]?(?:{_DECIMAL})) ?\}}"
    rf"|\\frac ?(\d|\{{ ?\d{{1,{MAX_DIGITS}}} ?\}}) ?(\d|\{{ ?\d{{1,{MAX_DIGITS}}} ?\}})"
    rf"|({_DECIMAL}) ?/ ?({_DECIMAL})"
    rf")",
    re.ASCII,
)
_MIXED = re.compile(
    r"([+-]?) ?(\d{1,30}) ?(?:\\frac ?(\d|\{ ?\d{1,30} ?\}) ?(\d|\{ ?\d{1,30} ?\})|(?<= )(\d{1,30}) ?/ ?(\d{1,30}))",
    re.ASCII,
)
_REPEATING = re.compile(
    r"([+-]?) ?(\d{0,100})\.(\d{0,100})(?:\\(?:overline|bar|dot) ?(?:\{ ?(\d{1,100}) ?\}|(\d))|\((\d{1,100})\))",
    re.ASCII,
)
_EXPONENT = r"(?:\{ ?(-?\d{1,4}) ?\}|(\d)|\( ?(-?\d{1,4}) ?\))"
_SCIENTIFIC = re.compile(rf"([+-]?) ?({_DECIMAL}) ?(?:\\times|\\cdot|\*) ?10 ?\^ ?{_EXPONENT}", re.ASCII)


def number_value(text: str) -> int | Fraction | None:
    """Return the exact value of the normalised text; None unless it is one number."""
    if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
        return int(text)
    value = _number_in(text)
    return value.numerator if value is not None and value.denominator == 1 else value


def _number_in(text: str) -> Fraction | None:
    if found := _SIGNED.fullmatch(text):
        return _signed(found[1], _decimal(found[2]))
    if found := _QUOTIENT.fullmatch(text):
        sign, top, bottom = found[1], *(part.strip("{ }") for part in found.groups()[1:] if part)
        denominator = _decimal(bottom)
        return _signed(sign, _decimal(top) / denominator) if denominator else None
    if found := _MIXED.fullmatch(text):
        sign, whole, top, bottom = found[1], found[2], *(int(part.strip("{ }")) for part in found.groups()[2:] if part)
        return _signed(sign, int(whole) + Fraction(top, bottom)) if 0 < top < bottom else None
    if found := _REPEATING.fullmatch(text):
        return _signed(found[1], _repeating(found[2], found[3], found[4] or found[5] or found[6]))
    if found := _SCIENTIFIC.fullmatch(text):
        exponent = int(found[3] or found[4] or found[5])
        if abs(exponent) <= MAX_EXPONENT:
            return _signed(found[1], _decimal(found[2]) * Fraction(10) ** exponent)
    return None


def _repeating(whole: str, fixed: str, period: str) -> Fraction:
    start = Fraction(int((whole + fixed) or "0"), 10 ** len(fixed))
    return start + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value
