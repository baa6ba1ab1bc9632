"""The exact rational value of a formula that has one and is small enough to compute directly."""

import math
from collections.abc import Mapping
from fractions import Fraction

from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol

MAX_BITS = 60_000
"""Most bits of a number that is computed exactly."""
MAX_FACTORIAL = 5_000
MAX_TERMS = 2_000
"""Most terms of a sum or product that is computed term by term."""


class NotExact(Exception):
    """Raised for a formula without an exact value that can be computed here."""


def exact_value(node: Node, values: Mapping[str, Fraction] | None = None) -> Fraction | None:
    """Return the formula's value at these values of its letters; None when it is irrational, undefined or too large."""
    try:
        return _value(node, dict(values or {}))
    except NotExact:
        return None


def _value(node: Node, values: dict[str, Fraction]) -> Fraction:
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Symbol):
        if node.name not in values:
            raise NotExact
        return values[node.name]
    if node.op in {"sum", "prod"}:
        return _repeated(node, values)
    if node.op not in _OPERATIONS:
        raise NotExact
    return _fitting(_operate(node.op, [_value(arg, values) for arg in node.args]))


def _repeated(node: Apply, values: dict[str, Fraction]) -> Fraction:
    variable, low, high, body = node.args
    first, last = _integer(_value(low, values)), _integer(_value(high, values))
    if not isinstance(variable, Symbol) or last - first >= MAX_TERMS:
        raise NotExact
    total = Fraction(node.op == "prod")
    for at in range(first, last + 1):
        term = _value(body, values | {variable.name: Fraction(at)})
        total = _fitting(total + term if node.op == "sum" else total * term)
    return total


def _operate(op: str, args: list[Fraction]) -> Fraction:
    match op, args:
        case "add", _:
            return sum(args, Fraction(0))
        case "mul", _:
            product = Fraction(1)
            for factor in args:
                product = _fitting(product * factor)
            return product
        case "neg", [value]:
            return -value
        case "div", [top, bottom]:
            if not bottom:
                raise NotExact
            return top / bottom
        case "pow", [base, exponent]:
            return _power(base, exponent)
        case "root", [radicand, degree]:
            return _root(radicand, _integer(degree))
        case "abs", [value]:
            return abs(value)
        case "floor", [value]:
            return Fraction(math.floor(value))
        case "ceil", [value]:
            return Fraction(math.ceil(value))
        case "factorial", [value]:
            return Fraction(math.factorial(_natural(value, MAX_FACTORIAL)))
        case "factorial2", [value]:
            return Fraction(math.prod(range(_natural(value, MAX_FACTORIAL), 0, -2)))
        case "binomial", [top, bottom]:
            return _binomial(_integer(top), _integer(bottom))
        case "gcd", _:
            return Fraction(math.gcd(*map(_integer, args)))
        case "lcm", _:
            return Fraction(math.lcm(*map(_integer, args)))
        case "max", _:
            return max(args)
        case "min", _:
            return min(args)
        case _:
            raise NotExact


_OPERATIONS = frozenset(
    (
        *("add", "mul", "neg", "div", "pow", "root", "abs", "floor", "ceil", "factorial", "factorial2"),
        *("binomial", "gcd", "lcm", "max", "min"),
    )
)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        if base < 0 or exponent.denominator > MAX_TERMS:
            raise NotExact  # it is not clear which root is meant
        return _power(_root(base, exponent.denominator), Fraction(exponent.numerator))
    if not base and exponent <= 0:
        raise NotExact
    size = max(abs(base.numerator), base.denominator)
    if size > 1 and abs(exponent) * (size.bit_length() - 1) > MAX_BITS:
        raise NotExact
    if size == 1:
        return base if exponent % 2 else base * base
    return base ** int(exponent)


def _root(radicand: Fraction, degree: int) -> Fraction:
    if not 1 <= degree <= MAX_TERMS or (radicand < 0 and degree % 2 == 0):
        raise NotExact
    sign = -1 if radicand < 0 else 1
    root = Fraction(_integer_root(abs(radicand.numerator), degree), _integer_root(radicand.denominator, degree))
    return sign * root


def _integer_root(value: int, degree: int) -> int:
    """Return the exact root of a natural number. Raises NotExact."""
    if degree == 2 or not value:
        root = math.isqrt(value)
    else:
        root = 1 << -(-value.bit_length() // degree)
        while True:
            smaller = ((degree - 1) * root + value // root ** (degree - 1)) // degree
            if smaller >= root:
                break
            root = smaller
    if root**degree != value:
        raise NotExact
    return root


def _binomial(top: int, bottom: int) -> Fraction:
    if bottom < 0 or top < 0:
        raise NotExact
    if min(bottom, abs(top - bottom)) * max(top.bit_length(), 1) > MAX_BITS:
        raise NotExact
    return Fraction(math.comb(top, bottom))


def _integer(value: Fraction) -> int:
    if value.denominator != 1:
        raise NotExact
    return value.numerator


def _natural(value: Fraction, most: int) -> int:
    if not 0 <= value <= most:
        raise NotExact
    return _integer(value)


def _fitting(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator).bit_length() > MAX_BITS:
        raise NotExact
    return value
