"""The syntax tree of a formula with its exact value, where that is small enough to compute directly, and typed answers.

An answer is a number, a formula, a set, a tuple, an interval, a choice or words.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from agentlearn.answers.times import ClockTime


@dataclass(frozen=True, slots=True)
class Literal:
    """A number as it is written."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Symbol:
    """A letter, or one of the constants `pi`, `e`, `i` and `oo`."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation: `add`, `mul`, `div`, `pow`, `neg`, `root` (radicand, degree), `factorial`, `sin`, …

    `sum`, `prod` and `integral` take (variable, from, to, body); `lim` takes (variable, towards, body), and so do
    `lim+` and `lim-`, from one side.
    """

    op: str
    args: tuple["Node", ...]


Node: TypeAlias = Literal | Symbol | Apply

_CONSTANTS = frozenset({"pi", "e", "i", "oo"})
BINDERS = frozenset({"sum", "prod", "integral", "lim", "lim+", "lim-"})
_CONSTANTS_ELSEWHERE = {"I": "i", "j": "i", "E": "e"}
"""How sympy and Python write constants."""


def nodes(node: Node) -> Iterator[Node]:
    """Yield the node and every node inside it."""
    yield node
    if isinstance(node, Apply):
        for arg in node.args:
            yield from nodes(arg)


def free_symbols(node: Node, bound: frozenset[str] = _CONSTANTS) -> frozenset[str]:
    """Return the names of the letters that are unknowns."""
    if isinstance(node, Symbol):
        return frozenset({node.name}) - bound
    if not isinstance(node, Apply):
        return frozenset()
    outside, inside = node.args, frozenset[str]()
    if node.op in BINDERS and isinstance(variable := node.args[0], Symbol):
        outside, inside = node.args[1:-1], free_symbols(node.args[-1], bound | {variable.name})
    return inside.union(*(free_symbols(arg, bound) for arg in outside))


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """Return the formula with other names for its letters."""
    if isinstance(node, Symbol):
        return Symbol(names.get(node.name, node.name))
    return Apply(node.op, tuple(renamed(arg, names) for arg in node.args)) if isinstance(node, Apply) else node


def with_constants_of(node: Node, other: Node) -> Node:
    """Return the node with `I`, `j` and `E` read as constants, where only the other node has the constant."""
    letters = free_symbols(node) & _CONSTANTS_ELSEWHERE.keys()
    if not letters:
        return node

    def names(node: Node) -> set[str]:
        """Return the letters and constants in the node; `exp` counts as `e`."""
        found = {one.name for one in nodes(node) if isinstance(one, Symbol)}
        return found | {"e" for one in nodes(node) if isinstance(one, Apply) and one.op == "exp"}

    mine, theirs = names(node), names(other)
    constants = {letter: _CONSTANTS_ELSEWHERE[letter] for letter in letters - theirs}
    return renamed(node, {letter: one for letter, one in constants.items() if one in theirs and one not in mine})


MAX_BITS = 60_000
"""Most bits of a number that is computed exactly."""
MAX_FACTORIAL = 5_000
MAX_TERMS = 2_000
"""Most terms of a sum or product that is computed term by term."""


class _NotExact(Exception):
    """Raised for a formula without an exact value that can be computed here."""


def exact_value(node: Node, values: Mapping[str, Fraction] | None = None) -> Fraction | None:
    """Return the formula's value at these values of its letters; None when it is irrational, undefined or too large."""
    try:
        return _value(node, dict(values or {}))
    except _NotExact:
        return None


def _value(node: Node, values: dict[str, Fraction]) -> Fraction:
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Symbol):
        if node.name not in values:
            raise _NotExact
        return values[node.name]
    if node.op in {"sum", "prod"}:
        variable, low, high, body = node.args
        first, last = _integer(_value(low, values)), _integer(_value(high, values))
        if not isinstance(variable, Symbol) or last - first >= MAX_TERMS:
            raise _NotExact
        total = Fraction(node.op == "prod")
        for at in range(first, last + 1):
            term = _value(body, values | {variable.name: Fraction(at)})
            total = _fitting(total + term if node.op == "sum" else total * term)
        return total
    return _operate(node.op, [_value(arg, values) for arg in node.args])


