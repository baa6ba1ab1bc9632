"""Final answers as text: finding the box, and the exact value of what stands in it. No symbolic algebra here."""

import re
from fractions import Fraction

_TOKEN = re.compile(r"\\(?:boxed|framebox)\s*\{|\\.|[{}]", re.DOTALL)

_DELIMITERS = re.compile(r"\\?\$|(?<!\\)\\[()\[\]]")
_SPACING = re.compile(r"(?<!\\)\\[!,;: ]|\\(?:left|right|displaystyle)(?![a-zA-Z])|~")
_WRAPPER = r"\\(?:text|textbf|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}"
_WRAPPED = re.compile(_WRAPPER)
_UNIT = re.compile(rf"\s*{_WRAPPER}(?:\s*\^\s*\{{?[23]\}}?)?$")
_DEGREES = re.compile(r"\s*(?:\^\s*(?:\\circ|\{\s*\\circ\s*\})|\\degree|°|\\?%)$")
_MAGNITUDE = re.compile(r"dozen|hundred|thousand|(?:b|m|tr)illion", re.IGNORECASE)

_DECIMAL = r"(?:\d{1,3}(?:,\d{3})+|\d{1,1000})(?:\.\d{0,1000})?|\.\d{1,1000}"
_NUMBER = re.compile(rf"([+-]?)\s*({_DECIMAL})", re.ASCII)
_QUOTIENT = re.compile(
    rf"([+-]?)\s*(?:"
    rf"\\frac\s*\{{\s*([+-]?(?:{_DECIMAL}))\s*\}}\s*\{{\s*([+-]?(?:{_DECIMAL}))\s*\}}"
    rf"|\\frac\s*(\d|\{{\d+\}})\s*(\d|\{{\d+\}})"
    rf"|({_DECIMAL})\s*/\s*({_DECIMAL})"
    rf")",
    re.ASCII,
)


def boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` or `\framebox{…}` whose braces balance; None when there is none."""
    last: tuple[int, int] | None = None
    opened: list[int | None] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == "{":
            opened.append(None)
        elif word.endswith("{") and len(word) > 2:
            opened.append(token.end())
        elif word == "}" and opened:
            start = opened.pop()
            if start is not None and (last is None or start > last[0]):
                last = (start, token.start())
    return None if last is None else text[last[0] : last[1]].strip()


def tidy(text: str) -> str:
    """The answer without dressing: math delimiters, spacing commands, a final period, units."""
    text = text.replace("\N{MINUS SIGN}", "-").replace("{,}", ",")
    text = _SPACING.sub("", _DELIMITERS.sub("", text)).strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip()
    text = _without_units(re.sub(r"\\[dtc]frac", r"\\frac", text))
    return text[1:-1].strip() if _is_braced(text) else text


def rational(text: str) -> Fraction | None:
    """The exact value of an integer, decimal or simple fraction; None for anything else."""
    text = tidy(text)
    if number := _NUMBER.fullmatch(text):
        return _signed(number[1], _decimal(number[2]))
    if quotient := _QUOTIENT.fullmatch(text):
        sign, top, bottom = quotient[1], *(part.strip("{}") for part in quotient.groups()[1:] if part)
        if denominator := _decimal(bottom):
            return _signed(sign, _decimal(top) / denominator)
    return None


def answer_key(text: str) -> str | None:
    """A canonical form in which equal rational numbers are equal (`033` and `33`, `1/2` and `0.5`); None when empty.

    Other answers keep their words, without dressing and white space.
    """
    value = rational(text)
    return str(value) if value is not None else "".join(tidy(text).split()) or None


def _without_units(text: str) -> str:
    r"""`12\text{ cm}` and `90^\circ` without the unit; a wrapper around everything is taken off, "5 million" stays."""
    if whole := _WRAPPED.fullmatch(text):
        return whole[1].strip()
    unit = _UNIT.search(text)
    if unit and not _MAGNITUDE.search(unit[1]) and not re.search(r"\d", unit[1]):
        return text[: unit.start()]
    bare = _DEGREES.sub("", text)
    return bare if _NUMBER.fullmatch(bare) or _QUOTIENT.fullmatch(bare) else text


def _is_braced(text: str) -> bool:
    return len(text) > 1 and text[0] == "{" and text[-1] == "}" and "{" not in text[1:] and "}" not in text[:-1]


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value
