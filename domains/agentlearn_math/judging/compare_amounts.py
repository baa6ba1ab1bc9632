"""Comparison of amounts with units, percentages, ratios and times of day. The functions are as in `compare_values`."""

# ruff: noqa: ARG001  every function of the table takes the same arguments

from collections.abc import Sequence
from fractions import Fraction

from agentlearn.answers.match import Match, all_of, any_of, decided, different, equal, unclear
from agentlearn_math.judging.algebra_base import Comparator, compare_part
from agentlearn_math.judging.compare_values import Scalar, compare_in_order, node_of
from agentlearn_math.judging.forms import (
    Based,
    Form,
    Formula,
    Number,
    Quantity,
    Ratio,
    TimeOfDay,
    Unreadable,
    has_letters,
)
from agentlearn_math.judging.quantities import DEGREES, PERCENT, is_letter_unit, size_of
from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol
from agentlearn_math.judging.times import HALF_DAY_S, HOUR_S, hours_and_minutes, time_of_ratio

_SECONDS = {"h": 3_600, "min": 60, "s": 1}


def compare_quantities(to: Comparator, answer: Quantity, gold: Quantity) -> Match:
    """Compare the amounts, in one unit where both units are known. Equal amounts of different units are undecided."""
    if answer.unit == gold.unit:
        return to.compare(answer.amount, gold.amount)
    otherwise = unclear(f"the units differ ({answer.unit!r} and {gold.unit!r})")
    mine, theirs = size_of(answer.unit), size_of(gold.unit)
    if mine is None or theirs is None or to.compare(answer.amount, gold.amount).status == "equal":
        return otherwise
    if mine[0] != theirs[0]:
        return different("the units measure different things")
    amounts = [_product_of(form.amount, Number(size)) for form, (_, size) in ((answer, mine), (gold, theirs))]
    return to.compare(*amounts) if isinstance(gold.amount, Number | Formula) else otherwise


def quantity_and_other(to: Comparator, form: Quantity, other: Form, is_answer: bool) -> Match:
    """Compare the amount without its unit; degrees also as radians, percent as a hundredth."""
    if isinstance(other, Ratio) and (numbers := hours_and_minutes(other)) and form.unit in _SECONDS:
        return _duration(to, form, numbers)
    if not isinstance(other, Scalar | Based | Ratio):
        return unclear("only one of them has a unit")
    if form.unit == PERCENT:
        return _percentage(to, form.amount, other)
    if isinstance(other, Formula) and (amount := _amount_before(form.unit, other.node)) is not None:
        other = amount
    bare = compare_part(to, form.amount, other, is_answer=is_answer)
    if form.unit != DEGREES or bare.status == "equal" or isinstance(other, Number):
        return bare
    return any_of([bare, to.compare(_radians(form.amount), other)], "compared in degrees and radians")


def _amount_before(unit: str, node: Node) -> Form | None:
    """Return the amount in `3 h` or `3 m^2`, which is a product of a number and a letter until a unit is expected."""
    name, _, power = unit.partition("^")
    last = Apply("pow", (Symbol(name), Literal(Fraction(int(power))))) if power else Symbol(name)
    match node:
        case Apply(op="mul", args=(Literal(value=value), one)) if one == last and is_letter_unit(name):
            return Number(value)
        case Apply(op="mul", args=(*factors, one)) if one == last and is_letter_unit(name):
            return Formula(Apply("mul", tuple(factors))) if len(factors) > 1 else Formula(factors[0])
        case _:
            return None


def _duration(to: Comparator, form: Quantity, numbers: tuple[int, int]) -> Match:
    """Undecided when `1:30` may be the duration: hours and minutes, or minutes and seconds."""
    if not isinstance(form.amount, Number):
        return unclear("one of them may be a duration")
    first, second = numbers
    seconds = form.amount.value * _SECONDS[form.unit]
    may_agree = seconds in {first * 3_600 + second * 60, first * 60 + second}
    return unclear("one of them may be a duration") if may_agree else different("compared as durations")


def _percentage(to: Comparator, amount: Form, other: Form) -> Match:
    """Equal when the other side is a hundredth of the amount, or the amount itself and more than 1.

    In the second case the question asked for percent and one side left the sign out. Up to 1 that is not certain.
    """
    node = node_of(amount)
    if node is None:
        return unclear("the percentage cannot be read")
    hundredth: Form = Formula(Apply("div", (node, Literal(Fraction(100)))))
    if isinstance(amount, Number):
        hundredth = Number(Fraction(amount.value) / 100)
    as_number = to.compare(hundredth, other)
    if as_number.status != "different":
        return as_number
    as_written = to.compare(amount, other)
    if as_written.status != "equal":
        return as_written
    if isinstance(other, Number) and abs(other.value) > 1:
        return equal("compared without the percent sign")
    return unclear("only one of them has a percent sign")