def _operate(op: str, args: list[Fraction]) -> Fraction:
    match op, args:
        case "add", _:
            return _fitting(sum(args, Fraction(0)))
        case "mul", _:
            product = Fraction(1)
            for factor in args:
                product = _fitting(product * factor)
            return product
        case "neg", [value]:
            return -value
        case "div", [top, bottom] if bottom:
            return _fitting(top / bottom)
        case "pow", [base, exponent]:
            return _fitting(_power(base, exponent))
        case "root", [radicand, degree]:
            return _root(radicand, _integer(degree))
        case "abs", [value]:
            return abs(value)
        case (("floor" | "ceil"), [value]):
            return Fraction(math.floor(value) if op == "floor" else math.ceil(value))
        case (("factorial" | "factorial2"), [value]) if 0 <= value <= MAX_FACTORIAL:
            whole = _integer(value)
            return _fitting(Fraction(math.factorial(whole) if op == "factorial" else math.prod(range(whole, 0, -2))))
        case "binomial", [of, chosen] if of >= 0 and chosen >= 0:
            top, bottom = _integer(of), _integer(chosen)
            if min(bottom, abs(top - bottom)) * max(top.bit_length(), 1) > MAX_BITS:
                raise _NotExact
            return _fitting(Fraction(math.comb(top, bottom)))
        case (("gcd" | "lcm"), _):
            return _fitting(Fraction((math.gcd if op == "gcd" else math.lcm)(*map(_integer, args))))
        case (("max" | "min"), _):
            return max(args) if op == "max" else min(args)
        case _:
            raise _NotExact


def _fitting(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator).bit_length() > MAX_BITS:
        raise _NotExact
    return value


def _integer(value: Fraction) -> int:
    if value.denominator != 1:
        raise _NotExact
    return value.numerator


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        if base < 0 or exponent.denominator > MAX_TERMS:
            raise _NotExact  # it is not clear which root is meant
        return _power(_root(base, exponent.denominator), Fraction(exponent.numerator))
    if not base and exponent <= 0:
        raise _NotExact
    size = max(abs(base.numerator), base.denominator)
    if size > 1 and abs(exponent) * (size.bit_length() - 1) > MAX_BITS:
        raise _NotExact
    if size == 1:
        return base if exponent % 2 else base * base
    return base ** int(exponent)


