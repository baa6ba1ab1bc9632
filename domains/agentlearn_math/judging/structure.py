r"""Reading answers made of parts: sets, tuples, lists, intervals, unions, inequalities, equations, matrices.

Each reader takes the normalised text and a reader of parts, and returns None for a text of another kind.
"""

import re
from collections.abc import Callable
from itertools import pairwise

from agentlearn_math.judging.forms import (
    Equation,
    Form,
    Formula,
    Infinity,
    Listing,
    Matrix,
    Number,
    Quantity,
    Readings,
    RealInterval,
    SameValues,
    Set,
    Tuple,
    Union,
    Unreadable,
    Words,
    has_letters,
)
from agentlearn_math.judging.labels import LETTER, name_in
from agentlearn_math.judging.splitting import bracketed, split_outside, split_with_separators, words_as_commas

ReadForm = Callable[[str], Form]

_VARIABLE = re.compile(LETTER)
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
EVERYTHING = RealInterval(Infinity(-1), Infinity(1), (False, False))
"""All real numbers."""


def matrix_in(text: str, read: ReadForm) -> Form | None:
    """Read a matrix in round or square brackets. A determinant is unreadable."""
    if found := _CALLED_MATRIX.fullmatch(text):
        return matrix_in(found[1].strip(), read) or Unreadable("holds a matrix that cannot be read")
    if not (found := _MATRIX.fullmatch(text)):
        return _matrix_of_lists(text, read)
    if found[1] in {"v", "V"}:
        return Unreadable("holds a determinant or norm")
    if r"\begin" in found[2]:
        return Unreadable("holds a matrix in a matrix")
    lines = [line for line in re.split(r"\\\\|\\cr(?![a-zA-Z])", found[2].replace(r"\hline", "")) if line.strip()]
    rows = tuple(tuple(read(cell) for cell in line.split("&")) for line in lines)
    if not rows or len({len(row) for row in rows}) != 1:
        return Unreadable("holds a matrix whose rows differ in length")
    return Matrix(rows)


def _matrix_of_lists(text: str, read: ReadForm) -> Form | None:
    """Read `[[1,2],[3,4]]` or `[1,2;3,4]` as a matrix. The first may also be a list of lists."""
    if (found := bracketed(text)) is None or (found[0], found[2]) != ("[", "]"):
        return None
    content = found[1]
    if _MATRIX.fullmatch(content):
        return matrix_in(content, read)
    lines = split_outside(content, ";")
    if len(lines) > 1 and "," in content:
        rows = [split_outside(line, ",") for line in lines]
    else:
        inner = [bracketed(part) for part in split_outside(content, ",")]
        if any(one is None or (one[0], one[2]) != ("[", "]") for one in inner):
            return None
        rows = [split_outside(one[1], ",") for one in inner if one]
    if len({len(row) for row in rows}) != 1 or not all(cell for row in rows for cell in row):
        return None
    return Matrix(tuple(tuple(read(cell) for cell in row) for row in rows))


def union_in(text: str, read: ReadForm) -> Form | None:
    r"""Read intervals and sets with `\cup` between them, the real numbers with or without some, the empty set."""
    if _EMPTY.fullmatch(text):
        return Set(())
    if _REALS.fullmatch(text):
        return EVERYTHING
    parts = split_outside(text, r"\setminus")
    if len(parts) == 2 and _REALS.fullmatch(parts[0]):
        return _without(read(parts[1]))
    parts = split_outside(text, r"\cup")
    if len(parts) < 2 or not all(parts):
        return None
    forms = tuple(as_interval(read(part)) for part in parts)
    sets = [form for form in forms if isinstance(form, Set)]
    return Set(tuple(item for one in sets for item in one.items)) if len(sets) == len(forms) else Union(forms)


def as_interval(form: Form) -> Form:
    """Return two values in round brackets as an open interval; any other form as it is."""
    match form:
        case Readings(forms=(Tuple() | RealInterval() as usual, *_)):
            return as_interval(usual)
        case Tuple(items=(low, high)):
            return RealInterval(low, high, (False, False))
        case _:
            return form


