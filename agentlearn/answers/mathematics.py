r"""Reading the text of an answer of mathematics, expected or given, into a typed form: `parse_answer`.

Conventions for notations with more than one meaning:
- `50\%` is the number 1/2. Compared with a plain 50 it is 50; compared with numbers up to 1 the sign is needed.
- One side may leave out a unit, a currency or a degree sign; two different units are undecided.
- A whole number before a proper fraction of digits is a mixed number; `1,000` is a thousand, or else a list.
- Values with commas or "or" between them have no order without brackets; in round brackets they do.
- `1e-3` is a thousandth or a formula, whichever fits.
- `x = 5` and `5 = x` give 5; two sides with letters are an equation.
- The left side of an equation may name a value: `x`, `f(2)`, `|AB|`, `S_{\triangle ABC}`, `\angle A`. A left side such
  as `x+y` or `x^2` is no name: its equation is more than the value on its right.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from agentlearn.answers.forms import (
    Based,
    ChoiceLetter,
    Equation,
    Form,
    Formula,
    Infinity,
    Listing,
    Literal,
    Matrix,
    Number,
    Quantity,
    Ratio,
    Readings,
    RealInterval,
    SameValues,
    Set,
    Symbol,
    Tuple,
    Union,
    Unreadable,
    Words,
    as_interval,
    exact_value,
    has_letters,
    nodes,
    number,
    parts_of,
)
from agentlearn.answers.formula import UnreadableFormula, parse
from agentlearn.answers.latex import (
    DEGREES,
    MAX_CHARACTERS,
    amount_and_unit,
    bracketed,
    normalise,
    split_outside,
    split_with_separators,
    unwrapped,
    without_brackets,
    words_as_commas,
)
from agentlearn.answers.numbers import SMALL_NUMBERS, number_value
from agentlearn.answers.times import ClockTime

EMPTY = Unreadable("is empty")
MAX_DEPTH = 6
"""Most levels of collections inside collections."""

_LETTER = r"(?:[a-zA-Z]|\\(?!in|cup|cap|leq|geq|neq|frac|sqrt|pi|infty)[a-zA-Z]+)(?: ?_ ?(?:\w|\{[\w, ]+\}))?'?"
"""A variable: a letter or a command that stands for one, with its index."""
_VARIABLE = re.compile(_LETTER)
_LETTERS = rf"\( ?{_LETTER}(?: ?, ?{_LETTER})* ?\)"
_NESTED = r"(?:[^{}]|\{[^{}]*\})*"
_INDEX = rf" ?_ ?(?:\\?\w+|\{{{_NESTED}\}})"
_POINT = r"[A-Z](?: ?_ ?\{? ?\d ?\}?)?'*"
_POINTS = rf"{_POINT}(?: ?{_POINT}){{1,7}}"
_MARK = r"\\(?:overline|overrightarrow|overleftrightarrow|overarc|widehat|widetilde|vec|hat|bar|tilde|mathbf|bf|mathbb)"
_MARKED = rf"{_MARK} ?(?:\{{{_NESTED}\}}|[a-zA-Z](?![a-zA-Z]))"
_ANGLE = rf"(?:m ?)?\\(?:angle|measuredangle) ?(?:\{{? ?(?:{_POINTS}|{_POINT}|[a-z]|\d) ?\}}?|\\[a-z]+)"
_ANY_GROUP = r" ?(?:\([^=()]*(?:\([^()]*\)[^=()]*)?\)|\([^()]*\)|\[[^\[\]]*\])"
_FUNCTION = r"[fghnpEFGHPNVDC]|\\(?:mathbb ?\{ ?[EP] ?\}|operatorname ?\{ ?\w+ ?\}|Pr|deg|dim|det)"
_OPERATOR = r"\\(?:operatorname ?\{ ?\w+ ?\}|deg|dim|det|arg|max|min|gcd|lcm|Pr)"
_ARGUMENT = rf"(?:\d* ?(?:[a-zA-Z]|\\[a-z]+|{_ANGLE}|{_POINTS})|\\frac ?\{{[^{{}}]*\}} ?\{{[^{{}}]*\}}|{_ANY_GROUP})"
_NAME = re.compile(
    "|".join(
        (
            *(
                _LETTERS,
                rf"{_LETTER}(?: ?\^ ?\{{ ?-1 ?\}})? ?{_LETTERS}",
                _LETTER,
                rf"{_LETTER}(?:{_INDEX})'?",
                _POINTS,
            ),
            *(_MARKED, rf"{_MARKED}(?:{_INDEX})", _ANGLE, rf"\\(?:triangle|square|odot) ?{_POINTS}"),
            rf"\\?\| ?(?:{_POINTS}|[A-Z]|{_MARKED}) ?\\?\||\[ ?{_POINTS} ?\]",
            rf"(?:{_FUNCTION})(?:{_INDEX})?'*{_ANY_GROUP}",
            rf"{_OPERATOR} ?(?:{_INDEX})? ?(?:[a-zA-Z]|{_MARKED}|{_ANY_GROUP})",
            rf"\\(?:sin|cos|tan|cot|sec|csc) ?(?:\^ ?\{{? ?2 ?\}}?)? ?{_ARGUMENT}",
        )
    )
)
_LENGTHS = re.compile(rf"(?=.*[A-Z])(?:{_POINTS}|\\overline ?\{{ ?{_POINTS} ?\}}|\\frac|\\cdot|\\times|[-+/:{{}} ^2])+")
r"""A left side that is calculated from lengths: `\frac{AB}{CD}`, `AB+CD`."""
_WORDY = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox|operatorname) ?\{ ?[a-zA-Z][^{}]*[a-zA-Z][^{}]*\}")
_COMPARING = re.compile(
    r"\b(?:not|never|except|less|more|most|least|fewer|greater|about|approximately|or)\b", re.IGNORECASE
)
_CALCULATING = re.compile(r"[-+*/^<>=]|\\(?:cdot|times|frac|pm)")
_DRESSING = re.compile(r"\\overline|\\measured(?=angle)|\\?\||[{} ]")

_FACTORIAL_OR_UNEQUAL = re.compile(r"([^=<>]*[a-zA-Z])!=([^=<>]*)")
_REALS = re.compile(r"\\mathbb ?\{? ?R ?\}?|\\R|\\Re")
_EMPTY = re.compile(r"\\emptyset|\\\{ ?\\\}")
_MATRIX = re.compile(
    r"\\begin ?\{ ?([pbBvV]?)(?:small)?(?:matrix|array) ?\}(?: ?\{[clr| ]*\})?(.*)\\end ?\{[^{}]*\}", re.DOTALL
)
_CALLED_MATRIX = re.compile(r"(?:sympy\.|np\.|numpy\.)?(?:Matrix|array|matrix) ?\((.*)\)", re.DOTALL)
_REVERSED = re.compile(r"([\[\]]) ?([^\[\](),;{}]+)[,;]([^\[\](),;{}]+) ?([\[\]])")
_RELATIONS = ("<", ">", r"\leq", r"\geq", r"\neq", "=", r"\in", r"\approx", r"\equiv")
_FLIPPED = {"<": ">", ">": "<", r"\leq": r"\geq", r"\geq": r"\leq"}
_GAP = Unreadable("holds a list without one of its parts")
_NO_RELATION = Unreadable("holds a relation that is not a plain equation or inequality")
_EVERYTHING = RealInterval(Infinity(-1), Infinity(1), (False, False))
"""All real numbers."""

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
                return _EVERYTHING
            # short words without a wrapper are also read as a product of letters
            return Words(words) if len(words) > 3 or "\\" in text else Readings((Words(words), _formula(text)))
        form = self._structure(text)
        if form is not None and _GROUPED.search(text):  # `1,000` in it is two values, or else a number
            joined = _GROUPED.sub(lambda found: found[0].replace(",", ""), text)
            return Readings((form, self.read(joined)))
        return form or self._quantity(text) or _formula(text)

    def _structure(self, text: str) -> Form | None:
        """Read a form made of parts."""

        if (form := self._made_of_parts(text)) is not None:
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
        if (found := amount_and_unit(text)) is None:
            return None
        written, factor, unit = found
        if not factor:
            return Unreadable("holds a word that means several numbers, by country")
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

    def _made_of_parts(self, text: str) -> Form | None:
        """Read sets, tuples, lists, intervals, unions, inequalities, equations and matrices."""
        return self._matrix(text) or self._union(text) or self._relation(text) or self._collection(text)

    def _matrix(self, text: str) -> Form | None:
        """Read a matrix, also as `[[1,2],[3,4]]` or `[1,2;3,4]`. A determinant is unreadable."""
        if found := _CALLED_MATRIX.fullmatch(text):
            return self._matrix(found[1].strip()) or Unreadable("holds a matrix that cannot be read")
        if found := _MATRIX.fullmatch(text):
            if found[1] in {"v", "V"}:
                return Unreadable("holds a determinant or norm")
            if r"\begin" in found[2]:
                return Unreadable("holds a matrix in a matrix")
            lines = [
                line for line in re.split(r"\\\\|\\cr(?![a-zA-Z])", found[2].replace(r"\hline", "")) if line.strip()
            ]
            rows = tuple(tuple(self.part(cell) for cell in line.split("&")) for line in lines)
            same = len({len(row) for row in rows}) == 1
            return Matrix(rows) if same else Unreadable("holds a matrix whose rows differ in length")
        if (found := bracketed(text)) is None or (found[0], found[2]) != ("[", "]"):
            return None
        if _MATRIX.fullmatch(found[1]):
            return self._matrix(found[1])
        lines = split_outside(found[1], ";")
        if len(lines) == 1 or "," not in found[1]:
            inner = [bracketed(part) for part in split_outside(found[1], ",")]
            lines = [one[1] for one in inner if one and (one[0], one[2]) == ("[", "]")]
            if len(lines) < len(inner):
                return None
        cells = [split_outside(line, ",") for line in lines]
        if len({len(row) for row in cells}) != 1 or not all(cell for row in cells for cell in row):
            return None
        return Matrix(tuple(tuple(self.part(cell) for cell in row) for row in cells))

    def _union(self, text: str) -> Form | None:
        r"""Read intervals and sets with `\cup` between them, the real numbers with or without some, the empty set."""
        if _EMPTY.fullmatch(text):
            return Set(())
        if _REALS.fullmatch(text):
            return _EVERYTHING
        parts = split_outside(text, r"\setminus")
        if len(parts) == 2 and _REALS.fullmatch(parts[0]):
            return _without(self.part(parts[1]))
        parts = split_outside(text, r"\cup")
        if len(parts) < 2 or not all(parts):
            return None
        forms = tuple(as_interval(self.part(part)) for part in parts)
        sets = [form for form in forms if isinstance(form, Set)]
        return Set(tuple(item for one in sets for item in one.items)) if len(sets) == len(forms) else Union(forms)

    def _relation(self, text: str) -> Form | None:
        """Read an inequality as an interval, an equation, or the set that a letter is in."""
        joined, word = words_as_commas(text)
        parts = split_outside(joined, ",")
        if len(parts) > 1:
            if word and all(any(sign in part for sign in _RELATIONS[:5]) for part in parts):
                forms = tuple(self.part(part) for part in parts)
                if all(isinstance(form, RealInterval | Union) for form in forms):
                    return Union(forms) if word == "or" else Unreadable("holds inequalities that must all be true")
            return None
        if "!=" in text and (found := _FACTORIAL_OR_UNEQUAL.fullmatch(text)):
            left, right = found[1].strip(), found[2].strip()
            return Readings((self.part(rf"{left} \neq {right}"), self._equation(f"{left}!", right)))
        split = split_with_separators(text, *_RELATIONS)
        sides, signs = [part for part, _ in split], [sign for _, sign in split[1:]]
        if not signs:
            return None
        if not sides[0] and all(sides[1:]) and signs[0] in {"=", r"\approx"}:
            return self.part(text.removeprefix(signs[0]))
        if not all(sides):
            return Unreadable("holds a relation without one of its sides")
        if signs[-1] == r"\approx":
            return self._approximated(sides, signs)
        left, right = sides[0], sides[-1]
        match signs:
            case [(r"\in" | r"\neq") as sign] if sign == r"\in" or _VARIABLE.fullmatch(left):
                if not _VARIABLE.fullmatch(left):
                    return Unreadable("says what something other than a letter is in")
                form = as_interval(self.part(right)) if sign == r"\in" else _without(self.part(right))
                if not isinstance(form, RealInterval):
                    return form
                return RealInterval(form.low, form.high, form.closed, _plain(left))
            case ["="]:
                return self._equation(left, right)
            case ["=", *others] if set(others) == {"="}:
                return self._equal_values(sides)
            case [("<" | ">" | r"\leq" | r"\geq") as sign]:
                if not _VARIABLE.fullmatch(left):
                    left, right, sign = right, left, _FLIPPED[sign]
                if not _VARIABLE.fullmatch(left):
                    return Unreadable("holds an inequality that is not solved for a letter")
                end, closed, letter = self.part(right), sign in {r"\leq", r"\geq"}, _plain(left)
                if sign in {">", r"\geq"}:
                    return RealInterval(end, Infinity(1), (closed, False), letter)
                return RealInterval(Infinity(-1), end, (False, closed), letter)
            case [one, other] if _VARIABLE.fullmatch(sides[1]):
                if {one, other} <= {">", r"\geq"}:
                    left, right, one, other = right, left, _FLIPPED[other], _FLIPPED[one]
                if not {one, other} <= {"<", r"\leq"}:
                    return _NO_RELATION
                return RealInterval(
                    self.part(left), self.part(right), (one == r"\leq", other == r"\leq"), _plain(sides[1])
                )
            case _:
                return _NO_RELATION

    def _collection(self, text: str) -> Form | None:
        """Read a set, tuple, interval or list."""
        if found := _REVERSED.fullmatch(text):
            opening, low, high, closing = found.groups()
            if (opening, closing) != ("[", "]"):
                return RealInterval(self.part(low), self.part(high), (opening == "[", closing == "]"))
        if (found := bracketed(text)) is not None:
            return self._in_brackets(*found)
        parts = split_outside(words_as_commas(text)[0], ",", ";")
        if len(parts) < 2:
            return None
        if not all(parts):
            return _GAP
        groups = split_outside(text, ";")
        if 1 < len(groups) < len(parts):
            return Listing(tuple(self.part(group) for group in groups))
        items = tuple(self.part(part) for part in parts)
        # `x = 1, 2` and `x = 1, x = 2` give the values of `x`; different letters stay equations
        equations = [item for item in items if isinstance(item, Equation)]
        first, labels = items[0], {one.label for one in equations}
        if (
            isinstance(first, Equation)
            and first.label
            and labels == {first.label}
            and len(equations) in {1, len(items)}
        ):
            values = tuple(item.right if isinstance(item, Equation) else item for item in items)
            return Equation(first.label, first.left, Listing(values))
        return Listing(items)

    def _in_brackets(self, opening: str, content: str, closing: str) -> Form | None:
        pair = opening + closing
        if opening == r"\{":
            return self._set(content) if closing == r"\}" else None
        parts = split_outside(content, ",", ";")
        if not all(parts):
            return _GAP
        if pair == r"\langle\rangle":
            return Tuple(tuple(self.part(part) for part in parts))
        if pair not in {"()", "[]", "(]", "[)"}:
            return None
        if len(parts) == 1:
            inner = self.part(content) if pair in {"()", "[]"} else None
            if inner is None or pair == "[]":
                return None if inner is None else Listing((inner,))
            return None if isinstance(inner, Formula | Unreadable | Words) else inner
        items = tuple(self.part(part) for part in parts)
        if pair == "()":
            return Tuple(items)
        if len(items) == 2:
            return RealInterval(items[0], items[1], (opening == "[", closing == "]"))
        return Tuple(items) if pair == "[]" else None

    def _set(self, content: str) -> Form:
        for separator in ("|", ":", r"\colon"):
            parts = split_outside(content, separator)
            if len(parts) == 2 and _VARIABLE.fullmatch(re.split(r" ?\\in", parts[0])[0].strip()):
                form = self.part(parts[1])
                return form if isinstance(form, RealInterval | Union) else Unreadable("holds a set by a condition")
        parts = split_outside(content, ",", ";")
        if not content:
            return Set(())
        if not all(parts):
            return _GAP
        if len(parts) == 1 and r"\pm" in content:
            form = self.part(content)
            return Set(form.items) if isinstance(form, Listing) else form
        return Set(tuple(self.part(part) for part in parts))

    def _equation(self, left: str, right: str) -> Form:
        if not _name_in(left) and _name_in(right):  # `5 = x`
            left, right = right, left
        label, value = _name_in(left) or "", self.part(right)
        side = None if label and "(" in label else self.part(left)
        if not isinstance(side, Formula | Number):
            return (
                Equation(label, None, value)
                if label
                else Unreadable("holds an equation whose left side cannot be read")
            )
        return Equation(label, side, value) if label or has_letters(side, value) else SameValues((side, value))

    def _equal_values(self, sides: list[str]) -> Form:
        """Read `x = 1/2 = 0.5`: all but a name on the left must be the same value, without letters."""
        values, name = tuple(self.part(side) for side in sides[1:]), _name_in(sides[0])
        first = values[0] if name else self.part(sides[0])
        if any(not isinstance(value, Formula | Number | Quantity) for value in values) or has_letters(first, *values):
            return Unreadable("holds several equations in a row")
        return Equation(name, None, SameValues(values)) if name else SameValues((first, *values))

    def _approximated(self, sides: list[str], signs: list[str]) -> Form:
        r"""Read `12\pi \approx 37.7`. The value before the sign is the exact one, unless it is a name."""
        exact, rounded = sides[:-1], self.part(sides[-1])
        if len(exact) > 1 and set(signs[:-1]) != {"="}:
            return _NO_RELATION
        if len(exact) == 1 and (name := _name_in(exact[0])):
            return Equation(name, None, rounded)
        form = self.part(exact[0]) if len(exact) == 1 else self._relation("=".join(exact))
        match form:
            case SameValues(values=values):
                return SameValues(values, (rounded,))
            case Equation(label=label, left=left, right=value) if label and not has_letters(value):
                values = value.values if isinstance(value, SameValues) else (value,)
                return Equation(label, left, SameValues(values, (rounded,)))
            case Formula() | Number() | Quantity() if not has_letters(form):
                return SameValues((form,), (rounded,))
            case _:
                return Unreadable("holds an approximation of something with letters")


def _name_in(left: str) -> str | None:
    """Return the name in one spelling (`|AB|` and `\\overline{AB}` are `AB`); None for a left side that is none."""
    if len(left) == 1 and left.isalpha():
        return left
    parts = split_outside(left, ":")
    # words name the value too: `\text{area of } \triangle ABC`
    is_wordy = _WORDY.search(left) and not _COMPARING.search(left) and not _CALCULATING.search(_WORDY.sub("", left))
    if is_wordy or _LENGTHS.fullmatch(left) or all(map(_NAME.fullmatch, parts)):
        return re.sub(r"^m(?=\\angle)", "", _DRESSING.sub("", left).replace(r"\measuredangle", r"\angle"))
    return None


def _without(form: Form) -> Form:
    """Return the real line without one number, or without several plain numbers."""
    points = form.items if isinstance(form, Set | Listing) else (form,)
    if len(points) == 1 or all(isinstance(point, Number) for point in points):
        ordered = sorted(points, key=lambda point: point.value if isinstance(point, Number) else 0)
        ends = [Infinity(-1), *ordered, Infinity(1)]
        return Union(tuple(RealInterval(low, high, (False, False)) for low, high in pairwise(ends)))
    return Unreadable("leaves out numbers that are not plain")


def _plain(text: str) -> str:
    return re.sub(r"[{} ]", "", text)


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


def _formula(text: str) -> Form:
    try:
        node = parse(text)
    except UnreadableFormula as refused:
        return Unreadable(str(refused))
    value = exact_value(node)
    return Formula(node) if value is None else number(value)
