"""Comparing formulas by their values. Runs in the verifier's processes only.

Closed formulas are compared exactly when they are rational, else by their relative error at 60 and then 1,100 digits.
Formulas with letters are compared at whole, positive and negative points. Values too close to tell stay undecided.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, islice, repeat
from random import Random
from typing import Any
from typing import Literal as OneOf

import mpmath

from agentlearn.answers.form_comparison import EXACTLY, Algebra
from agentlearn.answers.match import Match
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
        except NoValue as failed:
            return Match.unclear(f"one side {failed}")
        return Match.equal("finite")

    def ordered(self, values: Sequence[Node]) -> list[int] | Match:
        """Return the ranks of real values; values are equal when `same_value` says so."""
        if any(free_symbols(node) for node in values):
            return Match.unclear("an interval's end holds a letter")
        try:
            numbers = [_value(node, {}, 2 * DIGITS)[0] for node in values]
        except NoValue as failed:
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
    """Return the value, and whether extreme numbers occurred on the way. Raises NoValue."""
    with mpmath.workdps(digits):
        evaluation = Evaluation(digits, point, base, is_real)
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
        """Return both values, each with whether extreme numbers occurred. Raises NoValue."""
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
        except NoValue as failed:
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
        missing: list[NoValue] = []
        for node in (self.answer, self.gold):
            try:
                _value(node, point, DIGITS, self.base, is_real=self.is_real())
            except NoValue as failed:
                missing.append(failed)
        if missing:
            return "one-sided" if len(missing) == 1 and missing[0].outside else "undefined"
        try:
            if self._differ_at(point, DIGITS, DIGITS // 2):
                return "different"
            (a, _), (b, _) = self.values(point, 2 * DIGITS)
        except NoValue:
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
            except NoValue:
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
    except (NoValue, ValueError, ZeroDivisionError, OverflowError, TypeError):
        return False