def relation_in(text: str, read: ReadForm) -> Form | None:
    """Read an inequality as an interval, an equation, or the set that a letter is in."""
    joined, word = words_as_commas(text)
    if (
        word
        and len(parts := split_outside(joined, ",")) > 1
        and all(any(sign in part for sign in _RELATIONS[:5]) for part in parts)
    ):
        forms = tuple(read(part) for part in parts)
        if all(isinstance(form, RealInterval | Union) for form in forms):
            return Union(forms) if word == "or" else Unreadable("holds inequalities that must all be true")
    if len(split_outside(joined, ",")) > 1:
        return None
    if "!=" in text and (found := _FACTORIAL_OR_UNEQUAL.fullmatch(text)):
        left, right = found[1].strip(), found[2].strip()
        return Readings((read(rf"{left} \neq {right}"), _equation(f"{left}!", right, read)))
    parts = split_with_separators(text, *_RELATIONS)
    sides, signs = [part for part, _ in parts], [sign for _, sign in parts[1:]]
    if not signs:
        return None
    if not sides[0] and all(sides[1:]) and signs[0] in {"=", r"\approx"}:
        return read(text.removeprefix(signs[0]))
    if not all(sides):
        return Unreadable("holds a relation without one of its sides")
    if signs[-1] == r"\approx":
        return _approximated(sides, signs, read)
    match signs:
        case [r"\in"]:
            return _named(as_interval(read(sides[1])), sides[0])
        case ["="]:
            return _equation(sides[0], sides[1], read)
        case ["=", *others] if set(others) == {"="}:
            return _equal_values(sides, read)
        case [r"\neq"] if _VARIABLE.fullmatch(sides[0]):
            return _named(_without(read(sides[1])), sides[0])
        case [("<" | ">" | r"\leq" | r"\geq") as sign]:
            return _half_line(sides[0], sides[1], sign, read)
        case [("<" | r"\leq") as below, ("<" | r"\leq") as above] if _VARIABLE.fullmatch(sides[1]):
            closed = (below == r"\leq", above == r"\leq")
            return RealInterval(read(sides[0]), read(sides[2]), closed, _plain(sides[1]))
        case [(">" | r"\geq") as above, (">" | r"\geq") as below] if _VARIABLE.fullmatch(sides[1]):
            closed = (below == r"\geq", above == r"\geq")
            return RealInterval(read(sides[2]), read(sides[0]), closed, _plain(sides[1]))
        case _:
            return Unreadable("holds a relation that is not a plain equation or inequality")


def collection_in(text: str, read: ReadForm) -> Form | None:
    """Read a set, tuple, interval or list."""
    if found := _REVERSED.fullmatch(text):
        opening, low, high, closing = found.groups()
        if (opening, closing) != ("[", "]"):
            return RealInterval(read(low), read(high), (opening == "[", closing == "]"))
    if (found := bracketed(text)) is not None:
        return _in_brackets(*found, read)
    parts = split_outside(words_as_commas(text)[0], ",", ";")
    if len(parts) < 2:
        return None
    if not all(parts):
        return Unreadable("holds a list without one of its parts")
    groups = split_outside(text, ";")
    if 1 < len(groups) < len(parts):
        return Listing(tuple(read(group) for group in groups))
    return listing(tuple(read(part) for part in parts))


def listing(items: tuple[Form, ...]) -> Form:
    """Return values in no order. `x = 1, 2` and `x = 1, x = 2` give the values of `x`; different letters stay
    equations.
    """
    first = items[0]
    if not isinstance(first, Equation) or not first.label:
        return Listing(items)
    labels = {item.label for item in items if isinstance(item, Equation)}
    rest = items[1:]
    if labels == {first.label} and (
        all(isinstance(item, Equation) for item in rest) or not any(isinstance(item, Equation) for item in rest)
    ):
        return Equation(
            first.label,
            first.left,
            Listing(tuple(item.right if isinstance(item, Equation) else item for item in items)),
        )
    return Listing(items)


def _in_brackets(opening: str, content: str, closing: str, read: ReadForm) -> Form | None:
    if opening == r"\{":
        return _set(content, read) if closing == r"\}" else None
    parts = split_outside(content, ",", ";")
    if not all(parts):
        return Unreadable("holds a list without one of its parts")
    if opening == r"\langle" and closing == r"\rangle":
        return Tuple(tuple(read(part) for part in parts))
    if opening not in "([" or closing not in ")]":
        return None
    if len(parts) == 1:
        if (opening, closing) == ("[", "]"):
            return Listing((read(content),))
        return _group(content, read) if (opening, closing) == ("(", ")") else None
    items = tuple(read(part) for part in parts)
    if (opening, closing) == ("(", ")"):
        return Tuple(items)
    if len(items) == 2:
        return RealInterval(items[0], items[1], (opening == "[", closing == "]"))
    return Tuple(items) if (opening, closing) == ("[", "]") else None


