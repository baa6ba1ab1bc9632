r"""Reading the text of an answer of mathematics, expected or given, into a typed form: `parse_answer`.

Conventions for notations with more than one meaning:
- `50\%` is the number 1/2. Compared with a plain 50 it is 50; compared with numbers up to 1 the sign is needed.
- One side may leave out a unit, a currency or a degree sign; two different units are undecided.
- A whole number before a proper fraction of digits is a mixed number; `1,000` is a thousand, or else a list.
- Values with commas or "or" between them have no order without brackets; in round brackets they do.
- `1e-3` is a thousandth or a formula, whichever fits.
- `x = 5` gives 5; two sides with letters are an equation.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from agentlearn.answers.forms import (
    Based,
    ChoiceLetter,
    Equation,
    Form,
    Formula,
    Infinity,
    Listing,
    Number,
    Quantity,
    Ratio,
    Readings,
    Unreadable,
    Words,
    number,
    parts_of,
)
from agentlearn.answers.formula import UnreadableFormula, parse
from agentlearn.answers.latex import MAX_CHARACTERS, normalise, split_outside, unwrapped, without_brackets
from agentlearn.answers.numbers import LARGE_NUMBERS, SMALL_NUMBERS, number_value
from agentlearn.answers.parts import EVERYTHING, PartReader
from agentlearn.answers.syntax import Literal, Symbol, exact_value, nodes
from agentlearn.answers.times import ClockTime
from agentlearn.answers.units import MeasureUnit

EMPTY = Unreadable("is empty")
PERCENT, DEGREES = "%", "°"
MAX_DEPTH = 6
"""Most levels of collections inside collections."""

_INFINITE = re.compile(r"([+-]?) ?(?:\\infty|infinity|inf|oo)")
_BASE = r"(?:(\d)|\{ ?\(? ?(\d{1,2}|\\?[a-z]{2,8} ?\{? ?[a-z]* ?\}?) ?\)? ?\})"
_BASED = re.compile(rf"(?:\\(?:text|mathrm) ?\{{ ?)?([0-9A-Za-z]{{1,300}}) ?\}}? ?_ ?{_BASE}")
_E_NOTATION = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?)[eE]([+-]?\d{1,3})", re.ASCII)
_GROUPED = re.compile(r"(?<![\d.])[1-9]\d{0,2}(?:,\d{3})+(?!\d)")
_POINTS_AND_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+", re.ASCII)
_CLOCK = re.compile(r"\d{1,2} ?: ?\d\d", re.ASCII)
_MAYBE_TIME = re.compile(r"\d{1,2}(?!\d)(?! ?[-+*/^,=<>])|at |noon|mid|\\(?:text|math|mbox)", re.ASCII | re.IGNORECASE)

_CHOICE = re.compile(r"\(? ?([A-Ja-e])(?: ?\)|\.|:)?")
_LABELLED = re.compile(r"(?:\( ?([A-J]) ?\)|([A-J])[.):]) ?([^\s,;+*/^=_<>].*)", re.DOTALL)
_WRAPPED_LABEL = re.compile(
    r"\\(?:text|textbf|textrm|mathrm|mathbf) ?\{ ?\(? ?([A-J]) ?(?:\)|\.|:) ?\} ?(.*)", re.DOTALL
)
_WRAPPERS = re.compile(r"\\(?:text|textbf|textit|textrm|textsc|mathrm|mathbf|mbox|emph) ?\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_][^\\{}^_=<>+*/()\[\]|]*", re.DOTALL)
_EVERY_NUMBER = re.compile(
    r"(?:all|any|every|all the|the) (?:possible )?real(?:s| numbers?| values?)?(?: of [a-z])?|all reals"
)

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
_PER = re.compile(rf"(.*[\d)}}]) ([a-z]{{1,5}}) ?/ ?([a-z]{{1,5}}){_POWER}", re.DOTALL)
_GLUED = re.compile(
    rf"(.*\d) ?({'|'.join(sorted(_SHORT_UNITS | {'st', 'nd', 'rd', 'th', 'am', 'pm'}))}){_POWER}", re.DOTALL
)
_DEGREE = re.compile(r"(.*?) ?(?:\^ ?\{? ?\\circ ?\}?|\\degree)(?: ?(?:\\text ?\{ ?)?([CF]) ?\}?)?", re.DOTALL)
_PERCENT = re.compile(r"(.*?) ?\\?%", re.DOTALL)
_CURRENCIES = {"dollar": "usd", "euro": "eur", "pound": "gbp", "yen": "jpy", "rupee": "inr"}
_COMMANDS = "|".join(_CURRENCIES)
_CURRENCY = re.compile(rf"([+-]?) ?(?:USD?)? ?\\({_COMMANDS}) ?(.+)|(.+?) ?\\({_COMMANDS})", re.DOTALL)


@lru_cache(maxsize=4_096)
def parse_answer(text: str) -> Form:
    """Return the form of an answer (cached). Never raises: an unreadable text is `Unreadable` with its reason."""
    return form_of(text)


def form_of(text: str) -> Form:
    """Return the form of an answer."""
    if len(text) > MAX_CHARACTERS:
        return Unreadable(f"is longer than {MAX_CHARACTERS:,} characters")
    return _Reader(MAX_DEPTH).read(normalise(text))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads normalised texts."""

    depth: int
    """Most levels of collections inside collections."""

    def part(self, text: str) -> Form:
        """Return the form of a text inside another."""
        return _Reader(self.depth - 1).read(text)

    def read(self, text: str) -> Form:
        """Return the form of a normalised text."""
        text = without_brackets(text)
        if not text:
            return EMPTY
        if self.depth <= 0:
            return Unreadable("nests too many brackets")
        if _POINTS_AND_COMMA.fullmatch(text):
            return Unreadable("uses points and a comma as other countries do")
        if (value := number_value(text)) is not None:
            if "," not in text:
                return Number(value)
            return Readings((Number(value), Listing(tuple(self.part(part) for part in text.split(",")))))
        if (inner := unwrapped(text)) and (_words_in(text) is None or _labelled_choice(inner) or len(inner) == 1):
            return self.read(inner)
        if self.depth == MAX_DEPTH and (choice := _labelled_choice(text)) is not None:
            letter, content = choice
            form = ChoiceLetter(letter, self.part(content) if content else None)
            return Readings((form, Formula(Symbol(text)))) if text.islower() and len(text) == 1 else form
        if found := _INFINITE.fullmatch(text):
            return Infinity(-1 if found[1] == "-" else 1)
        if (based := _based(text)) is not None:
            return based
        if found := _E_NOTATION.fullmatch(text):
            return Readings((_formula(text), number(Fraction(found[1]) * Fraction(10) ** int(found[2]))))
        said = " ".join(_WRAPPERS.sub(r" \1 ", text).split()).casefold().strip(" .")
        time = ClockTime.read(said) if _MAYBE_TIME.match(text) else None
        if time is not None and time.marked and not time.zone:  # a text that does not say so is no time of day
            return Readings((time, _formula(text))) if text.isalnum() and not text.isalpha() else time
        if (words := _words_in(text)) is not None:
            if _EVERY_NUMBER.fullmatch(words):
                return EVERYTHING
            # short words without a wrapper are also read as a product of letters
            return Words(words) if len(words) > 3 or "\\" in text else Readings((Words(words), _formula(text)))
        form = self._structure(text)
        if form is not None and _GROUPED.search(text):  # `1,000` in it is two values, or else a number
            joined = _GROUPED.sub(lambda found: found[0].replace(",", ""), text)
            return Readings((form, self.read(joined)))
        return form or self._quantity(text) or _formula(text)

    def _structure(self, text: str) -> Form | None:
        """Read a form made of parts."""

        if (form := PartReader(self.part).form(text)) is not None:
            return next((inner for inner in parts_of(form) if isinstance(inner, Unreadable)), form)
        if r"\pm" in text or r"\mp" in text:
            if text.count(r"\pm") != 1 or r"\mp" in text:
                return Unreadable("holds several signs of plus and minus")
            return Listing(tuple(self.part(text.replace(r"\pm", sign)) for sign in "+-"))
        sides = split_outside(text, ":")
        if len(sides) < 2 or not all(sides):
            return None
        return Ratio(tuple(map(self.part, sides)), _CLOCK.fullmatch(text) is not None)

    def _quantity(self, text: str) -> Form | None:
        if (found := _amount_and_unit(text)) is None:
            return None
        written, factor, unit = found
        amount = self.part(written)
        if not isinstance(amount, Number | Formula | Readings | Infinity | Equation):
            return None
        if unit.startswith(DEGREES) and isinstance(amount, Formula):
            inside = nodes(amount.node)  # a degree sign applies to all of a letter, a product or a quotient
            if not all(isinstance(one, Literal | Symbol) or one.op in {"mul", "div", "root"} for one in inside):
                return None
        if isinstance(amount, Equation):
            return Equation(amount.label, amount.left, Quantity(amount.right, unit))
        if factor != 1:
            plain = amount.forms[0] if isinstance(amount, Readings) else amount
            if not isinstance(plain, Number):
                return None
            amount = number(Fraction(plain.value) * factor)
        return Quantity(amount, unit) if unit else amount


