"""Comparing formulas by their values. Runs in the worker process only.

Closed formulas are compared exactly when they are rational, else by their relative error at 60 and then 1,100 digits.
Formulas with letters are compared at whole, positive and negative points. Values too close to tell stay undecided.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import repeat
from random import Random
from typing import Any
from typing import Literal as OneOf

import mpmath

from agentlearn.answers.match import Match, decided, different, equal, unclear
from agentlearn_math.judging.algebra_base import Algebra
from agentlearn_math.judging.exact import exact_value
from agentlearn_math.judging.numeric import Evaluation, NoValue
from agentlearn_math.judging.syntax import Apply, Node, Symbol, free_symbols, nodes

DIGITS, MANY_DIGITS = 60, 1_100
SAME, APART = 800, 500
"""Decimal digits: closed values that agree to SAME of MANY_DIGITS are equal; those that differ within APART differ."""
MIN_POINTS = 3
"""Points at which formulas with letters must have a value to be called equal."""

LogBase = OneOf["10", "e"]
PointKind = OneOf["whole", "positive", "signed"]
POINTS: tuple[PointKind, ...] = (*repeat("whole", 3), *repeat("positive", 4), *repeat("signed", 4))


@dataclass(frozen=True, slots=True)
class _AtPoint:
    """How two formulas compare at one point; `one-sided`: only one of them has a value."""

    kind: PointKind
    status: OneOf["equal", "different", "unclear", "undefined", "one-sided"]


class NumericAlgebra(Algebra):
    """Algebra by mpmath, and by sympy for calculus."""

    def same_value(self, answer: Node, gold: Node) -> Match:
        """Whether two formulas are equal for all values of their letters."""
        found = [_same_value(answer, gold, base) for base in _log_bases(answer, gold)]
        if len({match.status for match in found}) > 1:
            return unclear("a logarithm without base leaves it open")
        renamed = _renamed(answer, gold) if found[0].status == "different" else None
        if renamed is not None and _same_value(renamed, gold, "10").status == "equal":
            return unclear("they are equal but for the name of a letter")
        return found[0]

    def same_equation(self, answer: tuple[Node, Node], gold: tuple[Node, Node]) -> Match:
        """Equal up to a factor; different when one has a solution that the other does not have."""
        left, right = _difference(*answer), _difference(*gold)
        if len(_log_bases(left, right)) > 1:
            return unclear("an equation holds a logarithm without base")
        found = _same_equation(left, right)
        renamed = _renamed(left, right) if found.status == "different" else None
        if renamed is not None and _same_equation(renamed, right).status == "equal":
            return unclear("they are equal but for the name of a letter")
        return found

    def is_finite(self, node: Node) -> Match:
        """Equal when the formula has a finite value."""
        if free_symbols(node):
            return equal("a formula with letters")
        try:
            _value(node, {}, DIGITS, "10")
        except NoValue as failed:
            return unclear(f"one side {failed}")
        return equal("finite")

    def ordered(self, values: Sequence[Node]) -> list[int] | Match:
        """Return the ranks of real values; values are equal when `same_value` says so."""
        if any(free_symbols(node) for node in values):
            return unclear("an interval's end holds a letter")
        try:
            numbers = [_value(node, {}, 2 * DIGITS, "10")[0] for node in values]
        except NoValue as failed:
            return unclear(f"an interval's end {failed}")
        if any(isinstance(number, mpmath.mpc) for number in numbers):
            return unclear("an interval's end is not real")
        order = sorted(range(len(values)), key=lambda at: numbers[at])
        ranks, rank = [0] * len(values), 0
        for at, before in zip(order, [None, *order], strict=False):
            found = different("first") if before is None else self.same_value(values[at], values[before])
            if found.status not in {"equal", "different"}:
                return found
            rank += found.status == "different"
            ranks[at] = rank
        return ranks


def _log_bases(*formulas: Node) -> tuple[LogBase, ...]:
    """Return the possible bases of a logarithm without a base; a single one when there is no such logarithm."""
    bare = any(
        isinstance(node, Apply) and node.op == "log" and len(node.args) == 1 for one in formulas for node in nodes(one)
    )
    return ("10", "e") if bare else ("10",)


def _renamed(answer: Node, gold: Node) -> Node | None:
    """Return the answer with its one letter unknown to the gold renamed to the gold's one letter unknown to it."""
    mine, theirs = free_symbols(answer) - free_symbols(gold), free_symbols(gold) - free_symbols(answer)
    if len(mine) != 1 or len(theirs) != 1:
        return None
    (old,), (new,) = mine, theirs
    return _with_letter(answer, old, new)


