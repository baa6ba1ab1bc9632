"""What a comparison of forms needs from outside: algebra for formulas, and a way to compare the parts of a form."""

from collections.abc import Sequence
from typing import Protocol

from agentlearn.answers.match import OPEN, Match
from agentlearn_math.judging.forms import Form
from agentlearn_math.judging.syntax import Node

EXACTLY = "compared as exact numbers"


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


class Comparator(Protocol):
    """Compares forms with one algebra."""

    algebra: Algebra

    def compare(self, answer: Form, gold: Form) -> Match:
        """Whether the answer states what the expected answer states."""
        ...


def compare_part(to: Comparator, part: Form, other: Form, *, is_answer: bool) -> Match:
    """Compare a part of one side with the other side. is_answer: whether the part belongs to the answer."""
    return to.compare(part, other) if is_answer else to.compare(other, part)