def compare_ratios(to: Comparator, answer: Ratio, gold: Ratio) -> Match:
    """Compare part by part, then up to a common factor. What may be times of day is not equal by a factor."""
    same = compare_in_order(to, answer.parts, gold.parts)
    if same.status == "equal" or len(answer.parts) != len(gold.parts):
        return same
    scaled = _proportional(to, answer.parts, gold.parts)
    if not (answer.is_clock_like or gold.is_clock_like):
        return scaled
    one, other = time_of_ratio(answer), time_of_ratio(gold)
    if one is not None and other is not None and (_has_zero(answer) or _has_zero(gold)):
        return compare_times(to, one, other)
    may_be_one_time = one is not None and other is not None and compare_times(to, one, other).status != "different"
    return unclear("they may be ratios or times of day") if scaled.status == "equal" or may_be_one_time else scaled


def _has_zero(ratio: Ratio) -> bool:
    """Whether the ratio is a time, since it holds a zero."""
    return any(isinstance(part, Number) and not part.value for part in ratio.parts)


def ratio_and_other(to: Comparator, form: Ratio, other: Form, is_answer: bool) -> Match:
    """Compare a ratio of two parts with its quotient."""
    if len(form.parts) != 2 or not isinstance(other, Scalar):
        return unclear("only one of them is a ratio")
    numbers = hours_and_minutes(form)
    if numbers and isinstance(other, Number) and other.value in _hours_or_minutes(*numbers):
        return unclear("one of them may be a duration")
    quotient = _proportional(to, form.parts, (other, Number(1)))
    return quotient if quotient.status != "equal" or not form.is_clock_like else unclear("one may be a time")


def _hours_or_minutes(first: int, second: int) -> set[int | Fraction]:
    """Return the numbers that `1:30` may stand for: 90 (and 1.5) minutes or hours."""
    return {first * 60 + second, first + Fraction(second, 60)}


def compare_times(to: Comparator, answer: TimeOfDay, gold: TimeOfDay) -> Match:
    """Compare two times; undecided when they agree and only one side gives the half of the day."""
    if answer.knows_half == gold.knows_half:
        return decided(answer.since_midnight_s == gold.since_midnight_s, "compared as times")
    if (answer.since_midnight_s - gold.since_midnight_s) % HALF_DAY_S:
        return different("compared as times")
    return unclear("only one of them says in which half of the day it is")


def time_and_other(to: Comparator, form: TimeOfDay, other: Form, is_answer: bool) -> Match:
    """Compare a time with a ratio read as a time. A number may be the hour without the rest."""
    match other:
        case Ratio():
            time = time_of_ratio(other)
            return different("only one of them is a time") if time is None else compare_times(to, form, time)
        case Number(value=value) | Quantity(amount=Number(value=value)):
            hours = Fraction(form.since_midnight_s, HOUR_S)
            whole, minutes = divmod(form.since_midnight_s // 60, 60)
            may_agree = {
                hours % 12,
                (hours + 12) % 24,
                hours,
                100 * whole + minutes,
                Fraction(12 if not hours % 12 else 0),
            }
            return unclear("one may be a time") if value in may_agree else different("only one of them is a time")
        case Formula() if has_letters(other):
            return different("only one of them is a time")
        case Formula():
            return unclear("only one of them is a time")
        case _:
            return different("only one of them is a time")


def _proportional(to: Comparator, left: Sequence[Form], right: Sequence[Form]) -> Match:
    """Compare the cross products with the first parts."""
    first, other = left[0], right[0]
    pairs = [(_product_of(one, other), _product_of(two, first)) for one, two in zip(left[1:], right[1:], strict=True)]
    return all_of((to.compare(one, two) for one, two in pairs), "compared as ratios")


def _product_of(one: Form, other: Form) -> Form:
    left, right = node_of(one), node_of(other)
    if isinstance(one, Number) and isinstance(other, Number):
        return Number(one.value * other.value)
    if left is None or right is None:
        return Unreadable("holds a ratio of parts that are not numbers")
    return Formula(Apply("mul", (left, right)))


def _radians(amount: Form) -> Form:
    node = node_of(amount)
    if node is None:
        return amount
    return Formula(Apply("mul", (node, Apply("div", (Symbol("pi"), Literal(Fraction(180)))))))
