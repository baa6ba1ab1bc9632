"""The value of a formula with many digits, by mpmath. Runs in the worker process only.

A sum or function value that is smaller than its parts by most of the digits counts as zero. `Evaluation.extreme` says
whether a number was so large or small that this could be wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from typing import Literal as OneOf

import mpmath

from agentlearn_math.judging.calculus import Unevaluated, calculus_value
from agentlearn_math.judging.exact import exact_value
from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol

NumericValue = Any
"""mpmath's mpf or mpc."""

MAX_TERMS = 20_000
MAX_EXPONENT = 10**7
"""Most bits of a power."""
EXTREME = 830
"""Binary digits before or after the point beyond which a number counts as extreme."""
NOISE = 0.8
"""Share of the digits: a value that is smaller than its parts by this many digits is zero."""

_TRIGONOMETRIC = {"sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "sinh": mpmath.sinh, "cosh": mpmath.cosh}
_FUNCTIONS = {**_TRIGONOMETRIC, "tanh": mpmath.tanh, "arctan": mpmath.atan, "exp": mpmath.exp, "asinh": mpmath.asinh}
_RECIPROCAL = {"cot": "tan", "sec": "cos", "csc": "sin", "coth": "tanh"}


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
        if isinstance(node, Literal):
            return self._watched(_number(node.value))
        if isinstance(node, Symbol):
            return self._symbol(node.name, values)
        if node.op in {"sum", "prod", "integral", "lim", "lim+", "lim-"}:
            return self._watched(self._bound(node, values))
        if node.op == "pow":
            return self._watched(self._power(node, values))
        return self._watched(self._operate(node.op, [self._value(arg, values) for arg in node.args]))

    def _symbol(self, name: str, values: dict[str, Fraction]) -> NumericValue:
        if name in values:
            return _number(values[name])
        match name:
            case "pi":
                return +mpmath.pi
            case "e":
                return +mpmath.e
            case "i":
                return mpmath.mpc(0, 1)
            case _:
                raise NoValue("holds an infinity inside a formula")

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
                return self._rounded(op, value)
            case (("max" | "min"), _):
                return (max if op == "max" else min)(self._real(arg) for arg in args)
            case (("factorial" | "factorial2" | "binomial"), _):
                return self._counting(op, [self._natural(arg) for arg in args])
            case "log", [value, base]:
                if base in (0, 1):
                    raise NoValue("takes a logarithm to the base 0 or 1")
                return self._logarithm(value) / self._logarithm(base)
            case (("ln" | "log" | "lg"), [value]):
                natural = op == "ln" or (op == "log" and self.log_base == "e")
                return self._logarithm(value) / (1 if natural else mpmath.log(10))
            case _:
                return self._function(op, args)

    def _function(self, op: str, args: list[NumericValue]) -> NumericValue:
        if len(args) != 1:
            raise NoValue(f"holds {op!r} of numbers that are not whole")
        (value,) = args
        if op in {"arcsin", "arccos"}:
            if self.is_real and abs(value) > 1:
                raise NoValue("is not real everywhere", outside=True)
            return self._cleaned(mpmath.asin(value) if op == "arcsin" else mpmath.acos(value), mpmath.mpf(1))
        if op == "arccot":
            return mpmath.acot(value)
        if op in _RECIPROCAL:
            below = self._function(_RECIPROCAL[op], args)
            if not below:
                raise NoValue("divides by zero")
            return 1 / below
        if op not in _FUNCTIONS or abs(value) > MAX_EXPONENT:
            raise NoValue(f"holds {op!r} of too large a number" if op in _FUNCTIONS else f"holds {op!r}")
        found = _FUNCTIONS[op](value)
        if op == "tan" and abs(found) > mpmath.mpf(10) ** (self.digits * NOISE):
            raise NoValue("divides by zero")
        return self._cleaned(found, mpmath.mpf(1)) if op != "exp" else found

    def _power(self, node: Apply, values: dict[str, Fraction]) -> NumericValue:
        base_node, exponent_node = node.args
        base, exponent = self._value(base_node, values), self._value(exponent_node, values)
        if not base:
            if exponent.real > 0:
                return mpmath.mpf(0)
            raise NoValue("holds zero to a power that is not positive")
        if abs(exponent) * (abs(mpmath.log(abs(base), 2)) + 1) > MAX_EXPONENT:
            raise NoValue("holds too large a power")
        if mpmath.isint(exponent):
            return base ** int(exponent.real)
        if _is_negative(base):
            exact = exact_value(exponent_node, values)
            if exact is None or exact.denominator % 2:
                raise NoValue(
                    "holds a power of a negative number that could mean several numbers", outside=exact is None
                )
            if self.is_real:
                raise NoValue("is not real everywhere", outside=True)
        return self._clean_complex(mpmath.power(base, exponent))

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

    def _rounded(self, op: str, value: NumericValue) -> NumericValue:
        real = self._real(value)
        nearest = mpmath.nint(real)
        if abs(real - nearest) <= self._noise(max(abs(real), mpmath.mpf(1))):
            return nearest
        return mpmath.floor(real) if op == "floor" else mpmath.ceil(real)

    def _counting(self, op: str, args: list[int]) -> NumericValue:
        if op == "factorial":
            return mpmath.factorial(args[0])
        if op == "factorial2":
            return mpmath.fac2(args[0])
        return mpmath.binomial(*args) if args[1] <= args[0] else mpmath.mpf(0)

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
                return self._operate(
                    "add" if node.op == "sum" else "mul", terms or [_number(Fraction(node.op != "sum"))]
                )
        try:
            return self._clean_complex(calculus_value(node, values, self.digits, self.log_base))
        except Unevaluated as failed:
            raise NoValue(str(failed)) from None

    def _natural(self, value: NumericValue) -> int:
        if not mpmath.isint(value) or value.real < 0 or value.real > 10**12:
            raise NoValue("counts with a number that is not whole")
        return int(value.real)

    def _real(self, value: NumericValue) -> NumericValue:
        if isinstance(value, mpmath.mpc):
            if value.imag:
                raise NoValue("orders complex numbers")
            return value.real
        return value

    def _noise(self, scale: NumericValue) -> NumericValue:
        return scale * mpmath.mpf(10) ** int(-self.digits * NOISE)

    def _cleaned(self, value: NumericValue, scale: NumericValue) -> NumericValue:
        if abs(value) <= self._noise(scale):
            return mpmath.mpf(0)
        return self._clean_complex(value)

    def _clean_complex(self, value: NumericValue) -> NumericValue:
        """Return the value without a real or imaginary part that is noise."""
        if not isinstance(value, mpmath.mpc):
            return value
        noise = self._noise(abs(value))
        if abs(value.imag) <= noise:
            return value.real
        return mpmath.mpc(0, value.imag) if abs(value.real) <= noise else value

    def _watched(self, value: NumericValue) -> NumericValue:
        value = self._clean_complex(value)
        if value and mpmath.isfinite(value) and abs(mpmath.mag(value)) > EXTREME:
            self.extreme = True
        return value


def _number(value: Fraction) -> NumericValue:
    return mpmath.mpf(value.numerator) / value.denominator


def _is_negative(value: NumericValue) -> bool:
    return not (isinstance(value, mpmath.mpc) and value.imag) and value.real < 0
