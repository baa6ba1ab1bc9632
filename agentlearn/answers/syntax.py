"""The syntax tree of a formula, and its exact value where that is rational and small enough to compute directly."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


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
