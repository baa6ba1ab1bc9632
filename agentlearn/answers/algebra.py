"""Comparing formulas by their values. Runs in the verifier's processes only.

Closed formulas are compared exactly when they are rational, else by their relative error at 60 and then 1,100 digits.
Formulas with letters are compared at whole, positive and negative points. Values too close to tell stay undecided.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import repeat
from random import Random
from typing import Any
from typing import Literal as OneOf

import mpmath

from agentlearn.answers.form_comparison import EXACTLY, Algebra
from agentlearn.answers.match import Match, decided, different, equal, unclear
from agentlearn.answers.numeric import Evaluation, NoValue
from agentlearn.answers.syntax import Apply, Node, Symbol, exact_value, free_symbols, nodes, renamed

DIGITS, MANY_DIGITS = 60, 1_100
SAME, APART = 800, 500
"""Decimal digits: closed values that agree to SAME of MANY_DIGITS are equal; those that differ within APART differ."""
MIN_POINTS = 3
"""Points at which formulas with letters must have a value to be called equal."""

LogBase = OneOf["10", "e"]
PointKind = OneOf["whole", "positive", "signed"]
POINTS: tuple[PointKind, ...] = (*repeat("whole", 3), *repeat("positive", 4), *repeat("signed", 4))
_OTHER_LETTER = unclear("they are equal but for the name of a letter")


class NumericAlgebra(Algebra):
    """Algebra by mpmath, and by sympy for calculus."""

    def same_value(self, answer: Node, gold: Node) -> Match:
        """Whether two formulas are equal for all values of their letters."""
        found = [_same_value(answer, gold, base) for base in _log_bases(answer, gold)]
        if len({match.status for match in found}) > 1:
            return unclear("a logarithm without base leaves it open")
        other = _with_letters_of(gold, answer) if found[0].status == "different" else None
        return _OTHER_LETTER if other and _same_value(other, gold, "10").status == "equal" else found[0]

    def same_equation(self, answer: tuple[Node, Node], gold: tuple[Node, Node]) -> Match:
        """Equal up to a factor; different when one has a solution that the other does not have."""
        left, right = (Apply("add", (one, Apply("neg", (other,)))) for one, other in (answer, gold))
        if len(_log_bases(left, right)) > 1:
            return unclear("an equation holds a logarithm without base")
        found = _same_equation(left, right)
        other = _with_letters_of(right, left) if found.status == "different" else None
        return _OTHER_LETTER if other and _same_equation(other, right).status == "equal" else found

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
    every = [node for one in formulas for node in nodes(one)]
    bare = any(isinstance(node, Apply) and node.op == "log" and len(node.args) == 1 for node in every)
    return ("10", "e") if bare else ("10",)


def _with_letters_of(gold: Node, answer: Node) -> Node | None:
    """Return the answer with its one letter unknown to the gold renamed to the gold's one letter unknown to it."""
    mine, theirs = free_symbols(answer) - free_symbols(gold), free_symbols(gold) - free_symbols(answer)
    return renamed(answer, {one: other for one in mine for other in theirs}) if len(mine) == len(theirs) == 1 else None


def _value(
    node: Node, point: dict[str, Fraction], digits: int, base: LogBase, *, is_real: bool = False
) -> tuple[Any, bool]:
    """Return the value, and whether extreme numbers occurred on the way. Raises NoValue."""
    with mpmath.workdps(digits):
        evaluation = Evaluation(digits, point, base, is_real)
        return evaluation.value(node), evaluation.extreme