def _with_letter(node: Node, old: str, new: str) -> Node:
    if isinstance(node, Symbol):
        return Symbol(new) if node.name == old else node
    if isinstance(node, Apply):
        return Apply(node.op, tuple(_with_letter(arg, old, new) for arg in node.args))
    return node


def _same_value(answer: Node, gold: Node, base: LogBase) -> Match:
    letters = sorted(free_symbols(answer) | free_symbols(gold))
    return _same_function(answer, gold, letters, base) if letters else _same_number(answer, gold, base)


def _same_number(answer: Node, gold: Node, base: LogBase) -> Match:
    one, other = exact_value(answer), exact_value(gold)
    if one is not None and other is not None:
        return decided(one == other, "compared as exact numbers")
    try:
        if _differ_at(answer, gold, {}, DIGITS, base, DIGITS // 2):
            return different(f"compared at {DIGITS} digits")
        if _differ_at(answer, gold, {}, MANY_DIGITS, base, APART):
            return different(f"compared at {MANY_DIGITS:,} digits")
        (a, extreme_a), (b, extreme_b) = (_value(node, {}, MANY_DIGITS, base) for node in (answer, gold))
    except NoValue as failed:
        return unclear(f"one side {failed}")
    if extreme_a or extreme_b:
        return unclear("numbers of hundreds of digits leave it open")
    with mpmath.workdps(MANY_DIGITS):
        is_same = abs(a - b) <= max(abs(a), abs(b)) * mpmath.mpf(10) ** -SAME
    return (
        equal(f"compared at {MANY_DIGITS:,} digits") if is_same else unclear("the values are too close to tell apart")
    )


def _differ_at(answer: Node, gold: Node, point: dict[str, Fraction], digits: int, base: LogBase, apart: int) -> bool:
    """Whether the values differ by more than 10^-apart of their size, and clearly more than two precisions of one value
    do.
    """
    is_real = _is_real(point, answer, gold)
    coarse = [_value(node, point, digits, base, is_real=is_real)[0] for node in (answer, gold)]
    with mpmath.workdps(digits):
        if abs(coarse[0] - coarse[1]) <= max(map(abs, coarse)) * mpmath.mpf(10) ** -apart:
            return False
    more = digits + DIGITS
    fine = [_value(node, point, more, base, is_real=is_real)[0] for node in (answer, gold)]
    with mpmath.workdps(more):
        apart_by = abs(fine[0] - fine[1])
        error = sum((abs(one - other) for one, other in zip(coarse, fine, strict=True)), mpmath.mpf(0))
        return bool(apart_by > error * 10**10 and apart_by > max(map(abs, fine)) * mpmath.mpf(10) ** -apart)


def _same_function(answer: Node, gold: Node, letters: Sequence[str], base: LogBase) -> Match:
    rng = Random(" ".join(letters))
    found = [_at_point(answer, gold, _point(kind, letters, rng), kind, base) for kind in POINTS]
    statuses: dict[str, set[str]] = {kind: {one.status for one in found if one.kind == kind} for kind in POINTS}
    for kind in ("whole", "positive", "signed"):
        if "different" in statuses[kind]:
            return different("compared at points") if kind == "whole" else _partly(kind, statuses)
    if any(one.status in {"one-sided", "unclear"} for one in found):
        return unclear("they are not defined for the same values")
    if sum(one.status == "equal" for one in found) < MIN_POINTS:
        return unclear("they have a value at too few points")
    return equal("compared at points")


def _partly(kind: PointKind, statuses: dict[str, set[str]]) -> Match:
    """Different at these points, and not at the points before."""
    if kind == "positive":
        before, where = statuses["whole"], "whole numbers"
    else:
        before, where = statuses["whole"] | statuses["positive"], "positive numbers"
    return unclear(f"they are equal for {where} only") if "equal" in before else different("compared at points")


def _at_point(answer: Node, gold: Node, point: dict[str, Fraction], kind: PointKind, base: LogBase) -> _AtPoint:
    one, other = exact_value(answer, point), exact_value(gold, point)
    if one is not None and other is not None:
        return _AtPoint(kind, "equal" if one == other else "different")
    missing = [failed for node in (answer, gold) if (failed := _failure(node, point, (answer, gold), base))]
    if missing:
        return _AtPoint(kind, "one-sided" if len(missing) == 1 and missing[0].outside else "undefined")
    return _AtPoint(kind, _compared_at(answer, gold, point, base))


def _compared_at(
    answer: Node, gold: Node, point: dict[str, Fraction], base: LogBase
) -> OneOf["equal", "different", "unclear"]:
    try:
        if _differ_at(answer, gold, point, DIGITS, base, DIGITS // 2):
            return "different"
        is_real = _is_real(point, answer, gold)
        (a, _), (b, _) = (_value(node, point, 2 * DIGITS, base, is_real=is_real) for node in (answer, gold))
    except NoValue:
        return "unclear"
    with mpmath.workdps(2 * DIGITS):
        return "equal" if abs(a - b) <= max(abs(a), abs(b)) * mpmath.mpf(10) ** -DIGITS else "unclear"


def _failure(node: Node, point: dict[str, Fraction], both: tuple[Node, Node], base: LogBase) -> NoValue | None:
    try:
        _value(node, point, DIGITS, base, is_real=_is_real(point, *both))
    except NoValue as failed:
        return failed
    return None


def _is_real(point: dict[str, Fraction], *formulas: Node) -> bool:
    """Whether the formulas are about real numbers: those with letters are, unless one contains `i`."""
    return bool(point) and not any(node == Symbol("i") for one in formulas for node in nodes(one))


def _point(kind: PointKind, letters: Iterable[str], rng: Random) -> dict[str, Fraction]:
    match kind:
        case "whole":
            return {letter: Fraction(rng.randint(2, 40)) for letter in letters}
        case "positive":
            return {letter: Fraction(rng.randint(1, 400), 97) for letter in letters}
        case "signed":
            return {letter: Fraction(rng.choice((-1, -1, 1)) * rng.randint(1, 300), 89) for letter in letters}


def _value(
    node: Node, point: dict[str, Fraction], digits: int, base: LogBase, *, is_real: bool = False
) -> tuple[Any, bool]:
    """Return the value, and whether extreme numbers occurred on the way. Raises NoValue."""
    with mpmath.workdps(digits):
        evaluation = Evaluation(digits, point, base, is_real)
        return evaluation.value(node), evaluation.extreme


def _difference(left: Node, right: Node) -> Node:
    return Apply("add", (left, Apply("neg", (right,))))


def _same_equation(left: Node, right: Node) -> Match:
    letters = sorted(free_symbols(left) | free_symbols(right))
    rng = Random(" ".join(letters))
    if not letters:
        return unclear("an equation holds no letter")
    ratios: list[Any] = []
    for kind in POINTS:
        point = _point(kind, letters, rng)
        try:
            one, other = (_value(node, point, DIGITS, "10", is_real=True)[0] for node in (left, right))
        except NoValue:
            continue
        if one and other:
            ratios.append(one / other)
    with mpmath.workdps(DIGITS):
        agree = [abs(ratio - ratios[0]) <= abs(ratio) * mpmath.mpf(10) ** -(DIGITS // 2) for ratio in ratios]
    if len(ratios) >= MIN_POINTS and all(agree):
        return equal("compared up to a factor")
    if _has_own_solution(left, right, letters, rng) or _has_own_solution(right, left, letters, rng):
        return different("a solution of one is none of the other")
    return unclear("the equations may have the same solutions")


def _has_own_solution(mine: Node, other: Node, letters: Sequence[str], rng: Random) -> bool:
    """Whether some solution of one equation, found on a line through a random point, clearly fails the other."""
    return any(
        _solution_tells(mine, other, letter, _point("signed", letters, rng)) for letter in letters for _ in range(3)
    )


def _solution_tells(mine: Node, other: Node, letter: str, point: dict[str, Fraction]) -> bool:
    def at(node: Node, value: Any) -> Any:
        exact = Fraction(int(mpmath.nint(value * 2**400)), 2**400)
        return _value(node, point | {letter: exact}, DIGITS, "10", is_real=True)[0]

    try:
        with mpmath.workdps(DIGITS):
            start = mpmath.mpf(point[letter].numerator) / point[letter].denominator
            root = mpmath.findroot(partial(at, mine), (start, start + 1), maxsteps=60, verify=False)
            root = mpmath.mpf(root.real)
            scale = abs(at(mine, start)) + abs(at(mine, start + 1))
            is_root = abs(at(mine, root)) < scale * mpmath.mpf(10) ** -40
            other_scale = abs(at(other, start)) + abs(at(other, start + 1))
            return bool(is_root and abs(at(other, root)) > other_scale * mpmath.mpf(10) ** -10)
    except (NoValue, ValueError, ZeroDivisionError, OverflowError, TypeError):
        return False
