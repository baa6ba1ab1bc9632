"""The value of a formula with many digits: by mpmath, and by sympy for integrals, limits and infinite sums.

Runs in the verifier's processes only. A sum or function value that is smaller than its parts by most of the digits
counts as zero. `Evaluation.extreme` says whether a number was so large or small that this could be wrong.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from typing import Literal as OneOf

import mpmath
import sympy

from agentlearn.answers.syntax import BINDERS, Apply, Literal, Node, Symbol, exact_value

NumericValue = Any
"""mpmath's mpf or mpc."""

MAX_TERMS = 20_000
MAX_EXPONENT = 10**7
"""Most bits of a power."""
EXTREME = 830
"""Binary digits before or after the point beyond which a number counts as extreme."""
NOISE = 0.8
"""Share of the digits: a value that is smaller than its parts by this many digits is zero."""

_FUNCTIONS = {
    **{name: getattr(mpmath, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "asinh")},
    "arctan": mpmath.atan,
}
_RECIPROCAL = {"cot": "tan", "sec": "cos", "csc": "sin", "coth": "tanh"}
_IN_SYMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(sympy, name) for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")},
    **{name: getattr(sympy, name) for name in ("coth", "asinh", "exp", "binomial", "floor", "factorial", "factorial2")},
    "ln": sympy.log, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "arccot": sympy.acot,
    "abs": sympy.Abs, "ceil": sympy.ceiling, "max": sympy.Max, "min": sympy.Min, "add": sympy.Add,
    "mul": sympy.Mul, "pow": sympy.Pow, "neg": operator.neg, "div": operator.truediv,
}  # fmt: skip
_CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}
_OPEN = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.AccumBounds, sympy.Piecewise)


class NoValue(Exception):
    """Raised when a formula has no value, or none that everybody agrees on."""

    def __init__(self, reason: str, *, outside: bool = False) -> None:
        super().__init__(reason)
        self.outside = outside
        """Whether the letters' values are outside the range where the formula is real."""