def _same_value(answer: Node, gold: Node, base: LogBase) -> Match:
    if letters := sorted(free_symbols(answer) | free_symbols(gold)):
        return _same_function(answer, gold, letters, base)
    one, other = exact_value(answer), exact_value(gold)
    if one is not None and other is not None:
        return decided(one == other, EXACTLY)
    try:
        for digits, apart in ((DIGITS, DIGITS // 2), (MANY_DIGITS, APART)):
            if _differ_at(answer, gold, {}, digits, base, apart):
                return different(f"compared at {digits:,} digits")
        (a, extreme_a), (b, extreme_b) = (_value(node, {}, MANY_DIGITS, base) for node in (answer, gold))
    except NoValue as failed:
        return unclear(f"one side {failed}")
    if extreme_a or extreme_b:
        return unclear("numbers of hundreds of digits leave it open")
    with mpmath.workdps(MANY_DIGITS):
        if abs(a - b) <= max(abs(a), abs(b)) * mpmath.mpf(10) ** -SAME:
            return equal(f"compared at {MANY_DIGITS:,} digits")
    return unclear("the values are too close to tell apart")


def _is_real(point: dict[str, Fraction], *formulas: Node) -> bool:
    """Whether the formulas are about real numbers: those with letters are, unless one contains `i`."""
    return bool(point) and not any(node == Symbol("i") for one in formulas for node in nodes(one))


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


def _point(kind: PointKind, letters: Sequence[str], rng: Random) -> dict[str, Fraction]:
    match kind:
        case "whole":
            return {letter: Fraction(rng.randint(2, 40)) for letter in letters}
        case "positive":
            return {letter: Fraction(rng.randint(1, 400), 97) for letter in letters}
        case "signed":
            return {letter: Fraction(rng.choice((-1, -1, 1)) * rng.randint(1, 300), 89) for letter in letters}


def _same_function(answer: Node, gold: Node, letters: Sequence[str], base: LogBase) -> Match:
    rng = Random(" ".join(letters))
    found = [(kind, _at_point(answer, gold, _point(kind, letters, rng), base)) for kind in POINTS]
    statuses = [status for _, status in found]
    if "different" in statuses:
        first = found[statuses.index("different")][0]
        if "equal" not in statuses[: POINTS.index(first)]:
            return different("compared at points")
        return unclear(f"they are equal for {'whole' if first == 'positive' else 'positive'} numbers only")
    if {"one-sided", "unclear"} & set(statuses):
        return unclear("they are not defined for the same values")
    if statuses.count("equal") < MIN_POINTS:
        return unclear("they have a value at too few points")
    return equal("compared at points")


def _at_point(
    answer: Node, gold: Node, point: dict[str, Fraction], base: LogBase
) -> OneOf["equal", "different", "unclear", "undefined", "one-sided"]:
    """Compare two formulas at one point; `one-sided`: only one of them has a value."""
    one, other = exact_value(answer, point), exact_value(gold, point)
    if one is not None and other is not None:
        return "equal" if one == other else "different"
    is_real = _is_real(point, answer, gold)
    missing: list[NoValue] = []
    for node in (answer, gold):
        try:
            _value(node, point, DIGITS, base, is_real=is_real)
        except NoValue as failed:
            missing.append(failed)
    if missing:
        return "one-sided" if len(missing) == 1 and missing[0].outside else "undefined"
    try:
        if _differ_at(answer, gold, point, DIGITS, base, DIGITS // 2):
            return "different"
        (a, _), (b, _) = (_value(node, point, 2 * DIGITS, base, is_real=is_real) for node in (answer, gold))
    except NoValue:
        return "unclear"
    with mpmath.workdps(2 * DIGITS):
        return "equal" if abs(a - b) <= max(abs(a), abs(b)) * mpmath.mpf(10) ** -DIGITS else "unclear"


def _same_equation(left: Node, right: Node) -> Match:
    """Compare two formulas of which both are 0 where the equations hold."""
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
    for mine, other in ((left, right), (right, left)):
        for letter in letters:
            if any(_solution_tells(mine, other, letter, _point("signed", letters, rng)) for _ in range(3)):
                return different("a solution of one is none of the other")
    return unclear("the equations may have the same solutions")


def _solution_tells(mine: Node, other: Node, letter: str, point: dict[str, Fraction]) -> bool:
    """Whether a solution of one equation, found on a line through a point, clearly fails the other."""

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
