"""Comparing formulas by their values, with many digits. Runs in the verifier's processes only.

Closed formulas are compared exactly when they are rational, else by their relative error at 60 and then 1,100 digits.
Formulas with letters are compared at whole, positive and negative points. Values too close to tell stay undecided.

Values are computed by mpmath, and by sympy for integrals, limits and infinite sums. A sum or function value that is
smaller than its parts by most of the digits counts as zero. `_Evaluation.extreme` says whether a number was so large or
small that this could be wrong.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import chain, islice, repeat
from random import Random
from typing import Any
from typing import Literal as OneOf

import mpmath
import sympy

from agentlearn.answers.form_comparison import EXACTLY, Algebra
from agentlearn.answers.forms import BINDERS, Apply, Literal, Node, Symbol, exact_value, free_symbols, nodes, renamed
from agentlearn.answers.match import Match

_Value = Any
"""mpmath's mpf or mpc."""

_MAX_TERMS = 20_000
_MAX_EXPONENT = 10**7
"""Most bits of a power."""
_EXTREME = 830
"""Binary digits before or after the point beyond which a number counts as extreme."""
_NOISE = 0.8
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


class _NoValue(Exception):
    """Raised when a formula has no value, or none that everybody agrees on."""

    def __init__(self, reason: str, *, outside: bool = False) -> None:
        super().__init__(reason)
        self.outside = outside
        """Whether the letters' values are outside the range where the formula is real."""