def _group(content: str, read: ReadForm) -> Form | None:
    """Return the content of brackets when it is more than a formula."""
    inner = read(content)
    return None if isinstance(inner, Formula | Unreadable | Words) else inner


def _set(content: str, read: ReadForm) -> Form:
    for separator in ("|", ":", r"\colon"):
        parts = split_outside(content, separator)
        if len(parts) == 2 and _VARIABLE.fullmatch(re.split(r" ?\\in", parts[0])[0].strip()):
            form = read(parts[1])
            return form if isinstance(form, RealInterval | Union) else Unreadable("holds a set by a condition")
    parts = split_outside(content, ",", ";")
    if not content:
        return Set(())
    if not all(parts):
        return Unreadable("holds a list without one of its parts")
    if len(parts) == 1 and r"\pm" in content:
        form = read(content)
        return Set(form.items) if isinstance(form, Listing) else form
    return Set(tuple(read(part) for part in parts))


def _equation(left: str, right: str, read: ReadForm) -> Form:
    label, value = name_in(left) or "", read(right)
    side = None if label and "(" in label else read(left)
    if isinstance(side, Formula | Number) and not label and not has_letters(side, value):
        return SameValues((side, value))
    if isinstance(side, Formula | Number):
        return Equation(label, side, value)
    return Equation(label, None, value) if label else Unreadable("holds an equation whose left side cannot be read")


def _equal_values(sides: list[str], read: ReadForm) -> Form:
    """Read `x = 1/2 = 0.5`: all but a name on the left must be the same value, without letters."""
    values = tuple(read(side) for side in sides[1:])
    if any(not isinstance(value, Formula | Number | Quantity) or has_letters(value) for value in values):
        return Unreadable("holds several equations in a row")
    if name := name_in(sides[0]):
        return Equation(name, None, SameValues(values))
    first = read(sides[0])
    return Unreadable("holds several equations in a row") if has_letters(first) else SameValues((first, *values))


def _approximated(sides: list[str], signs: list[str], read: ReadForm) -> Form:
    r"""Read `12\pi \approx 37.7`. The value before the sign is the exact one, unless it is a name."""
    exact, rounded = sides[:-1], read(sides[-1])
    if len(exact) > 1 and set(signs[:-1]) != {"="}:
        return Unreadable("holds a relation that is not a plain equation or inequality")
    if len(exact) == 1 and (name := name_in(exact[0])):
        return Equation(name, None, rounded)
    form = read(exact[0]) if len(exact) == 1 else relation_in("=".join(exact), read)
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


def _half_line(left: str, right: str, sign: str, read: ReadForm) -> Form:
    if not _VARIABLE.fullmatch(left):
        if not _VARIABLE.fullmatch(right):
            return Unreadable("holds an inequality that is not solved for a letter")
        left, right, sign = right, left, _FLIPPED[sign]
    end, closed = read(right), sign in {r"\leq", r"\geq"}
    if sign in {">", r"\geq"}:
        return RealInterval(end, Infinity(1), (closed, False), _plain(left))
    return RealInterval(Infinity(-1), end, (False, closed), _plain(left))


def _without(form: Form) -> Form:
    """Return the real line without one number, or without several plain numbers."""
    points = form.items if isinstance(form, Set | Listing) else (form,)
    if len(points) == 1 or all(isinstance(point, Number) for point in points):
        ordered = sorted(points, key=lambda point: point.value if isinstance(point, Number) else 0)
        ends = [Infinity(-1), *ordered, Infinity(1)]
        return Union(tuple(RealInterval(low, high, (False, False)) for low, high in pairwise(ends)))
    return Unreadable("leaves out numbers that are not plain")


def _named(form: Form, variable: str) -> Form:
    if not _VARIABLE.fullmatch(variable):
        return Unreadable("says what something other than a letter is in")
    return RealInterval(form.low, form.high, form.closed, _plain(variable)) if isinstance(form, RealInterval) else form


def _plain(text: str) -> str:
    return re.sub(r"[{} ]", "", text)
