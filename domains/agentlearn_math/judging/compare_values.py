"""Comparison of forms that state one value: numbers, formulas, equations, choices, words.

A function for two forms of one kind takes `(to, answer, gold)`. A function for one kind and any other takes
`(to, form, other, is_answer)`, where `is_answer` says whether `form` is the answer.
"""

# ruff: noqa: ARG001  every function of the table takes the same arguments

from collections.abc import Sequence
from fractions import Fraction

from agentlearn.answers.match import Match, all_of, any_of, decided, different, equal, unclear
from agentlearn_math.judging.algebra_base import EXACTLY, Comparator, compare_part
from agentlearn_math.judging.forms import (
    Based,
    ChoiceLetter,
    Equation,
    Form,
    Formula,
    Infinity,
    Number,
    Quantity,
    Readings,
    SameValues,
    TimeOfDay,
    Unreadable,
    Words,
    has_letters,
)
from agentlearn_math.judging.syntax import Apply, Literal, Node, Symbol, with_constants_of
from agentlearn_math.judging.words import may_be_a_number, may_mean_the_same

Scalar = Number | Formula | Infinity


def compare_numbers(to: Comparator, answer: Number, gold: Number) -> Match:
    """Compare two exact numbers."""
    return decided(answer.value == gold.value, EXACTLY)


def compare_formulas(to: Comparator, answer: Form, gold: Form) -> Match:
    """Compare two formulas, or a formula and a number."""
    left, right = node_of(answer), node_of(gold)
    assert left is not None
    assert right is not None
    left, right = with_constants_of(left, right), with_constants_of(right, left)
    return equal("the same formula") if left == right else to.algebra.same_value(left, right)


def compare_infinities(to: Comparator, answer: Infinity, gold: Infinity) -> Match:
    """Compare the signs."""
    return decided(answer.sign == gold.sign, "compared as infinities")


def infinity_and_other(to: Comparator, form: Infinity, other: Number | Formula, is_answer: bool) -> Match:
    """Different when the other side is certainly finite."""
    if isinstance(other, Number):
        return different("only one of them is finite")
    finite = to.algebra.is_finite(other.node)
    return different("only one of them is finite") if finite.status == "equal" else finite


def compare_readings(to: Comparator, answer: Form, gold: Form) -> Match:
    """Equal when one pair of readings is equal; words are compared as words first."""
    match answer, gold:
        case Readings(forms=(Words() as one, formula)), Readings(forms=(Words() as other, other_formula)):
            words = compare_words(to, one, other)
            return words if words.status != "different" else _readable(to, [(formula, other_formula)], words)
        case Readings(forms=(TimeOfDay() as one, _)), Readings(forms=(TimeOfDay() as other, _)):
            return to.compare(one, other)
        case _:
            answers = answer.forms if isinstance(answer, Readings) else (answer,)
            golds = gold.forms if isinstance(gold, Readings) else (gold,)
            pairs = [(one, other) for one in answers for other in golds]
            return _readable(to, pairs, to.compare(*pairs[0]))


def _readable(to: Comparator, pairs: Sequence[tuple[Form, Form]], otherwise: Match) -> Match:
    readable = [pair for pair in pairs if not any(isinstance(form, Unreadable) for form in pair)]
    if not readable:
        return otherwise
    return any_of((to.compare(*pair) for pair in readable), "compared in every way to read them")


def compare_choices(to: Comparator, answer: ChoiceLetter, gold: ChoiceLetter) -> Match:
    """Compare the letters, and the contents when both are given."""
    if answer.letter != gold.letter:
        return different("compared as choices")
    if answer.content is None or gold.content is None:
        return equal("compared as choices")
    contents = to.compare(answer.content, gold.content)
    return contents if contents.status != "different" else unclear("the same letter has another content")


def choice_and_other(to: Comparator, form: ChoiceLetter, other: Form, is_answer: bool) -> Match:
    """Compare the choice's content with the other side; a letter without content is read as a symbol."""
    if isinstance(other, Words):
        may_name_it = form.letter.casefold() in other.text.split()
        return unclear("one is a choice in words") if may_name_it else different("compared as choices")
    content = Formula(Symbol(form.letter)) if form.content is None else form.content
    return compare_part(to, content, other, is_answer=is_answer)


def compare_equations(to: Comparator, answer: Equation, gold: Equation) -> Match:
    """Compare the values that the equations give, or else the equations as a whole."""
    if _gives_value(answer) and _gives_value(gold):
        right = to.compare(answer.right, gold.right)
        if answer.label == gold.label or right.status != "equal":
            return right
        formulas = _is_compound(answer) and _is_compound(gold)
        return _whole_equations(to, answer, gold) if formulas else unclear("the same value is given to different names")
    if answer.label == gold.label and answer.label:
        right = to.compare(answer.right, gold.right)
        return right if right.status == "equal" else _whole_equations(to, answer, gold)
    return _whole_equations(to, answer, gold)