@dataclass
class Evaluation:
    """One evaluation at `digits` decimal digits; use it inside `mpmath.workdps`."""

    digits: int
    values: Mapping[str, Fraction] = field(default_factory=dict[str, Fraction])
    log_base: OneOf["10", "e"] = "10"
    is_real: bool = False
    """Whether a square root or logarithm of a negative number has no value."""
    extreme: bool = False

    def value(self, node: Node) -> NumericValue:
        """Return the formula's value. Raises NoValue."""
        found = self._value(node, dict(self.values))
        if not mpmath.isfinite(found):
            raise NoValue("has no finite value")
        return found

    def _value(self, node: Node, values: dict[str, Fraction]) -> NumericValue:
        if isinstance(node, Symbol):
            constants = {"pi": +mpmath.pi, "e": +mpmath.e, "i": mpmath.mpc(0, 1)}
            if node.name not in values and node.name not in constants:
                raise NoValue("holds an infinity inside a formula")
            return _number(values[node.name]) if node.name in values else constants[node.name]
        if isinstance(node, Literal):
            found = _number(node.value)
        elif node.op in BINDERS:
            found = self._bound(node, values)
        elif node.op == "pow":
            found = self._power(node, values)
        else:
            found = self._operate(node.op, [self._value(arg, values) for arg in node.args])
        found = self._without_noise(found)
        if found and mpmath.isfinite(found) and abs(mpmath.mag(found)) > EXTREME:
            self.extreme = True
        return found

    def _operate(self, op: str, args: list[NumericValue]) -> NumericValue:
        match op, args:
            case "add", _:
                return self._cleaned(mpmath.fsum(args), max(abs(arg) for arg in args))
            case "mul", _:
                return mpmath.fprod(args)
            case "neg", [value]:
                return -value
            case "div", [top, bottom]:
                if not bottom:
                    raise NoValue("divides by zero")
                return top / bottom
            case "root", [radicand, degree]:
                return self._root(radicand, degree)
            case "abs", [value]:
                return abs(value)
            case (("floor" | "ceil"), [value]):
                real = self._real(value)
                nearest = mpmath.nint(real)
                if abs(real - nearest) <= self._noise(max(abs(real), mpmath.mpf(1))):
                    return nearest
                return mpmath.floor(real) if op == "floor" else mpmath.ceil(real)
            case (("max" | "min"), _):
                return (max if op == "max" else min)(self._real(arg) for arg in args)
            case (("factorial" | "factorial2" | "binomial"), _):
                if any(not mpmath.isint(arg) or arg.real < 0 or arg.real > 10**12 for arg in args):
                    raise NoValue("counts with a number that is not whole")
                whole = [int(arg.real) for arg in args]
                if op == "binomial":
                    return mpmath.binomial(*whole) if whole[1] <= whole[0] else mpmath.mpf(0)
                return (mpmath.factorial if op == "factorial" else mpmath.fac2)(*whole)
            case "log", [value, base]:
                if base in (0, 1):
                    raise NoValue("takes a logarithm to the base 0 or 1")
                return self._logarithm(value) / self._logarithm(base)
            case (("ln" | "log" | "lg"), [value]):
                natural = op == "ln" or (op == "log" and self.log_base == "e")
                return self._logarithm(value) / (1 if natural else mpmath.log(10))
            case _, [value]:
                return self._function(op, value)
            case _:
                raise NoValue(f"holds {op!r} of numbers that are not whole")

    def _function(self, op: str, value: NumericValue) -> NumericValue:
        one = mpmath.mpf(1)
        if op in {"arcsin", "arccos"}:
            if self.is_real and abs(value) > 1:
                raise NoValue("is not real everywhere", outside=True)
            return self._cleaned(mpmath.asin(value) if op == "arcsin" else mpmath.acos(value), one)
        if op == "arccot":
            return mpmath.acot(value)
        if op in _RECIPROCAL:
            if not (below := self._function(_RECIPROCAL[op], value)):
                raise NoValue("divides by zero")
            return 1 / below
        if op not in _FUNCTIONS or abs(value) > MAX_EXPONENT:
            raise NoValue(f"holds {op!r} of too large a number" if op in _FUNCTIONS else f"holds {op!r}")
        found = _FUNCTIONS[op](value)
        if op == "tan" and abs(found) > mpmath.mpf(10) ** (self.digits * NOISE):
            raise NoValue("divides by zero")
        return found if op == "exp" else self._cleaned(found, one)

    def _power(self, node: Apply, values: dict[str, Fraction]) -> NumericValue:
        base, exponent = (self._value(arg, values) for arg in node.args)
        if not base:
            if exponent.real > 0:
                return mpmath.mpf(0)
            raise NoValue("holds zero to a power that is not positive")
        if abs(exponent) * (abs(mpmath.log(abs(base), 2)) + 1) > MAX_EXPONENT:
            raise NoValue("holds too large a power")
        if mpmath.isint(exponent):
            return base ** int(exponent.real)
        if _is_negative(base):
            exact = exact_value(node.args[1], values)
            if exact is None or exact.denominator % 2:
                why = "holds a power of a negative number that could mean several numbers"
                raise NoValue(why, outside=exact is None)
            if self.is_real:
                raise NoValue("is not real everywhere", outside=True)
        return self._without_noise(mpmath.power(base, exponent))

    def _root(self, radicand: NumericValue, degree: NumericValue) -> NumericValue:
        if not mpmath.isint(degree) or not 1 <= degree.real <= MAX_TERMS:
            raise NoValue("holds a root of a strange degree")
        if not _is_negative(radicand):
            return mpmath.root(radicand, int(degree)) if radicand else mpmath.mpf(0)
        if int(degree) % 2:
            return -mpmath.root(-radicand.real, int(degree))
        if self.is_real:
            raise NoValue("is not real everywhere", outside=True)
        return mpmath.root(radicand, int(degree))

    def _logarithm(self, value: NumericValue) -> NumericValue:
        if not value:
            raise NoValue("takes the logarithm of zero", outside=True)
        if self.is_real and _is_negative(value):
            raise NoValue("is not real everywhere", outside=True)
        return self._cleaned(mpmath.log(value), mpmath.mpf(1))

    def _bound(self, node: Apply, values: dict[str, Fraction]) -> NumericValue:
        """Return a sum or product term by term when its bounds are plain, else by sympy, like integrals and limits."""
        if node.op in {"sum", "prod"}:
            variable, low_node, high_node, body = node.args
            low, high = exact_value(low_node, values), exact_value(high_node, values)
            assert isinstance(variable, Symbol)
            if low is not None and high is not None:
                if low.denominator != 1 or high.denominator != 1 or high - low > MAX_TERMS:
                    raise NoValue("holds a sum or product over too many or no whole numbers")
                places = range(int(low), int(high) + 1)
                terms = [self._value(body, values | {variable.name: Fraction(at)}) for at in places]
                op = "add" if node.op == "sum" else "mul"
                return self._operate(op, terms or [_number(Fraction(node.op != "sum"))])
        try:
            found = self._in_sympy(node, {name: _rational(value) for name, value in values.items()}).doit()
        except (NotImplementedError, ValueError, TypeError, AttributeError, ZeroDivisionError) as failed:
            raise NoValue("holds a limit, integral or sum that sympy cannot work out") from failed
        if found.has(*_OPEN) or found.free_symbols or found.is_finite is False or found in (sympy.nan, sympy.zoo):
            raise NoValue("holds a limit, integral or sum without a known finite value")
        parts = [mpmath.mpf(str(sympy.Float(part, self.digits))) for part in sympy.N(found, self.digits).as_real_imag()]
        return self._without_noise(mpmath.mpc(*parts) if parts[1] else parts[0])

    def _in_sympy(self, node: Node, values: Mapping[str, Any]) -> Any:
        """Return the formula as an expression of sympy. Raises NoValue."""
        if isinstance(node, Literal):
            return _rational(node.value)
        if isinstance(node, Symbol):
            return values.get(node.name, _CONSTANTS.get(node.name, sympy.Symbol(node.name, real=True)))
        if node.op in BINDERS:
            variable, *ends, body = node.args
            inner = {name: value for name, value in values.items() if variable != Symbol(name)}
            letter, ends = self._in_sympy(variable, inner), [self._in_sympy(end, values) for end in ends]
            if node.op.startswith("lim"):
                side = (node.op[3:] or "+-") if ends[0].is_finite else "+"
                return sympy.limit(self._in_sympy(body, inner), letter, ends[0], side)
            if node.op == "integral":
                return sympy.Integral(self._in_sympy(body, inner), (letter, *ends))
            counter = sympy.Symbol(f"{letter.name}_counted", integer=True)
            terms = self._in_sympy(body, {**inner, letter.name: counter})
            return (sympy.Sum if node.op == "sum" else sympy.Product)(terms, (counter, *ends))
        args = [self._in_sympy(arg, values) for arg in node.args]
        match node.op, args:
            case "root", [radicand, degree]:
                return sympy.real_root(radicand, degree) if degree.is_odd else sympy.root(radicand, degree)
            case (("log" | "lg"), [value]):
                return sympy.log(value) if node.op == "log" and self.log_base == "e" else sympy.log(value, 10)
            case "log", [value, base]:
                return sympy.log(value, base)
            case op, _ if op in _IN_SYMPY:
                return _IN_SYMPY[op](*args)
            case op, _:
                raise NoValue(f"holds {op!r} in a sum, integral or limit")

    def _real(self, value: NumericValue) -> NumericValue:
        if isinstance(value, mpmath.mpc):
            if value.imag:
                raise NoValue("orders complex numbers")
            return value.real
        return value

    def _noise(self, scale: NumericValue) -> NumericValue:
        return scale * mpmath.mpf(10) ** int(-self.digits * NOISE)

    def _cleaned(self, value: NumericValue, scale: NumericValue) -> NumericValue:
        return mpmath.mpf(0) if abs(value) <= self._noise(scale) else self._without_noise(value)

    def _without_noise(self, value: NumericValue) -> NumericValue:
        """Return the value without a real or imaginary part that is noise."""
        if not isinstance(value, mpmath.mpc):
            return value
        noise = self._noise(abs(value))
        if abs(value.imag) <= noise:
            return value.real
        return mpmath.mpc(0, value.imag) if abs(value.real) <= noise else value


def _number(value: Fraction) -> NumericValue:
    return mpmath.mpf(value.numerator) / value.denominator


def _rational(value: Fraction) -> Any:
    return sympy.Rational(value.numerator, value.denominator)


def _is_negative(value: NumericValue) -> bool:
    return not (isinstance(value, mpmath.mpc) and value.imag) and value.real < 0