def _labelled_choice(text: str) -> tuple[str, str] | None:
    """Return the letter of a choice in upper case and the text next to it; None when the text is not a choice."""
    if found := _WRAPPED_LABEL.fullmatch(text):
        return found[1], found[2].strip()
    if found := _LABELLED.fullmatch(text):
        return found[1] or found[2], found[3].strip()
    found = _CHOICE.fullmatch(text)
    return (found[1].upper(), "") if found else None


def _words_in(text: str) -> str | None:
    """Return the words in lower case; None when the text is not only words."""
    plain, wrapped = _WRAPPERS.subn(r" \1 ", text)
    plain = " ".join(plain.split()).strip(" .!\"'")
    if not _WORDS.fullmatch(plain):
        return None
    letters = re.sub("[ ',-]", "", plain).casefold()
    is_word = wrapped or len(letters) > 3 or letters == "no" or (len(letters) > 2 and set("aeiou") & set(letters))
    return plain.casefold() if letters.isalpha() and is_word else None


def _based(text: str) -> Form | None:
    if (found := _BASED.fullmatch(text)) is None:
        return None
    written = re.sub(r"\\text|[\\{} ]", "", found[2] or found[3])
    base = int(written) if written.isdecimal() else SMALL_NUMBERS.get(written, 0)
    digits = found[1].upper().lstrip("0") or "0"
    if not re.search(r"\d", found[1]) or not 2 <= base <= 36:
        return None
    try:
        int(digits, base)
    except ValueError:
        return Unreadable(f"holds the digits {digits!r}, which base {base} does not have")
    return Based(digits, base)