@dataclass
class _Evaluation:
    """One evaluation at `digits` decimal digits; use it inside `mpmath.workdps`."""

    digits: int
    values: Mapping[str, Fraction] = field(default_factory=dict[str, Fraction])
    log_base: OneOf["10", "e"] = "10"
    is_real: bool = False
    """Whether a square root or logarithm of a negative number has no value."""
    extreme: bool = False

    def value(self, node: Node) -> _Value:
        """Return the formula's value. Raises _NoValue."""
        found = self._value(node, dict(self.values))
        if not mpmath.isfinite(found):
            raise _NoValue("has no finite value")
        return found

    def _value(self, node: Node, values: dict[str, Fraction]) -> _Value:
        if isinstance(node, Symbol):
            constants = {"pi": +mpmath.pi, "e": +mpmath.e, "i": mpmath.mpc(0, 1)}
            if node.name not in values and node.name not in constants:
                raise _NoValue("holds an infinity inside a formula")
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
        if found and mpmath.isfinite(found) and abs(mpmath.mag(found)) > _EXTREME:
            self.extreme = True
        return found

    def _operate(self, op: str, args: list[_Value]) -> _Value:
        match op, args:
            case "add", _:
                return self._cleaned(mpmath.fsum(args), max(abs(arg) for arg in args))
            case "mul", _:
                return mpmath.fprod(args)
            case "neg", [value]:
                return -value
            case "div", [top, bottom]:
                if not bottom:
                    raise _NoValue("divides by zero")
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
                    raise _NoValue("counts with a number that is not whole")
                whole = [int(arg.real) for arg in args]
                if op == "binomial":
                    return mpmath.binomial(*whole) if whole[1] <= whole[0] else mpmath.mpf(0)
                return (mpmath.factorial if op == "factorial" else mpmath.fac2)(*whole)
            case "log", [value, base]:
                if base in (0, 1):
                    raise _NoValue("takes a logarithm to the base 0 or 1")
                return self._logarithm(value) / self._logarithm(base)
            case (("ln" | "log" | "lg"), [value]):
                natural = op == "ln" or (op == "log" and self.log_base == "e")
                return self._logarithm(value) / (1 if natural else mpmath.log(10))
            case _, [value]:
                return self._function(op, value)
            case _:
                raise _NoValue(f"holds {op!r} of numbers that are not whole")

    def _function(self, op: str, value: _Value) -> _Value:
        one = mpmath.mpf(1)
        if op in {"arcsin", "arccos"}:
            if self.is_real and abs(value) > 1:
                raise _NoValue("is not real everywhere", outside=True)
            return self._cleaned(mpmath.asin(value) if op == "arcsin" else mpmath.acos(value), one)
        if op == "arccot":
            return mpmath.acot(value)
        if op in _RECIPROCAL:
            if not (below := self._function(_RECIPROCAL[op], value)):
                raise _NoValue("divides by zero")
            return 1 / below
        if op not in _FUNCTIONS or abs(value) > _MAX_EXPONENT:
            raise _NoValue(f"holds {op!r} of too large a number" if op in _FUNCTIONS else f"holds {op!r}")
        found = _FUNCTIONS[op](value)
        if op == "tan" and abs(found) > mpmath.mpf(10) ** (self.digits * _NOISE):
            raise _NoValue("divides by zero")
        return found if op == "exp" else self._cleaned(found, one)

    def _power(self, node: Apply, values: dict[str, Fraction]) -> _Value:
        base, exponent = (self._value(arg, values) for arg in node.args)
        if not base:
            if exponent.real > 0:
                return mpmath.mpf(0)
            raise _NoValue("holds zero to a power that is not positive")
        if abs(exponent) * (abs(mpmath.log(abs(base), 2)) + 1) > _MAX_EXPONENT:
            raise _NoValue("holds too large a power")
        if mpmath.isint(exponent):
            return base ** int(exponent.real)
        if _is_negative(base):
            exact = exact_value(node.args[1], values)
            if exact is None or exact.denominator % 2:
                why = "holds a power of a negative number that could mean several numbers"
                raise _NoValue(why, outside=exact is None)
            if self.is_real:
                raise _NoValue("is not real everywhere", outside=True)
        return self._without_noise(mpmath.power(base, exponent))

    def _root(self, radicand: _Value, degree: _Value) -> _Value:
        if not mpmath.isint(degree) or not 1 <= degree.real <= _MAX_TERMS:
            raise _NoValue("holds a root of a strange degree")
        if not _is_negative(radicand):
            return mpmath.root(radicand, int(degree)) if radicand else mpmath.mpf(0)
        if int(degree) % 2:
            return -mpmath.root(-radicand.real, int(degree))
        if self.is_real:
            raise _NoValue("is not real everywhere", outside=True)
        return mpmath.root(radicand, int(degree))

    def _logarithm(self, value: _Value) -> _Value:
        if not value:
            raise _NoValue("takes the logarithm of zero", outside=True)
        if self.is_real and _is_negative(value):
            raise _NoValue("is not real everywhere", outside=True)
        return self._cleaned(mpmath.log(value), mpmath.mpf(1))

    def _bound(self, node: Apply, values: dict[str, Fraction]) -> _Value:
        """Return a sum or product term by term when its bounds are plain, else by sympy, like integrals and limits."""
        if node.op in {"sum", "prod"}:
            variable, low_node, high_node, body = node.args
            low, high = exact_value(low_node, values), exact_value(high_node, values)
            assert isinstance(variable, Symbol)
            if low is not None and high is not None:
                if low.denominator != 1 or high.denominator != 1 or high - low > _MAX_TERMS:
                    raise _NoValue("holds a sum or product over too many or no whole numbers")
                places = range(int(low), int(high) + 1)
                terms = [self._value(body, values | {variable.name: Fraction(at)}) for at in places]
                op = "add" if node.op == "sum" else "mul"
                return self._operate(op, terms or [_number(Fraction(node.op != "sum"))])
        try:
            found = self._in_sympy(node, {name: _rational(value) for name, value in values.items()}).doit()
        except (NotImplementedError, ValueError, TypeError, AttributeError, ZeroDivisionError) as failed:
            raise _NoValue("holds a limit, integral or sum that sympy cannot work out") from failed
        if found.has(*_OPEN) or found.free_symbols or found.is_finite is False or found in (sympy.nan, sympy.zoo):
            raise _NoValue("holds a limit, integral or sum without a known finite value")
        parts = [mpmath.mpf(str(sympy.Float(part, self.digits))) for part in sympy.N(found, self.digits).as_real_imag()]
        return self._without_noise(mpmath.mpc(*parts) if parts[1] else parts[0])

    def _in_sympy(self, node: Node, values: Mapping[str, Any]) -> Any:
        """Return the formula as an expression of sympy. Raises _NoValue."""
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
                raise _NoValue(f"holds {op!r} in a sum, integral or limit")

    def _real(self, value: _Value) -> _Value:
        if isinstance(value, mpmath.mpc):
            if value.imag:
                raise _NoValue("orders complex numbers")
            return value.real
        return value

    def _noise(self, scale: _Value) -> _Value:
        return scale * mpmath.mpf(10) ** int(-self.digits * _NOISE)

    def _cleaned(self, value: _Value, scale: _Value) -> _Value:
        return mpmath.mpf(0) if abs(value) <= self._noise(scale) else self._without_noise(value)

    def _without_noise(self, value: _Value) -> _Value:
        """Return the value without a real or imaginary part that is noise."""
        if not isinstance(value, mpmath.mpc):
            return value
        noise = self._noise(abs(value))
        if abs(value.imag) <= noise:
            return value.real
        return mpmath.mpc(0, value.imag) if abs(value.real) <= noise else value


