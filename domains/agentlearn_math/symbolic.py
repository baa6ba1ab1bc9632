"""Equality of two LaTeX expressions by math-verify, fenced against its false accepts and its endless computations.

It runs in this process, in any thread, where math-verify's own timeouts cannot: what could keep a single big-number
operation busy is refused unread, and a limit of CPU time ends the rest. A text that math-verify reads only in part is
refused too. Closed expressions are compared by their relative error at 60 digits, open ones at sampled points.
"""

import logging
import math
import re
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate
from random import Random
from types import ModuleType
from typing import Any

LIMIT_S = 3.0
"""CPU seconds for one comparison."""
MAX_CHARACTERS = 200
DIGITS = 60
TOLERANCE = Fraction(1, 10**40)

MAX_DEPTH = 8
MAX_GROWTH = 10_000
"""Of the product of the exponents of numbers and brackets; nested powers grow no larger."""
MAX_DEGREE = 40
"""Of the sum of the exponents of everything that is no number."""
MAX_DEGREE_OF_OBJECTS = 8
"""The same for sets, equations and the like, on both sides together: math-verify may expand them."""
SAMPLES = 4

_RAISED = re.compile(r"\^|\*\*")
_EXPONENT = re.compile(
    r"([\d)}\]]?)\s*(?:\^|\*\*)\s*(?:\{([^{}()^!]*)\}|\(([^{}()^!]*)\)|(-?\s*\d+|\\?[a-zA-Z]+))(?!\s*(?:\^|\*\*|!))"
)
_REFUSED = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"(?<!\d)!|\d{3}!", "holds a factorial of more than a small number"),
        (r"binom(?!\s*\{\d{1,3}\}\s*\{\d{1,3}\})|choose", "holds a binomial of more than small numbers"),
        (r"\\(?:sum|prod|i{0,3}nt|oint|lim)(?![a-zA-Z])", "holds a sum, product, integral or limit"),
        (r"\d{40}", "holds a very long number"),
        (r"\.\.|\\[lcv]?dots|\\overline", "holds an ellipsis"),
        (r"(?<![\d_])\d+\s+\d", "holds two numbers side by side"),
        (r"[\d)}]\s*_|'|\\prime|\\circ|\\[bp]?mod", "holds a number base, prime, degree or modulus"),
        (r"(?<![\\a-zA-Z])(?!(?:sqrt|sin|cos|tan|log|exp|[pbv]?matrix)(?![a-zA-Z]))[a-zA-Z]{3,}", "holds words"),
    )
)
_LETTER = re.compile(r"\\(?:math(?:rm|it|bf|sf)|operatorname)\s*\{\s*([a-zA-Z])\s*\}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome; `equal` is None when it is undecided."""

    equal: bool | None
    reason: str


def compare(answer: str, gold: str) -> Comparison:
    """Whether the two expressions are equal. Never raises for what they hold, never runs long."""
    answer, gold = _LETTER.sub(r"\1", answer), _LETTER.sub(r"\1", gold)
    for name, text in (("answer", answer), ("expected answer", gold)):
        if obstacle := obstacle_in(text):
            return Comparison(None, f"the {name} {obstacle}")
    _math_verify()
    try:
        with _cpu_limit(LIMIT_S):
            return _read_and_compare(answer, gold)
    except _OutOfTime:
        return Comparison(None, f"the comparison took more than {LIMIT_S:g} s")
    except Exception as broken:  # noqa: BLE001  sympy raises whatever it meets, and none of it judges the answer
        return Comparison(None, f"the comparison broke with {type(broken).__name__}")


def _read_and_compare(answer: str, gold: str) -> Comparison:
    left, right = _parsed(gold), _parsed(answer)
    if left is None or right is None:
        unread = "expected answer" if left is None else "answer"
        return Comparison(None, f"the {unread} could not be read as one whole expression")
    return _compare(left, right, degree_of(gold) + degree_of(answer))


def obstacle_in(text: str) -> str:
    """Why math-verify should not be asked about the text; empty when it may."""
    if len(text) > MAX_CHARACTERS:
        return f"is longer than {MAX_CHARACTERS} characters"
    if _depth(text) > MAX_DEPTH:
        return f"nests more than {MAX_DEPTH} brackets"
    powers = _powers(text)
    if len(powers) < len(_RAISED.findall(text)):
        return "holds a power of a power"
    if math.prod(exponent for base, exponent in powers if base) > MAX_GROWTH or degree_of(text) > MAX_DEGREE:
        return "holds large powers"
    return next((reason for pattern, reason in _REFUSED if pattern.search(text)), "")


def degree_of(text: str) -> int:
    """The sum of the exponents of everything that is no number."""
    return sum(exponent for base, exponent in _powers(text) if not base.isdigit())


def _powers(text: str) -> list[tuple[str, int]]:
    """What each plain exponent stands on (a digit, a closing bracket or nothing), and the product of its numbers."""
    return [(base, _product("".join(exponent))) for base, *exponent in _EXPONENT.findall(text)]


def _depth(text: str) -> int:
    depths = accumulate((sign in "({[") - (sign in ")}]") for sign in text)
    return max(depths, default=0)


def _product(text: str) -> int:
    return math.prod(int(number) or 1 for number in re.findall(r"\d+", text))


def _parsed(text: str) -> Any:
    """The sympy expression that the whole text states; None when nothing or only a part of it was read."""
    math_verify = _math_verify()
    config = math_verify.LatexExtractionConfig(boxed_match_priority=0)
    found = math_verify.parse(f"\\boxed{{{text}}}", extraction_config=[config], parsing_timeout=None)
    if len(found) != 2 or isinstance(found[0], str) or _skeleton(found[1]) != _skeleton(text):
        return None
    return _evaluated(found[0])


def _skeleton(text: str) -> str:
    """The letters, digits and operators, which no normalisation may lose."""
    return re.sub(r"\\(?:text|mathrm)|[^\w+\-*/^=<>!|]", "", text)


def _evaluated(expression: Any) -> Any:
    """The expression carried out, with `i` as the imaginary unit."""
    import sympy

    if not isinstance(expression, sympy.Expr):
        return expression
    units = [(symbol, sympy.I) for symbol in expression.free_symbols if str(symbol) == "i"]
    return expression.subs(units).doit()


def _compare(gold: Any, answer: Any, degree: int) -> Comparison:
    import sympy

    if not (isinstance(gold, sympy.Expr) and isinstance(answer, sympy.Expr)):
        return _compare_objects(gold, answer, degree)
    if gold.free_symbols or answer.free_symbols:
        return _compare_samples(gold, answer)
    return _compare_values(gold, answer)


def _compare_values(gold: Any, answer: Any) -> Comparison:
    """Closed expressions, by relative error."""
    import sympy

    a, b = sympy.N(gold, DIGITS), sympy.N(answer, DIGITS)
    if not (a.is_finite and b.is_finite):
        return Comparison(None if sympy.nan in (a, b) else bool(a == b), "compared as limits")
    scale = max(abs(a), abs(b))
    if abs(a - b) > scale * TOLERANCE:
        return Comparison(False, "compared numerically")
    if scale > 1 / TOLERANCE:
        return Comparison(None, "the values are too large to tell apart")
    return Comparison(True, "compared numerically")


def _compare_samples(gold: Any, answer: Any) -> Comparison:
    """Open expressions, by their values at points that depend on both of them."""
    import sympy

    rng = Random(f"{gold} {answer}")
    symbols = sorted(gold.free_symbols | answer.free_symbols, key=str)
    for _ in range(SAMPLES):
        point = {symbol: sympy.Rational(rng.randint(-300, 300), 97) for symbol in symbols}
        at_point = _compare_values(gold.subs(point), answer.subs(point))
        if not at_point.equal:
            return Comparison(at_point.equal, "compared at sampled points")
    return Comparison(True, "compared at sampled points")


def _compare_objects(gold: Any, answer: Any, degree: int) -> Comparison:
    """Sets, intervals, tuples, matrices, equations and inequalities, by math-verify's own rules."""
    if degree > MAX_DEGREE_OF_OBJECTS:
        return Comparison(None, "the powers in it are too large to compare")
    equal = _math_verify().verify(
        gold, answer, float_rounding=DIGITS // 4, numeric_precision=DIGITS, timeout_seconds=None, raise_on_error=True
    )
    return Comparison(bool(equal), "compared symbolically")


class _OutOfTime(BaseException):
    """No Exception, because sympy catches those to try another way."""


@contextmanager
def _cpu_limit(seconds: float) -> Generator[None]:
    """Raises _OutOfTime in this thread at a call of a function after so many CPU seconds."""
    end, calls = time.thread_time() + seconds, 0

    def check(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls % 1024 == 0 and time.thread_time() > end:
            raise _OutOfTime

    before = sys.getprofile()
    sys.setprofile(check)
    try:
        yield
    finally:
        sys.setprofile(before)


@cache
def _math_verify() -> ModuleType:
    import math_verify

    for name in ("math_verify.parser", "math_verify.grader"):
        # `obstacle_in` is the guard that this warning asks for.
        logging.getLogger(name).addFilter(lambda record: "Timeout is disabled" not in record.getMessage())
    return math_verify