def equation_and_other(to: Comparator, form: Equation, other: Form, is_answer: bool) -> Match:
    """Compare the value that the equation gives with the other side. Without a name, equal values are undecided."""
    value = compare_part(to, form.right, other, is_answer=is_answer)
    if form.label or value.status == "open":
        return value
    return (
        unlike
        if (unlike := different("only one of them is an equation")).status == value.status
        else unclear("only one of them is an equation")
    )


def compare_same_values(to: Comparator, answer: SameValues, gold: SameValues) -> Match:
    """Compare each value of the answer with the expected ones."""
    return _agreeing([same_values_and_other(to, gold, value, False) for value in answer.values])


def same_values_and_other(to: Comparator, form: SameValues, other: Form, is_answer: bool) -> Match:
    """Equal when every value equals the other side; undecided when only some do, or only the rounded one."""
    found = _agreeing([compare_part(to, value, other, is_answer=is_answer) for value in form.values])
    if found.status != "different":
        return found
    rounded = any_of((compare_part(to, value, other, is_answer=is_answer) for value in form.rounded), "compared")
    return (
        rounded
        if rounded.status == "open"
        else (found if rounded.status == "different" else unclear("only the rounded value agrees"))
    )


def _agreeing(matches: Sequence[Match]) -> Match:
    statuses = {match.status for match in matches}
    if len(statuses) == 1 or "open" in statuses:
        return next(match for match in matches if match.status == "open" or len(statuses) == 1)
    return unclear("one side gives several values that do not all agree with the other side")


def _whole_equations(to: Comparator, answer: Equation, gold: Equation) -> Match:
    sides = [node_of(form) for form in (answer.left, answer.right, gold.left, gold.right)]
    match sides:
        case [Literal() | Symbol() | Apply() as a, Literal() | Symbol() | Apply() as b, c, d] if c and d:
            return to.algebra.same_equation((a, b), (c, d))
        case _:
            return unclear("a side of the equations is not a number or formula")


def _is_compound(equation: Equation) -> bool:
    return isinstance(equation.left, Formula) and not isinstance(equation.left.node, Symbol)


def _gives_value(equation: Equation) -> bool:
    """Whether the equation gives its label a value without letters."""
    return bool(equation.label) and (equation.left is None or not has_letters(equation.right))


def compare_words(to: Comparator, answer: Words, gold: Words) -> Match:
    """Compare two texts; undecided when they may mean the same."""
    one, other = answer.text, gold.text
    if one == other:
        return equal("the same words")
    if may_mean_the_same(one, other) or sorted(one) == sorted(other):
        return unclear("the words differ, but may mean the same")
    return different("compared as words")


def words_and_other(to: Comparator, form: Words, other: Form, is_answer: bool) -> Match:
    """Different, unless the words may name a number."""
    if " " in form.text or may_be_a_number(form.text):
        return unclear("only one of them is in words")
    return different("only one of them is in words")


def compare_based(to: Comparator, answer: Based, gold: Based) -> Match:
    """Compare two integers whose bases are given."""
    same = int(answer.digits, answer.base) == int(gold.digits, gold.base)
    return decided(same, "compared in their base") if not same or answer.base == gold.base else _other_base()


def based_and_other(to: Comparator, form: Based, other: Form, is_answer: bool) -> Match:
    """Undecided when only one side gives a base and the digits or the value agree."""
    if not isinstance(other, Number):
        return unclear("only one of them names a base")
    looks_alike = str(other.value) == form.digits or other.value == int(form.digits, form.base)
    return _other_base() if looks_alike else different("neither the digits nor the value agree")


def _other_base() -> Match:
    return unclear("they are written in different bases")


def compare_in_order(to: Comparator, left: Sequence[Form], right: Sequence[Form]) -> Match:
    """Compare two sequences of forms part by part."""
    if len(left) != len(right):
        return different("the number of parts differs")
    matches = (to.compare(one, other) for one, other in zip(left, right, strict=True))
    return all_of(matches, "compared part by part")


def node_of(form: Form | None) -> Node | None:
    """Return a number, formula or amount as an expression; None for anything else."""
    match form:
        case Number(value=value):
            return Literal(Fraction(value))
        case Formula(node=node):
            return node
        case Quantity(amount=amount):
            return node_of(amount)
        case _:
            return None