def _root(radicand: Fraction, degree: int) -> Fraction:
    if not 1 <= degree <= MAX_TERMS or (radicand < 0 and degree % 2 == 0):
        raise _NotExact

    def root_of(value: int) -> int:
        """Return the exact root of a natural number, by Newton's method. Raises _NotExact."""
        root = math.isqrt(value) if degree == 2 or not value else 1 << -(-value.bit_length() // degree)
        while degree != 2 and value:
            smaller = ((degree - 1) * root + value // root ** (degree - 1)) // degree
            if smaller >= root:
                break
            root = smaller
        if root**degree != value:
            raise _NotExact
        return root

    sign = -1 if radicand < 0 else 1
    return sign * Fraction(root_of(abs(radicand.numerator)), root_of(radicand.denominator))


@dataclass(frozen=True, slots=True)
class Number:
    """An exact rational number."""

    value: int | Fraction


@dataclass(frozen=True, slots=True)
class Infinity:
    """One end of the real line."""

    sign: int
    """1 or -1."""


@dataclass(frozen=True, slots=True)
class Based:
    """An integer in a base that the answer names."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression that is not a plain number; algebra computes its value."""

    node: Node


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount with a unit."""

    amount: "Form"
    unit: str
    """`%`, `°`, or the unit's word in lower case without plural and with its power: `cm^2`."""


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, in lower case with single spaces."""

    text: str


@dataclass(frozen=True, slots=True)
class ChoiceLetter:
    """The letter of a choice, and the text next to it."""

    letter: str
    content: "Form | None" = None


@dataclass(frozen=True, slots=True)
class Set:
    """Values in braces: order and repetition do not matter."""

    items: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Values without brackets around them: order does not matter, repetition does."""

    items: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Tuple:
    """Values in order. Two in round brackets may also be an open interval."""

    items: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class RealInterval:
    """The real numbers between two ends."""

    low: "Form"
    high: "Form"
    closed: tuple[bool, bool]
    """Whether each end belongs to the interval."""
    variable: str = ""
    """Letter whose values form the interval; empty when the answer names none."""


@dataclass(frozen=True, slots=True)
class Union:
    """Intervals and sets taken together."""

    parts: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries."""

    rows: tuple[tuple["Form", ...], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides. With the name of a value on the left it also gives that value."""

    label: str
    r"""The name: a lone letter, `f(x)`, `AB`, `\angle ABC`; empty for any other left side."""
    left: "Form | None"
    """None when the left side is a name such as `f(x)` that is not an expression."""
    right: "Form"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Parts of a proportion."""

    parts: tuple["Form", ...]
    is_clock_like: bool
    """Whether the ratio could also be a time of day."""


@dataclass(frozen=True, slots=True)
class SameValues:
    r"""One value, written several times: `\binom52 = 10`, `12\pi \approx 37.7`."""

    values: tuple["Form", ...]
    rounded: tuple["Form", ...] = ()
    """What the answer gives as an approximation of the value."""


@dataclass(frozen=True, slots=True)
class Readings:
    """A text that can be read in more than one way, the usual one first."""

    forms: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A text that no reader understands as a whole."""

    reason: str
    """What the text contains; continues "the answer"."""


Form: TypeAlias = (
    Number
    | Infinity
    | Based
    | Formula
    | Quantity
    | Words
    | ChoiceLetter
    | Set
    | Listing
    | Tuple
    | RealInterval
    | Union
    | Matrix
    | Equation
    | Ratio
    | ClockTime
    | SameValues
    | Readings
    | Unreadable
)


def parts_of(form: Form) -> tuple[Form, ...]:
    """Return the forms inside a form; none for a number, formula or words."""
    match form:
        case Set(items=parts) | Listing(items=parts) | Tuple(items=parts) | Union(parts=parts) | Ratio(parts=parts):
            return parts
        case SameValues(values=values, rounded=rounded):
            return (*values, *rounded)
        case RealInterval(low=low, high=high):
            return (low, high)
        case Matrix(rows=rows):
            return tuple(cell for row in rows for cell in row)
        case Equation(left=left, right=right):
            return (right,) if left is None else (left, right)
        case _:
            return ()


def number(value: Fraction) -> Number:
    """Return a number, as an int where it is whole."""
    return Number(value.numerator if value.denominator == 1 else value)


def node_of(form: Form | None) -> Node | None:
    """Return a number, formula or amount as an expression; None for anything else."""
    match form:
        case Number(value=value):
            return Literal(Fraction(value))
        case Formula(node=node):
            return node
        case Quantity(amount=amount):
            return node_of(amount)
        case _:
            return None


def has_letters(*forms: Form) -> bool:
    """Whether a formula with letters is, or is the value of, one of the forms."""
    return any(
        (isinstance(form, Formula) and bool(free_symbols(form.node)))
        or (isinstance(form, Quantity) and has_letters(form.amount))
        or (isinstance(form, SameValues) and has_letters(*form.values))
        for form in forms
    )


def as_interval(form: Form) -> Form:
    """Return two values in round brackets as an open interval; any other form as it is."""
    match form:
        case Readings(forms=(Tuple() | RealInterval() as usual, *_)):
            return as_interval(usual)
        case Tuple(items=(low, high)):
            return RealInterval(low, high, (False, False))
        case _:
            return form
