"""The typed forms of an answer: numbers, formulas, sets, tuples, intervals, choices, words."""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from agentlearn.answers.syntax import Literal, Node, free_symbols
from agentlearn.answers.times import ClockTime


@dataclass(frozen=True, slots=True)
class Number:
    """An exact rational number."""

    value: int | Fraction


@dataclass(frozen=True, slots=True)
class Infinity:
    """One end of the real line."""

    sign: int
    """1 or -1."""


@dataclass(frozen=True, slots=True)
class Based:
    """An integer in a base that the answer names."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression that is not a plain number; algebra computes its value."""

    node: Node


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount with a unit."""

    amount: "Form"
    unit: str
    """`%`, `°`, or the unit's word in lower case without plural and with its power: `cm^2`."""


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, in lower case with single spaces."""

    text: str


@dataclass(frozen=True, slots=True)
class ChoiceLetter:
    """The letter of a choice, and the text next to it."""

    letter: str
    content: "Form | None" = None


@dataclass(frozen=True, slots=True)
class Set:
    """Values in braces: order and repetition do not matter."""

    items: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Values without brackets around them: order does not matter, repetition does."""

    items: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Tuple:
    """Values in order. Two in round brackets may also be an open interval."""

    items: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class RealInterval:
    """The real numbers between two ends."""

    low: "Form"
    high: "Form"
    closed: tuple[bool, bool]
    """Whether each end belongs to the interval."""
    variable: str = ""
    """Letter whose values form the interval; empty when the answer names none."""


@dataclass(frozen=True, slots=True)
class Union:
    """Intervals and sets taken together."""

    parts: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries."""

    rows: tuple[tuple["Form", ...], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides. With the name of a value on the left it also gives that value."""

    label: str
    r"""The name: a lone letter, `f(x)`, `AB`, `\angle ABC`; empty for any other left side."""
    left: "Form | None"
    """None when the left side is a name such as `f(x)` that is not an expression."""
    right: "Form"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Parts of a proportion."""

    parts: tuple["Form", ...]
    is_clock_like: bool
    """Whether the ratio could also be a time of day."""


@dataclass(frozen=True, slots=True)
class SameValues:
    r"""One value, written several times: `\binom52 = 10`, `12\pi \approx 37.7`."""

    values: tuple["Form", ...]
    rounded: tuple["Form", ...] = ()
    """What the answer gives as an approximation of the value."""


@dataclass(frozen=True, slots=True)
class Readings:
    """A text that can be read in more than one way, the usual one first."""

    forms: tuple["Form", ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A text that no reader understands as a whole."""

    reason: str
    """What the text contains; continues "the answer"."""


Form: TypeAlias = (
    Number
    | Infinity
    | Based
    | Formula
    | Quantity
    | Words
    | ChoiceLetter
    | Set
    | Listing
    | Tuple
    | RealInterval
    | Union
    | Matrix
    | Equation
    | Ratio
    | ClockTime
    | SameValues
    | Readings
    | Unreadable
)


def parts_of(form: Form) -> tuple[Form, ...]:
    """Return the forms inside a form; none for a number, formula or words."""
    match form:
        case Set(items=parts) | Listing(items=parts) | Tuple(items=parts) | Union(parts=parts) | Ratio(parts=parts):
            return parts
        case SameValues(values=values, rounded=rounded):
            return (*values, *rounded)
        case RealInterval(low=low, high=high):
            return (low, high)
        case Matrix(rows=rows):
            return tuple(cell for row in rows for cell in row)
        case Equation(left=left, right=right):
            return (right,) if left is None else (left, right)
        case _:
            return ()


def number(value: Fraction) -> Number:
    """Return a number, as an int where it is whole."""
    return Number(value.numerator if value.denominator == 1 else value)


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


def has_letters(*forms: Form) -> bool:
    """Whether a formula with letters is, or is the value of, one of the forms."""
    return any(
        (isinstance(form, Formula) and bool(free_symbols(form.node)))
        or (isinstance(form, Quantity) and has_letters(form.amount))
        or (isinstance(form, SameValues) and has_letters(*form.values))
        for form in forms
    )


def as_interval(form: Form) -> Form:
    """Return two values in round brackets as an open interval; any other form as it is."""
    match form:
        case Readings(forms=(Tuple() | RealInterval() as usual, *_)):
            return as_interval(usual)
        case Tuple(items=(low, high)):
            return RealInterval(low, high, (False, False))
        case _:
            return form
