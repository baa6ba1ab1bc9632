"""Whether two forms state the same: a table of the functions that compare each pair of kinds of forms.

Decided exactly where possible. What needs algebra is asked of `Algebra`, or stays open.
"""

from collections.abc import Callable
from typing import Any, get_args

from agentlearn.answers.match import Match, unclear
from agentlearn_math.judging import compare_amounts as amounts
from agentlearn_math.judging import compare_collections as collections
from agentlearn_math.judging import compare_values as values
from agentlearn_math.judging.algebra_base import Algebra, Comparator
from agentlearn_math.judging.forms import (
    Based,
    ChoiceLetter,
    Equation,
    Form,
    Formula,
    Infinity,
    Listing,
    Matrix,
    Number,
    Quantity,
    Ratio,
    Readings,
    RealInterval,
    SameValues,
    Set,
    TimeOfDay,
    Tuple,
    Unreadable,
    Words,
)

Compare = Callable[[Comparator, Any, Any], Match]
"""Compares an answer (second) with the expected answer (third)."""
CompareOther = Callable[[Comparator, Any, Any, bool], Match]
"""Compares a form of one kind with another form; the last argument says whether the first form is the answer."""

_LEADING: tuple[tuple[type, Compare, CompareOther | None], ...] = (
    (Readings, values.compare_readings, None),
    (Equation, values.compare_equations, values.equation_and_other),
    (SameValues, values.compare_same_values, values.same_values_and_other),
    (ChoiceLetter, values.compare_choices, values.choice_and_other),
    (Words, values.compare_words, values.words_and_other),
    (TimeOfDay, amounts.compare_times, amounts.time_and_other),
    (Quantity, amounts.compare_quantities, amounts.quantity_and_other),
    (Based, values.compare_based, values.based_and_other),
    (Ratio, amounts.compare_ratios, amounts.ratio_and_other),
)
"""Kinds that decide how a pair is compared: two of the kind, and one with any kind further down."""

_SCALARS = (Number, Formula, Infinity)
_SCALAR_PAIRS: dict[tuple[type, type], Compare] = {
    (Number, Number): values.compare_numbers,
    (Infinity, Infinity): values.compare_infinities,
    (Formula, Formula): values.compare_formulas,
    (Formula, Number): values.compare_formulas,
    (Number, Formula): values.compare_formulas,
}
_COLLECTION_PAIRS: dict[tuple[type, type], Compare] = {
    (Matrix, Matrix): collections.compare_matrices,
    (Tuple, Tuple): collections.compare_tuples,
    **{(one, other): collections.compare_unordered for one in (Set, Listing) for other in (Set, Listing)},
    **{(Tuple, other): collections.compare_with_unordered for other in (Set, Listing)},
    **{(other, Tuple): collections.compare_with_unordered for other in (Set, Listing)},
}
_COLLECTION_AND_OTHER: dict[tuple[type, type], CompareOther] = {
    **{(Matrix, other): collections.matrix_and_sequence for other in (Tuple, Listing, Set, RealInterval)},
    **{(RealInterval, other): collections.interval_and_values for other in (Set, Listing)},
}


class FormComparator:
    """Compares forms with one algebra."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra

    def compare(self, answer: Form, gold: Form) -> Match:
        """Whether the answer states what the expected answer states."""
        for side, form in (("answer", answer), ("expected answer", gold)):
            if isinstance(form, Unreadable):
                return unclear(f"the {side} {form.reason}")
        return _TABLE[type(answer), type(gold)](self, answer, gold)


def _compare_for(answer: type, gold: type) -> Compare:
    """Return the function that compares these two kinds."""
    for kind, both, with_other in _LEADING:
        if kind in (answer, gold):
            return both if answer is gold or with_other is None else _one_sided(with_other, kind is answer)
    if answer in _SCALARS and gold in _SCALARS:
        return _SCALAR_PAIRS.get((answer, gold)) or _one_sided(values.infinity_and_other, answer is Infinity)
    if answer in _SCALARS or gold in _SCALARS:
        return _one_sided(collections.scalar_and_collection, answer in _SCALARS)
    return _unless_intervals_are_listed(_collections(answer, gold))


def _collections(answer: type, gold: type) -> Compare:
    if (answer, gold) in _COLLECTION_PAIRS:
        return _COLLECTION_PAIRS[answer, gold]
    if (answer, gold) in _COLLECTION_AND_OTHER:
        return _one_sided(_COLLECTION_AND_OTHER[answer, gold], True)
    if (gold, answer) in _COLLECTION_AND_OTHER:
        return _one_sided(_COLLECTION_AND_OTHER[gold, answer], False)
    return collections.compare_regions


def _one_sided(compare: CompareOther, is_answer: bool) -> Compare:
    """Call a function for one kind and another with the sides in its order."""
    if is_answer:
        return lambda to, answer, gold: compare(to, answer, gold, True)
    return lambda to, answer, gold: compare(to, gold, answer, False)


def _unless_intervals_are_listed(compare: Compare) -> Compare:
    def compared(to: Comparator, answer: Form, gold: Form) -> Match:
        if collections.list_of_intervals(answer) != collections.list_of_intervals(gold):
            return unclear("inequalities in a list may be meant together or one by one")
        return compare(to, answer, gold)

    return compared


_KINDS: tuple[type, ...] = tuple(kind for kind in get_args(Form) if kind is not Unreadable)
_TABLE = {(answer, gold): _compare_for(answer, gold) for answer in _KINDS for gold in _KINDS}