def _number(value: Fraction) -> _Value:
    return mpmath.mpf(value.numerator) / value.denominator


def _rational(value: Fraction) -> Any:
    return sympy.Rational(value.numerator, value.denominator)


def _is_negative(value: _Value) -> bool:
    return not (isinstance(value, mpmath.mpc) and value.imag) and value.real < 0


DIGITS, MANY_DIGITS = 60, 1_100
SAME, APART = 800, 500
"""Decimal digits: closed values that agree to SAME of MANY_DIGITS are equal; those that differ within APART differ."""
MIN_POINTS = 3
"""Points at which formulas with letters must have a value to be called equal."""

LogBase = OneOf["10", "e"]
PointKind = OneOf["whole", "positive", "signed"]
POINTS: tuple[PointKind, ...] = (*repeat("whole", 3), *repeat("positive", 4), *repeat("signed", 4))
_OTHER_LETTER = Match.unclear("they are equal but for the name of a letter")


class NumericAlgebra(Algebra):
    """Algebra by mpmath, and by sympy for calculus."""

    def same_value(self, answer: Node, gold: Node) -> Match:
        """Whether two formulas are equal for all values of their letters."""
        found = [_Pair(answer, gold, base).same_value() for base in _log_bases(answer, gold)]
        if len({match.status for match in found}) > 1:
            return Match.unclear("a logarithm without base leaves it open")
        other = _with_letters_of(gold, answer) if found[0].status == "different" else None
        return _OTHER_LETTER if other and _Pair(other, gold).same_value().status == "equal" else found[0]

    def same_equation(self, answer: tuple[Node, Node], gold: tuple[Node, Node]) -> Match:
        """Equal up to a factor; different when one has a solution that the other does not have."""
        left, right = (Apply("add", (one, Apply("neg", (other,)))) for one, other in (answer, gold))
        if len(_log_bases(left, right)) > 1:
            return Match.unclear("an equation holds a logarithm without base")
        found = _Pair(left, right).same_roots()
        other = _with_letters_of(right, left) if found.status == "different" else None
        return _OTHER_LETTER if other and _Pair(other, right).same_roots().status == "equal" else found

    def is_finite(self, node: Node) -> Match:
        """Equal when the formula has a finite value."""
        if free_symbols(node):
            return Match.equal("a formula with letters")
        try:
            _value(node, {}, DIGITS)
        except _NoValue as failed:
            return Match.unclear(f"one side {failed}")
        return Match.equal("finite")

    def ordered(self, values: Sequence[Node]) -> list[int] | Match:
        """Return the ranks of real values; values are equal when `same_value` says so."""
        if any(free_symbols(node) for node in values):
            return Match.unclear("an interval's end holds a letter")
        try:
            numbers = [_value(node, {}, 2 * DIGITS)[0] for node in values]
        except _NoValue as failed:
            return Match.unclear(f"an interval's end {failed}")
        if any(isinstance(number, mpmath.mpc) for number in numbers):
            return Match.unclear("an interval's end is not real")
        order = sorted(range(len(values)), key=lambda at: numbers[at])
        ranks, rank = [0] * len(values), 0
        for at, before in zip(order, [None, *order], strict=False):
            found = Match.different("first") if before is None else self.same_value(values[at], values[before])
            if found.status not in {"equal", "different"}:
                return found
            rank += found.status == "different"
            ranks[at] = rank
        return ranks


