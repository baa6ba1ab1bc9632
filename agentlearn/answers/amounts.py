r"""Amounts with their units in LaTeX: `3\text{ cm}^2`, `45^\circ`, `50\%`, `\$5 million`."""

import re

from agentlearn.answers.latex import without_brackets
from agentlearn.answers.units import MeasureUnit, magnitude_at

PERCENT, DEGREES = "%", "°"
_SHORT_UNITS = frozenset({"cm", "mm", "km", "kg", "mg", "ml", "ft", "in", "lb", "oz", "hr", "min", "sec", "mph"})
ONE_LETTER_UNITS = frozenset("acfghjklmnsvw")
"""Letters that may be units behind an amount: `3 h`."""
_NO_UNITS = frozenset(
    (
        *("or", "and", "to", "if", "is", "for", "when", "where", "mod", "pi", "sqrt", "sin", "cos", "tan", "cot"),
        *("sec", "csc", "log", "ln", "exp", "with"),
    )
)
_OTHER_NAMES = {"in": "inch", "deg": "°", "buck": "usd", "percentage": "%", "inche": "inch"}
_PREFIXES = {"square ": "2", "sq ": "2", "cubic ": "3", "cu ": "3"}
_POWER = r"(?: ?\^ ?\{? ?([23]) ?\}?)?"
_WRAPPER = r"\\(?:text|textrm|textbf|textit|textsf|textnormal|mathrm|mathbf|mbox|hbox)"
_UNIT_IN_WRAPPER = re.compile(rf"(.*?\S?) ?{_WRAPPER} ?\{{([^{{}}]*)\}}{_POWER}", re.DOTALL)
_BARE_UNIT = re.compile(rf"(.*[\d)}}]) ([a-zA-Z][a-zA-Z ]*?)\.?{_POWER}", re.DOTALL)
_BEFORE_WORD = re.compile(r".*[\d)}](?= ?[^\W\d_])", re.DOTALL)
_PER = re.compile(rf"(.*[\d)}}]) ([a-z]{{1,5}}) ?/ ?([a-z]{{1,5}}){_POWER}", re.DOTALL)
_GLUED = re.compile(
    rf"(.*\d) ?({'|'.join(sorted(_SHORT_UNITS | {'st', 'nd', 'rd', 'th', 'am', 'pm'}))}){_POWER}", re.DOTALL
)
_DEGREE = re.compile(r"(.*?) ?(?:\^ ?\{? ?\\circ ?\}?|\\degree)(?: ?(?:\\text ?\{ ?)?([CF]) ?\}?)?", re.DOTALL)
_PERCENT = re.compile(r"(.*?) ?\\?%", re.DOTALL)
_CURRENCIES = {"dollar": "usd", "euro": "eur", "pound": "gbp", "yen": "jpy", "rupee": "inr"}
_COMMANDS = "|".join(_CURRENCIES)
_CURRENCY = re.compile(rf"([+-]?) ?(?:USD?)? ?\\({_COMMANDS}) ?(.+)|(.+?) ?\\({_COMMANDS})", re.DOTALL)


def amount_and_unit(text: str) -> tuple[str, int, str] | None:
    """Return the text of an amount, by what a word such as `million` multiplies it, and its unit in one spelling.

    The unit is empty for a magnitude alone, and the factor 0 for one that means several. None without a unit.
    """
    if found := _CURRENCY.fullmatch(text):
        written, currency = found[3] or found[4], _CURRENCIES[found[2] or found[5]]
        if _CURRENCY.fullmatch(written):
            return None
        amount, factor, unit = amount_and_unit(written) or (written, 1, "")
        return ((found[1] or "") + amount, factor, currency) if unit in {currency, ""} else None
    if found := _PERCENT.fullmatch(text):
        return found[1], 1, PERCENT
    if found := _DEGREE.fullmatch(text):
        return found[1], 1, DEGREES + (found[2] or "").lower()
    if (found := _UNIT_IN_WRAPPER.fullmatch(text)) and found[1] and re.search(r"[a-zA-Z%$°]", found[2]):
        return _with_unit(found[1], found[2], found[3])
    if (found := _BEFORE_WORD.match(text)) and magnitude_at(text, found.end()):
        return _with_unit(found[0], text[found.end() :], None)
    if found := _BARE_UNIT.fullmatch(text):
        words = found[2].casefold().split()
        if not _NO_UNITS & set(words) and (len(words[0]) > 2 or words[0] in _SHORT_UNITS):
            return _with_unit(found[1], found[2], found[3])
    if (found := _PER.fullmatch(text)) and {found[2], found[3]} <= _SHORT_UNITS | ONE_LETTER_UNITS:
        return _with_unit(found[1], f"{found[2]}/{found[3]}", found[4])
    found = _GLUED.fullmatch(text)
    return _with_unit(found[1], found[2], found[3]) if found else None


def _with_unit(amount: str, words: str, power: str | None) -> tuple[str, int, str] | None:
    unit = " ".join(words.replace(".", " ").replace("\\", " ").casefold().split())
    factor, end = magnitude_at(unit) or (1, 0)
    is_letter = len(unit) == 1 and unit not in ONE_LETTER_UNITS and not end
    if not unit or is_letter or unit in _NO_UNITS or re.search(r"\d", unit):
        return None
    unit = unit[end:].strip()
    for prefix, exponent in _PREFIXES.items():
        if unit.startswith(prefix):
            unit, power = unit.removeprefix(prefix), exponent
    singular = " ".join(word[:-1] if len(word) > 2 and word.endswith("s") else word for word in unit.split())
    known = MeasureUnit.named(unit) or MeasureUnit.named(singular)
    name = _OTHER_NAMES.get(singular) or (known.name if known else singular)
    return without_brackets(amount), factor, f"{name}^{power}" if power else name
