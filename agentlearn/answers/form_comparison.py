"""Whether two answers of mathematics state the same. Decided exactly where possible; the rest is asked of `Algebra`.

A method for two forms of one kind takes `(answer, gold)`. A method for one kind and any other takes `(form, other,
is_answer)`, where `is_answer` says whether `form` is the answer.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from agentlearn.answers.forms import (
    Apply,
    Based,
    ChoiceLetter,
    Equation,
    Form,
    Formula,
    Infinity,
    Literal,
    Node,
    Number,
    Quantity,
    Ratio,
    Readings,
    SameValues,
    Symbol,
    Unreadable,
    Words,
    has_letters,
    node_of,
    number,
    with_constants_of,
)
from agentlearn.answers.latex import DEGREES, ONE_LETTER_UNITS, PERCENT
from agentlearn.answers.match import OPEN, Match
from agentlearn.answers.numbers import LARGE_NUMBERS, PARTS, SMALL_NUMBERS
from agentlearn.answers.sets import CollectionComparator
from agentlearn.answers.times import HOUR_S, ClockTime
from agentlearn.answers.units import MeasureUnit

EXACTLY = "compared as exact numbers"
_Scalar = Number | Formula | Infinity
_SYNONYMS = (
    frozenset({"yes", "true", "correct"}),
    frozenset({"no", "false", "incorrect"}),
    frozenset({"none", "impossible", "undefined", "dne", "empty", "never", "nothing", "nonexistent", "divergent"}),
    frozenset({"all", "always", "every", "any", "infinite", "infinity"}),
)
_OF_NUMBERS = (
    *(*SMALL_NUMBERS, *LARGE_NUMBERS, *PARTS, "none", "nothing", "nil", "once", "twice", "infinit", "both"),
    *("undefined", "impossible", "empty", "dne", "all"),
)
"""Words that may stand for a number, or for its absence."""
_SECONDS = {"h": HOUR_S, "min": 60, "s": 1}


class Algebra:
    """Decisions about formulas. This base class decides nothing: every method returns `OPEN`."""

    def same_value(self, answer: Node, gold: Node) -> Match:
        """Whether two formulas are equal for all values of their letters."""
        return OPEN

    def same_equation(self, answer: tuple[Node, Node], gold: tuple[Node, Node]) -> Match:
        """Whether two equations, each given by its sides, hold for the same values of their letters."""
        return OPEN

    def is_finite(self, node: Node) -> Match:
        """Equal when the formula certainly has a finite value."""
        return OPEN

    def ordered(self, values: Sequence[Node]) -> list[int] | Match:
        """Return the ranks of real values, the same for equal ones; a Match when they cannot be ordered."""
        return OPEN


class FormComparator:
    """Compares forms with one algebra."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._sets = CollectionComparator(self.compare, algebra.ordered)
        self._leading: tuple[tuple[type, Any, Any], ...] = (
            (Equation, self._equations, self._equation_and_other),
            (SameValues, self._same_values, self._same_values_and_other),
            (ChoiceLetter, self._choices, self._choice_and_other),
            (Words, self._words, self._words_and_other),
            (ClockTime, ClockTime.compare, self._time_and_other),
            (Quantity, self._quantities, self._quantity_and_other),
            (Based, self._based, self._based_and_other),
            (Ratio, self._ratios, self._ratio_and_other),
        )
        """Kinds that decide how a pair is compared: two of the kind, and one with any kind further down."""

    def compare(self, answer: Form, gold: Form) -> Match:
        """Whether the answer states what the expected answer states."""
        for side, form in (("answer", answer), ("expected answer", gold)):
            if isinstance(form, Unreadable):
                return Match.unclear(f"the {side} {form.reason}")
        if isinstance(answer, Readings) or isinstance(gold, Readings):
            return self._readings(answer, gold)
        for kind, both, with_other in self._leading:
            if isinstance(answer, kind):
                return both(answer, gold) if isinstance(gold, kind) else with_other(answer, gold, True)
            if isinstance(gold, kind):
                return with_other(gold, answer, False)
        if isinstance(answer, _Scalar) and isinstance(gold, _Scalar):
            return self._scalars(answer, gold)
        return self._sets.collections(answer, gold)

    def _part(self, part: Form, other: Form, is_answer: bool) -> Match:
        """Compare a part of one side with the other side. is_answer: whether the part belongs to the answer."""
        return self.compare(part, other) if is_answer else self.compare(other, part)

    def _scalars(self, answer: _Scalar, gold: _Scalar) -> Match:
        match answer, gold:
            case Number(value=one), Number(value=other):
                return Match.decided(one == other, EXACTLY)
            case Infinity(sign=one), Infinity(sign=other):
                return Match.decided(one == other, "compared as infinities")
            case (Infinity(), Formula(node=node)) | (Formula(node=node), Infinity()):
                finite = self.algebra.is_finite(node)
                return Match.different("only one of them is finite") if finite.status == "equal" else finite
            case (Infinity(), _) | (_, Infinity()):
                return Match.different("only one of them is finite")
            case _:
                left, right = node_of(answer), node_of(gold)
                assert left is not None
                assert right is not None
                left, right = with_constants_of(left, right), with_constants_of(right, left)
                return Match.equal("the same formula") if left == right else self.algebra.same_value(left, right)

    def _readings(self, answer: Form, gold: Form) -> Match:
        """Equal when one pair of readings is equal; words are compared as words first."""
        answers, golds = (form.forms if isinstance(form, Readings) else (form,) for form in (answer, gold))
        pairs = [(one, other) for one in answers for other in golds]
        first = self.compare(*pairs[0])
        match answers, golds:
            case (ClockTime(), _), (ClockTime(), _):
                return first
            case (Words(), formula), (Words(), other):
                if first.status != "different":
                    return first
                pairs = [(formula, other)]
            case _:
                pass
        readable = [pair for pair in pairs if not any(isinstance(form, Unreadable) for form in pair)]
        if not readable:
            return first
        return Match.any_of((self.compare(*pair) for pair in readable), "compared in every way to read them")

    def _choices(self, answer: ChoiceLetter, gold: ChoiceLetter) -> Match:
        if answer.letter != gold.letter:
            return Match.different("compared as choices")
        if answer.content is None or gold.content is None:
            return Match.equal("compared as choices")
        contents = self.compare(answer.content, gold.content)
        return contents if contents.status != "different" else Match.unclear("the same letter has another content")

    def _choice_and_other(self, form: ChoiceLetter, other: Form, is_answer: bool) -> Match:
        """Compare the choice's content with the other side; a letter without content is read as a symbol."""
        if isinstance(other, Words):
            may_name_it = form.letter.casefold() in other.text.split()
            return Match.unclear("one is a choice in words") if may_name_it else Match.different("compared as choices")
        return self._part(form.content or Formula(Symbol(form.letter)), other, is_answer)

    def _equations(self, answer: Equation, gold: Equation) -> Match:
        """Compare the values that the equations give, or else the equations as a whole."""
        sides = answer, gold
        if all(form.label and (form.left is None or not has_letters(form.right)) for form in sides):
            right = self.compare(answer.right, gold.right)
            if answer.label == gold.label or right.status != "equal":
                return right
            if not all(isinstance(form.left, Formula) and not isinstance(form.left.node, Symbol) for form in sides):
                return Match.unclear("the same value is given to different names")
        elif answer.label == gold.label and answer.label:
            right = self.compare(answer.right, gold.right)
            if right.status == "equal":
                return right
        match [node_of(form) for form in (answer.left, answer.right, gold.left, gold.right)]:
            case [Literal() | Symbol() | Apply() as a, Literal() | Symbol() | Apply() as b, c, d] if c and d:
                return self.algebra.same_equation((a, b), (c, d))
            case _:
                return Match.unclear("a side of the equations is not a number or formula")

    def _equation_and_other(self, form: Equation, other: Form, is_answer: bool) -> Match:
        """Compare the value that the equation gives with the other side. Without a name, equal values are undecided."""
        value = self._part(form.right, other, is_answer)
        if form.label or value.status == "open":
            return value
        return (Match.different if value.status == "different" else Match.unclear)("only one of them is an equation")

    def _same_values(self, answer: SameValues, gold: SameValues) -> Match:
        return _agreeing([self._same_values_and_other(gold, value, False) for value in answer.values])

    def _same_values_and_other(self, form: SameValues, other: Form, is_answer: bool) -> Match:
        """Equal when every value equals the other side; undecided when only some do, or only the rounded one."""
        found = _agreeing([self._part(value, other, is_answer) for value in form.values])
        if found.status != "different":
            return found
        rounded = Match.any_of((self._part(value, other, is_answer) for value in form.rounded), "compared")
        if rounded.status in {"open", "different"}:
            return rounded if rounded.status == "open" else found
        return Match.unclear("only the rounded value agrees")

    def _words(self, answer: Words, gold: Words) -> Match:
        """Compare two texts; undecided when they may mean the same."""
        one, other = answer.text, gold.text
        if one == other:
            return Match.equal("the same words")
        may_be_one = (
            " " in one + other
            or one.startswith(other[:3])
            or other.startswith(one[:3])
            or any(one in group and other in group for group in _SYNONYMS)
            or sorted(one) == sorted(other)
        )
        return (
            Match.unclear("the words differ, but may mean the same")
            if may_be_one
            else Match.different("compared as words")
        )

    def _words_and_other(self, form: Words, other: Form, is_answer: bool) -> Match:
        """Different, unless the words may name a number. An answer of several may also describe 0 or a formula."""
        several = " " in form.text and not (is_answer and isinstance(other, Number) and other.value)
        may_be_number = several or any(word in form.text.casefold() for word in _OF_NUMBERS)
        return (Match.unclear if may_be_number else Match.different)("only one of them is in words")

    def _based(self, answer: Based, gold: Based) -> Match:
        same = int(answer.digits, answer.base) == int(gold.digits, gold.base)
        if same and answer.base != gold.base:
            return Match.unclear("they are written in different bases")
        return Match.decided(same, "compared in their base")

    def _based_and_other(self, form: Based, other: Form, is_answer: bool) -> Match:
        """Undecided when only one side gives a base and the digits or the value agree."""
        if not isinstance(other, Number):
            return Match.unclear("only one of them names a base")
        looks_alike = str(other.value) == form.digits or other.value == int(form.digits, form.base)
        if looks_alike:
            return Match.unclear("they are written in different bases")
        return Match.different("neither the digits nor the value agree")

    def _quantities(self, answer: Quantity, gold: Quantity) -> Match:
        """Compare the amounts, in one unit where both units are known. Equal amounts of other units are undecided."""
        mine, theirs = MeasureUnit.named(answer.unit), MeasureUnit.named(gold.unit)
        one_size = mine and theirs and (mine.dimension, mine.size) == (theirs.dimension, theirs.size)
        if answer.unit == gold.unit or (one_size and not (mine and mine.money)):
            return self.compare(answer.amount, gold.amount)
        otherwise = Match.unclear(f"the units differ ({answer.unit!r} and {gold.unit!r})")
        if mine is None or theirs is None:
            return otherwise
        as_written = self.compare(answer.amount, gold.amount)
        if {mine.name, theirs.name} == {"gbp", "pound"}:
            return as_written
        degrees = [
            unit.celsius(Fraction(form.amount.value))
            for form, unit in ((answer, mine), (gold, theirs))
            if isinstance(form.amount, Number) and unit.dimension in {"celsius", "fahrenheit"}
        ]
        if len(degrees) == 2:
            return (
                otherwise if 0 < abs(degrees[0] - degrees[1]) <= 1 else Match.decided(degrees[0] == degrees[1], EXACTLY)
            )
        if as_written.status == "equal" or mine.inexact(theirs):
            return otherwise
        if not mine.convertible(theirs):
            return Match.different("the units measure different things")
        one, other = (_product_of(form.amount, Number(unit.size)) for form, unit in ((answer, mine), (gold, theirs)))
        if not isinstance(gold.amount, Number | Formula):
            return otherwise
        if isinstance(one, Number) and isinstance(other, Number) and one.value != other.value:
            # 3.1 miles may be what 5 km was rounded to
            return otherwise if abs(one.value - other.value) <= abs(other.value) / 10 else Match.different(EXACTLY)
        return self.compare(one, other)

    def _quantity_and_other(self, form: Quantity, other: Form, is_answer: bool) -> Match:
        """Compare the amount without its unit; degrees also as radians, percent as a hundredth."""
        if isinstance(other, Ratio) and form.unit in _SECONDS and (numbers := _hours_and_minutes(other)):
            first, second = numbers  # `1:30` may be hours and minutes, or minutes and seconds
            seconds = form.amount.value * _SECONDS[form.unit] if isinstance(form.amount, Number) else None
            if seconds not in {None, first * HOUR_S + second * 60, first * 60 + second}:
                return Match.different("compared as durations")
            return Match.unclear("one of them may be a duration")
        if not isinstance(other, _Scalar | Based | Ratio):
            return Match.unclear("only one of them has a unit")
        if form.unit == PERCENT:
            return self._percentage(form.amount, other)
        if isinstance(other, Formula) and (quantity := _quantity_in(other.node, form.unit)) is not None:
            found = self._part(form, quantity, is_answer)
            apart = found.status == "unclear" and isinstance(form.amount, Number) and form.amount == quantity.amount
            return Match.different("the same amount of another unit") if apart else found
        bare = self._part(form.amount, other, is_answer)
        if form.unit != DEGREES or bare.status == "equal" or isinstance(other, Number):
            return bare
        node, degree = node_of(form.amount), Apply("div", (Symbol("pi"), Literal(Fraction(180))))
        radians = form.amount if node is None else Formula(Apply("mul", (node, degree)))
        return Match.any_of([bare, self.compare(radians, other)], "compared in degrees and radians")

    def _percentage(self, amount: Form, other: Form) -> Match:
        """Equal when the other side is a hundredth of the amount, or the amount itself and more than 1.

        In the second case the question asked for percent and one side left the sign out. Up to 1 that is not certain.
        """
        node = node_of(amount)
        if node is None:
            return Match.unclear("the percentage cannot be read")
        hundredth: Form = Formula(Apply("div", (node, Literal(Fraction(100)))))
        if isinstance(amount, Number):
            hundredth = Number(Fraction(amount.value) / 100)
        as_number = self.compare(hundredth, other)
        if as_number.status != "different":
            return as_number
        as_written = self.compare(amount, other)
        if as_written.status != "equal":
            return as_written
        if isinstance(other, Number) and abs(other.value) > 1:
            return Match.equal("compared without the percent sign")
        return Match.unclear("only one of them has a percent sign")

    def _ratios(self, answer: Ratio, gold: Ratio) -> Match:
        """Compare part by part, then up to a common factor. What may be times of day is not equal by a factor."""
        same = self._sets.in_order(answer.parts, gold.parts)
        if same.status == "equal" or len(answer.parts) != len(gold.parts):
            return same
        scaled = self._proportional(answer.parts, gold.parts)
        one, other = _time_of_ratio(answer), _time_of_ratio(gold)
        if not (answer.is_clock_like or gold.is_clock_like):
            return scaled
        times = ClockTime.compare(one, other) if one and other else None
        parts = (*answer.parts, *gold.parts)
        if times and any(isinstance(part, Number) and not part.value for part in parts):
            return times  # a ratio holds no zero
        may_be_one_time = times is not None and times.status != "different"
        return (
            Match.unclear("they may be ratios or times of day")
            if scaled.status == "equal" or may_be_one_time
            else scaled
        )

    def _ratio_and_other(self, form: Ratio, other: Form, is_answer: bool) -> Match:
        """Compare a ratio of two parts with its quotient."""
        if len(form.parts) != 2 or not isinstance(other, _Scalar):
            return Match.unclear("only one of them is a ratio")
        if isinstance(other, Number) and (numbers := _hours_and_minutes(form)):
            first, second = numbers  # `1:30` may stand for 90 (and 1.5) minutes or hours
            if other.value in {first * 60 + second, first + Fraction(second, 60)}:
                return Match.unclear("one of them may be a duration")
        quotient = self._proportional(form.parts, (other, Number(1)))
        return quotient if quotient.status != "equal" or not form.is_clock_like else Match.unclear("one may be a time")

    def _time_and_other(self, form: ClockTime, other: Form, is_answer: bool) -> Match:
        """Compare a time with a ratio read as a time. A number may be the hour without the rest."""
        unlike, may_be = Match.different("only one of them is a time"), Match.unclear("one may be a time")
        match other:
            case Ratio():
                time = _time_of_ratio(other)
                return unlike if time is None else ClockTime.compare(form, time)
            case Number(value=value) | Quantity(amount=Number(value=value)):
                hours = {Fraction(at, HOUR_S) for at in form.readings}
                alike = hours | {at % 12 for at in hours} | {(at + 12) % 24 for at in hours}
                alike |= {100 * (at // HOUR_S) + at % HOUR_S // 60 for at in form.readings}
                alike |= {Fraction(12) for at in hours if not at % 12}
                return may_be if value in alike else unlike
            case Formula() if not has_letters(other):
                return Match.unclear("only one of them is a time")
            case _:
                return unlike

    def _proportional(self, left: Sequence[Form], right: Sequence[Form]) -> Match:
        """Compare the cross products with the first parts."""
        pairs = zip(left[1:], right[1:], strict=True)
        products = ((_product_of(one, right[0]), _product_of(two, left[0])) for one, two in pairs)
        return Match.all_of((self.compare(one, two) for one, two in products), "compared as ratios")


def _agreeing(matches: Sequence[Match]) -> Match:
    statuses = {match.status for match in matches}
    if len(statuses) == 1 or "open" in statuses:
        return next(match for match in matches if match.status == "open" or len(statuses) == 1)
    return Match.unclear("one side gives several values that do not all agree with the other side")


def _quantity_in(node: Node, unit: str) -> Quantity | None:
    """Return the amount in `3 h`, `3 m^2` or `3 MB`, which is a product with letters until a unit is expected."""
    expected = MeasureUnit.named(unit)
    if not isinstance(node, Apply) or node.op != "mul":
        return None
    factors, first = node.args, node.args[0]
    for start in range(1, len(factors)):
        letters, power = list(factors[start:]), ""
        match letters[-1]:
            case Apply(op="pow", args=(Symbol() as letter, Literal(value=exponent))):
                letters[-1], power = letter, f"^{exponent}"
            case _:
                pass
        names = [one.name for one in letters if isinstance(one, Symbol)]
        name = "".join(names)
        found = MeasureUnit.named(name + power) if len(names) == len(letters) else None
        fits = found and expected and (found.convertible(expected) or found.inexact(expected))
        if len(names) == len(letters) and (fits or (name + power == unit and name in ONE_LETTER_UNITS)):
            amount = Formula(Apply("mul", factors[:start]) if start > 1 else first)
            plain = number(first.value) if isinstance(first, Literal) and start == 1 else amount
            return Quantity(plain, found.name if found else unit)
    return None


def _product_of(one: Form, other: Form) -> Form:
    left, right = node_of(one), node_of(other)
    if isinstance(one, Number) and isinstance(other, Number):
        return Number(one.value * other.value)
    if left is None or right is None:
        return Unreadable("holds a ratio of parts that are not numbers")
    return Formula(Apply("mul", (left, right)))


def _hours_and_minutes(ratio: Ratio) -> tuple[int, int] | None:
    """Return the two numbers of a ratio that looks like `1:30`; None for any other ratio."""
    match ratio:
        case Ratio(parts=(Number(value=int() as one), Number(value=int() as other)), is_clock_like=True):
            return one, other
        case _:
            return None


def _time_of_ratio(ratio: Ratio) -> ClockTime | None:
    """Return `9:30` or `9:30:15` as a time; None when it is none. Hours up to 12 leave the half of the day open."""
    match [part.value if isinstance(part, Number) else None for part in ratio.parts]:
        case [int() as hour, int() as minute, *rest] if len(rest) < 2 and all(isinstance(one, int) for one in rest):
            return ClockTime.of(hour, minute, next((one for one in rest if isinstance(one, int)), 0))
        case _:
            return None