def _amount_and_unit(text: str) -> tuple[str, int, str] | None:
    """Return the text of an amount, by what a word such as `million` multiplies it, and its unit in one spelling.

    The unit is empty for a magnitude alone. None for a text without a unit.
    """
    if found := _CURRENCY.fullmatch(text):
        written, currency = found[3] or found[4], _CURRENCIES[found[2] or found[5]]
        if _CURRENCY.fullmatch(written):
            return None
        amount, factor, unit = _amount_and_unit(written) or (written, 1, "")
        return ((found[1] or "") + amount, factor, currency) if unit in {currency, ""} else None
    if found := _PERCENT.fullmatch(text):
        return found[1], 1, PERCENT
    if found := _DEGREE.fullmatch(text):
        return found[1], 1, DEGREES + (found[2] or "").lower()
    if (found := _UNIT_IN_WRAPPER.fullmatch(text)) and found[1] and re.search(r"[a-zA-Z%$°]", found[2]):
        return _with_unit(found[1], found[2], found[3])
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
    is_letter = len(unit) == 1 and unit not in ONE_LETTER_UNITS
    if not unit or is_letter or unit in _NO_UNITS or re.search(r"\d", unit):
        return None
    factor, (first, _, rest) = 1, unit.partition(" ")
    if first.removesuffix("s") in LARGE_NUMBERS:
        factor, unit = LARGE_NUMBERS[first.removesuffix("s")], rest
    for prefix, exponent in _PREFIXES.items():
        if unit.startswith(prefix):
            unit, power = unit.removeprefix(prefix), exponent
    singular = " ".join(word[:-1] if len(word) > 2 and word.endswith("s") else word for word in unit.split())
    known = MeasureUnit.named(unit) or MeasureUnit.named(singular)
    name = _OTHER_NAMES.get(singular) or (known.name if known else singular)
    return without_brackets(amount), factor, f"{name}^{power}" if power else name


def _formula(text: str) -> Form:
    try:
        node = parse(text)
    except UnreadableFormula as refused:
        return Unreadable(str(refused))
    value = exact_value(node)
    return Formula(node) if value is None else number(value)
