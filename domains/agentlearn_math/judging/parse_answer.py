r"""Reading the text of an answer, expected or given, into a typed form: `parse_answer`.

Conventions for notations with more than one meaning:
- `50\%` is the number 1/2. Compared with a plain 50 it is 50; compared with numbers up to 1 the sign is needed.
- One side may leave out a unit, a currency or a degree sign; two different units are undecided.
- A whole number before a proper fraction of digits is a mixed number; `1,000` is a thousand, or else a list.
- Values with commas or "or" between them have no order without brackets; in round brackets they do.
- `1e-3` is a thousandth or a formula, whichever fits.
- `x = 5` gives 5; two sides with letters are an equation.
"""

import re
from fractions import Fraction
from functools import lru_cache

from agentlearn_math.judging.exact import exact_value
from agentlearn_math.judging.forms import (
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
    parts_of,
)
from agentlearn_math.judging.formula import parse
from agentlearn_math.judging.normalise import MAX_CHARACTERS, normalise, unwrapped, without_brackets
from agentlearn_math.judging.numerals import number_value
from agentlearn_math.judging.quantities import DEGREES, amount_and_unit, magnitude
from agentlearn_math.judging.splitting import split_outside
from agentlearn_math.judging.structure import EVERYTHING, collection_in, matrix_in, relation_in, union_in
from agentlearn_math.judging.syntax import Literal, Node, Symbol, nodes
from agentlearn_math.judging.times import time_in
from agentlearn_math.judging.tokens import UnreadableFormula
from agentlearn_math.judging.words import is_every_number, labelled_choice, words_in

EMPTY = Unreadable("is empty")
MAX_DEPTH = 6
"""Most levels of collections inside collections."""

_INFINITE = re.compile(r"([+-]?) ?(?:\\infty|infinity|inf|oo)")
_BASE = r"(?:(\d)|\{ ?\(? ?(\d{1,2}|\\?[a-z]{2,8} ?\{? ?[a-z]* ?\}?) ?\)? ?\})"
_BASED = re.compile(rf"(?:\\(?:text|mathrm) ?\{{ ?)?([0-9A-Za-z]{{1,300}}) ?\}}? ?_ ?{_BASE}")
_BASE_NAMES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_E_NOTATION = re.compile(r"([+-]?\d{1,30}(?:\.\d{0,30})?)[eE]([+-]?\d{1,3})", re.ASCII)
_GROUPED = re.compile(r"(?<![\d.])[1-9]\d{0,2}(?:,\d{3})+(?!\d)")
_POINTS_AND_COMMA = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,\d+", re.ASCII)
_CLOCK = re.compile(r"\d{1,2} ?: ?\d\d", re.ASCII)


def parse_answer(text: str) -> Form:
    """Return the form of an answer (cached). Never raises: an unreadable text is `Unreadable` with its reason."""
    return _cached_form(text)


@lru_cache(maxsize=4_096)
def _cached_form(text: str) -> Form:
    return form_of(text)


def form_of(text: str) -> Form:
    """Return the form of an answer."""
    if len(text) > MAX_CHARACTERS:
        return Unreadable(f"is longer than {MAX_CHARACTERS:,} characters")
    return read(normalise(text), MAX_DEPTH)


def read(text: str, depth: int) -> Form:
    """Return the form of a normalised text with at most `depth` levels of collections."""
    text = without_brackets(text)
    if not text:
        return EMPTY
    if depth <= 0:
        return Unreadable("nests too many brackets")
    if _POINTS_AND_COMMA.fullmatch(text):
        return Unreadable("uses points and a comma as other countries do")
    if (value := number_value(text)) is not None:
        return Number(value) if "," not in text else _grouped(text, depth, Number(value))
    if (inner := unwrapped(text)) and (words_in(text) is None or labelled_choice(inner) or len(inner) == 1):
        return read(inner, depth)
    return _not_a_number(text, depth)


