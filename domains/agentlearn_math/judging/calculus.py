"""Integrals, limits, and infinite sums and products, by sympy. Runs in the worker process only."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any
from typing import Literal as OneOf

import mpmath
import sympy

from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol

_SAME_NAMES = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "asinh", "exp", "binomial")
_NAMES = {
    "ln": sympy.log,
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "arccot": sympy.acot,
    **{name: getattr(sympy, name) for name in _SAME_NAMES},
    "abs": sympy.Abs,
    "floor": sympy.floor,
    "ceil": sympy.ceiling,
    "factorial": sympy.factorial,
    "factorial2": sympy.factorial2,
    "max": sympy.Max,
    "min": sympy.Min,
    "add": sympy.Add,
    "mul": sympy.Mul,
}
_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}
_OPEN = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.AccumBounds, sympy.Piecewise)


class Unevaluated(Exception):
    """Raised when sympy finds no finite value. Its message continues "the answer"."""


def calculus_value(node: Apply, values: Mapping[str, Fraction], digits: int, log_base: OneOf["10", "e"]) -> Any:
    """Return the value to that many digits, as an mpmath number. Raises Unevaluated."""
    try:
        found = _translated(node, {name: _rational(value) for name, value in values.items()}, log_base).doit()
    except (NotImplementedError, ValueError, TypeError, AttributeError, ZeroDivisionError) as failed:
        raise Unevaluated("holds a limit, integral or sum that sympy cannot work out") from failed
    if found.has(*_OPEN) or found.free_symbols or found.is_finite is False or found in (sympy.nan, sympy.zoo):
        raise Unevaluated("holds a limit, integral or sum without a known finite value")
    real, imaginary = sympy.N(found, digits).as_real_imag()
    parts = [mpmath.mpf(str(sympy.Float(part, digits))) for part in (real, imaginary)]
    return mpmath.mpc(*parts) if parts[1] else parts[0]


def _translated(node: Node, values: Mapping[str, Any], log_base: str) -> Any:
    if isinstance(node, Literal):
        return _rational(node.value)
    if isinstance(node, Symbol):
        return values.get(node.name, _CONSTANTS.get(node.name, sympy.Symbol(node.name, real=True)))
    if node.op in {"sum", "prod", "integral"}:
        return _bound(node, values, log_base)
    if node.op.startswith("lim"):
        variable, towards, body = node.args
        inner = {name: value for name, value in values.items() if variable != Symbol(name)}
        letter = _translated(variable, inner, log_base)
        side = node.op[3:] or "+-"
        end = _translated(towards, values, log_base)
        return sympy.limit(_translated(body, inner, log_base), letter, end, side if end.is_finite else "+")
    args = [_translated(arg, values, log_base) for arg in node.args]
    match node.op, args:
        case "neg", [value]:
            return -value
        case "div", [top, bottom]:
            return top / bottom
        case "pow", [base, exponent]:
            return base**exponent
        case "root", [radicand, degree]:
            return sympy.real_root(radicand, degree) if degree.is_odd else sympy.root(radicand, degree)
        case "log" | "lg", [value]:
            return sympy.log(value) if node.op == "log" and log_base == "e" else sympy.log(value, 10)
        case "log", [value, base]:
            return sympy.log(value, base)
        case op, _ if op in _NAMES:
            return _NAMES[op](*args)
        case op, _:
            raise Unevaluated(f"holds {op!r} in a sum, integral or limit")


def _bound(node: Apply, values: Mapping[str, Any], log_base: str) -> Any:
    variable, low, high, body = node.args
    inner = {name: value for name, value in values.items() if variable != Symbol(name)}
    letter = _translated(variable, inner, log_base)
    ends = [_translated(end, values, log_base) for end in (low, high)]
    if node.op == "integral":
        return sympy.Integral(_translated(body, inner, log_base), (letter, *ends))
    counter = sympy.Symbol(f"{letter.name}_counted", integer=True)
    return (sympy.Sum if node.op == "sum" else sympy.Product)(
        _translated(body, {**inner, letter.name: counter}, log_base), (counter, *ends)
    )


def _rational(value: Fraction) -> Any:
    return sympy.Rational(value.numerator, value.denominator)