def _log_bases(*formulas: Node) -> tuple[LogBase, ...]:
    """Return the possible bases of a logarithm without a base; a single one when there is no such logarithm."""
    every = [node for one in formulas for node in nodes(one)]
    bare = any(isinstance(node, Apply) and node.op == "log" and len(node.args) == 1 for node in every)
    return ("10", "e") if bare else ("10",)


def _with_letters_of(gold: Node, answer: Node) -> Node | None:
    """Return the answer with its one letter unknown to the gold renamed to the gold's one letter unknown to it."""
    mine, theirs = free_symbols(answer) - free_symbols(gold), free_symbols(gold) - free_symbols(answer)
    return renamed(answer, {one: other for one in mine for other in theirs}) if len(mine) == len(theirs) == 1 else None


def _value(
    node: Node, point: dict[str, Fraction], digits: int, base: LogBase = "10", *, is_real: bool = False
) -> tuple[Any, bool]:
    """Return the value, and whether extreme numbers occurred on the way. Raises _NoValue."""
    with mpmath.workdps(digits):
        evaluation = _Evaluation(digits, point, base, is_real)
        return evaluation.value(node), evaluation.extreme


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two formulas, compared by their values."""

    answer: Node
    gold: Node
    base: LogBase = "10"

    def letters(self) -> list[str]:
        """Return the letters of both in order."""
        return sorted(free_symbols(self.answer) | free_symbols(self.gold))

    def points(self) -> Iterator[dict[str, Fraction]]:
        """Yield values for the letters, of the kinds in POINTS, then of both signs without end. The same each time."""
        letters = self.letters()
        rng = Random(" ".join(letters))
        for kind in chain(POINTS, repeat("signed")):
            match kind:
                case "whole":
                    yield {letter: Fraction(rng.randint(2, 40)) for letter in letters}
                case "positive":
                    yield {letter: Fraction(rng.randint(1, 400), 97) for letter in letters}
                case _:
                    yield {letter: Fraction(rng.choice((-1, -1, 1)) * rng.randint(1, 300), 89) for letter in letters}

    def is_real(self) -> bool:
        """Return whether both are about real numbers: those with letters are, unless one contains `i`."""
        return bool(self.letters()) and Symbol("i") not in {*nodes(self.answer), *nodes(self.gold)}

    def values(self, point: dict[str, Fraction], digits: int) -> list[tuple[Any, bool]]:
        """Return both values, each with whether extreme numbers occurred. Raises _NoValue."""
        is_real = self.is_real()
        return [_value(node, point, digits, self.base, is_real=is_real) for node in (self.answer, self.gold)]

    def same_value(self) -> Match:
        """Whether both are equal, at all values of their letters."""
        if self.letters():
            return self._same_function()
        one, other = exact_value(self.answer), exact_value(self.gold)
        if one is not None and other is not None:
            return Match.decided(one == other, EXACTLY)
        try:
            for digits, apart in ((DIGITS, DIGITS // 2), (MANY_DIGITS, APART)):
                if self._differ_at({}, digits, apart):
                    return Match.different(f"compared at {digits:,} digits")
            (a, extreme_a), (b, extreme_b) = self.values({}, MANY_DIGITS)
        except _NoValue as failed:
            return Match.unclear(f"one side {failed}")
        if extreme_a or extreme_b:
            return Match.unclear("numbers of hundreds of digits leave it open")
        with mpmath.workdps(MANY_DIGITS):
            if abs(a - b) <= max(abs(a), abs(b)) * mpmath.mpf(10) ** -SAME:
                return Match.equal(f"compared at {MANY_DIGITS:,} digits")
        return Match.unclear("the values are too close to tell apart")

    def _differ_at(self, point: dict[str, Fraction], digits: int, apart: int) -> bool:
        """Whether the values differ by more than 10^-apart of their size, and clearly more than two precisions of one
        value do.
        """
        coarse = [value for value, _ in self.values(point, digits)]
        with mpmath.workdps(digits):
            if abs(coarse[0] - coarse[1]) <= max(map(abs, coarse)) * mpmath.mpf(10) ** -apart:
                return False
        fine = [value for value, _ in self.values(point, digits + DIGITS)]
        with mpmath.workdps(digits + DIGITS):
            apart_by = abs(fine[0] - fine[1])
            error = sum((abs(one - other) for one, other in zip(coarse, fine, strict=True)), mpmath.mpf(0))
            return bool(apart_by > error * 10**10 and apart_by > max(map(abs, fine)) * mpmath.mpf(10) ** -apart)

    def _same_function(self) -> Match:
        statuses = [self._at(point) for _, point in zip(POINTS, self.points(), strict=False)]
        if "different" in statuses:
            first = POINTS[statuses.index("different")]
            if "equal" not in statuses[: POINTS.index(first)]:
                return Match.different("compared at points")
            return Match.unclear(f"they are equal for {'whole' if first == 'positive' else 'positive'} numbers only")
        if {"one-sided", "unclear"} & set(statuses):
            return Match.unclear("they are not defined for the same values")
        if statuses.count("equal") < MIN_POINTS:
            return Match.unclear("they have a value at too few points")
        return Match.equal("compared at points")

    def _at(self, point: dict[str, Fraction]) -> OneOf["equal", "different", "unclear", "undefined", "one-sided"]:
        """Compare both at one point; `one-sided`: only one of them has a value there."""
        one, other = exact_value(self.answer, point), exact_value(self.gold, point)
        if one is not None and other is not None:
            return "equal" if one == other else "different"
        missing: list[_NoValue] = []
        for node in (self.answer, self.gold):
            try:
                _value(node, point, DIGITS, self.base, is_real=self.is_real())
            except _NoValue as failed:
                missing.append(failed)
        if missing:
            return "one-sided" if len(missing) == 1 and missing[0].outside else "undefined"
        try:
            if self._differ_at(point, DIGITS, DIGITS // 2):
                return "different"
            (a, _), (b, _) = self.values(point, 2 * DIGITS)
        except _NoValue:
            return "unclear"
        with mpmath.workdps(2 * DIGITS):
            return "equal" if abs(a - b) <= max(abs(a), abs(b)) * mpmath.mpf(10) ** -DIGITS else "unclear"

    def same_roots(self) -> Match:
        """Whether both are 0 for the same values of their letters."""
        letters = self.letters()
        if not letters:
            return Match.unclear("an equation holds no letter")
        ratios: list[Any] = []
        points = self.points()
        for point in islice(points, len(POINTS)):
            try:
                one, other = (_value(node, point, DIGITS, is_real=True)[0] for node in (self.answer, self.gold))
            except _NoValue:
                continue
            if one and other:
                ratios.append(one / other)
        with mpmath.workdps(DIGITS):
            agree = [abs(ratio - ratios[0]) <= abs(ratio) * mpmath.mpf(10) ** -(DIGITS // 2) for ratio in ratios]
        if len(ratios) >= MIN_POINTS and all(agree):
            return Match.equal("compared up to a factor")
        for mine, other in ((self.answer, self.gold), (self.gold, self.answer)):
            if any(_solution_tells(mine, other, letter, next(points)) for letter in letters for _ in range(3)):
                return Match.different("a solution of one is none of the other")
        return Match.unclear("the equations may have the same solutions")


def _solution_tells(mine: Node, other: Node, letter: str, point: dict[str, Fraction]) -> bool:
    """Whether a solution of one equation, found on a line through a point, clearly fails the other."""

    def at(node: Node, value: Any) -> Any:
        exact = Fraction(int(mpmath.nint(value * 2**400)), 2**400)
        return _value(node, point | {letter: exact}, DIGITS, is_real=True)[0]

    try:
        with mpmath.workdps(DIGITS):
            start = mpmath.mpf(point[letter].numerator) / point[letter].denominator
            root = mpmath.findroot(partial(at, mine), (start, start + 1), maxsteps=60, verify=False)
            root = mpmath.mpf(root.real)
            scale = abs(at(mine, start)) + abs(at(mine, start + 1))
            is_root = abs(at(mine, root)) < scale * mpmath.mpf(10) ** -40
            other_scale = abs(at(other, start)) + abs(at(other, start + 1))
            return bool(is_root and abs(at(other, root)) > other_scale * mpmath.mpf(10) ** -10)
    except (_NoValue, ValueError, ZeroDivisionError, OverflowError, TypeError):
        return False