def _not_a_number(text: str, depth: int) -> Form:
    if depth == MAX_DEPTH and (choice := labelled_choice(text)) is not None:
        form = _choice(*choice, depth)
        return Readings((form, Formula(Symbol(text)))) if text.islower() and len(text) == 1 else form
    if found := _INFINITE.fullmatch(text):
        return Infinity(-1 if found[1] == "-" else 1)
    if (based := _based(text)) is not None:
        return based
    if found := _E_NOTATION.fullmatch(text):
        value = Fraction(found[1]) * Fraction(10) ** int(found[2])
        return Readings((_formula(text), Number(value.numerator if value.denominator == 1 else value)))
    if (time := time_in(text)) is not None:
        return Readings((time, _formula(text))) if text.isalnum() and not text.isalpha() else time
    if (words := words_in(text)) is not None:
        return EVERYTHING if is_every_number(words) else _words(words, text)
    if _GROUPED.search(text) and (form := _structure(text, depth)) is not None:
        return _grouped(text, depth, form)
    if (form := _structure(text, depth)) is not None:
        return form
    if (quantity := _quantity(text, depth)) is not None:
        return quantity
    return _formula(text)


def _structure(text: str, depth: int) -> Form | None:
    """Read a form made of parts."""

    def part(inner: str) -> Form:
        return read(inner, depth - 1)

    for reader in (matrix_in, union_in, relation_in, collection_in):
        if (form := reader(text, part)) is not None:
            return next((inner for inner in parts_of(form) if isinstance(inner, Unreadable)), form)
    return _signs(text, depth) or _ratio(text, depth)


def _grouped(text: str, depth: int, usual: Form) -> Form:
    """Read `1,000` as a number or as two values; in brackets the two values are more usual."""
    joined = _GROUPED.sub(lambda found: found.group().replace(",", ""), text)
    if isinstance(usual, Number):
        parts = tuple(read(part, depth - 1) for part in text.split(","))
        return Readings((usual, Listing(parts)))
    return Readings((usual, read(joined, depth)))


def _choice(letter: str, content: str, depth: int) -> Form:
    return ChoiceLetter(letter, read(content, depth - 1) if content else None)


def _words(words: str, text: str) -> Form:
    """Read words; short ones without a wrapper are also read as a product of letters."""
    return Words(words) if len(words) > 3 or "\\" in text else Readings((Words(words), _formula(text)))


def _based(text: str) -> Form | None:
    found = _BASED.fullmatch(text)
    if not found:
        return None
    written = re.sub(r"\\text|[\\{} ]", "", found[2] or found[3])
    base = _BASE_NAMES.get(written) or (int(written) if written.isdecimal() else 0)
    digits = found[1].upper().lstrip("0") or "0"
    if not re.search(r"\d", found[1]) or not 2 <= base <= 36:
        return None
    try:
        int(digits, base)
    except ValueError:
        return Unreadable(f"holds the digits {digits!r}, which base {base} does not have")
    return Based(digits, base)


def _quantity(text: str, depth: int) -> Form | None:
    if (found := amount_and_unit(text)) is None:
        return None
    written, unit = found
    amount = read(written, depth - 1)
    if not isinstance(amount, Number | Formula | Readings | Infinity | Equation):
        return None
    if unit.startswith(DEGREES) and isinstance(amount, Formula) and not _is_plain(amount.node):
        return None
    if isinstance(amount, Equation):
        return Equation(amount.label, amount.left, Quantity(amount.right, unit))
    if (scaled := magnitude(unit)) is not None:
        factor, unit = scaled
        number = amount.forms[0] if isinstance(amount, Readings) else amount
        if not isinstance(number, Number):
            return None
        value = Fraction(number.value) * factor
        amount = Number(value.numerator if value.denominator == 1 else value)
    return Quantity(amount, unit) if unit else amount


def _is_plain(node: Node) -> bool:
    """Whether a degree sign after the formula applies to all of it: a letter, a product or a quotient."""
    return all(isinstance(one, Literal | Symbol) or one.op in {"mul", "div", "root"} for one in nodes(node))


def _signs(text: str, depth: int) -> Form | None:
    r"""Read `3 \pm 2` as two values."""
    if text.count(r"\pm") != 1 or r"\mp" in text:
        return Unreadable("holds several signs of plus and minus") if r"\pm" in text or r"\mp" in text else None
    both = [read(text.replace(r"\pm", sign), depth - 1) for sign in "+-"]
    return Listing(tuple(both))


def _ratio(text: str, depth: int) -> Form | None:
    parts = split_outside(text, ":")
    if len(parts) < 2 or not all(parts):
        return None
    return Ratio(tuple(read(part, depth - 1) for part in parts), _CLOCK.fullmatch(text) is not None)


def _formula(text: str) -> Form:
    try:
        node = parse(text)
    except UnreadableFormula as refused:
        return Unreadable(str(refused))
    value = exact_value(node)
    if value is None:
        return Formula(node)
    return Number(value.numerator if value.denominator == 1 else value)
