"""The key that equal answers share, and the value of a plain number. Without symbolic algebra."""

from fractions import Fraction

from agentlearn.answers.forms import ChoiceLetter, Equation, Form, Number, Quantity, Readings, Words
from agentlearn.answers.latex import MAX_CHARACTERS, normalise, spaced_parts
from agentlearn.answers.mathematics import PERCENT, form_of
from agentlearn.answers.numbers import number_value


def rational(text: str) -> Fraction | None:
    """Return the exact value of one number in a usual notation, without unit; None for anything else."""
    value = number_value(normalise(text)) if len(text) <= MAX_CHARACTERS else None
    return None if value is None else Fraction(value)


def answer_key(text: str) -> str | None:
    """Return a form that equal numbers share (`033` and `33`, `1/2` and `0.5`); None when empty.

    Units and the name of the unknown are left out, as in the verifier; a percentage keeps its sign. Other answers keep
    their words, without markup and without white space that separates nothing.
    """
    return _key(form_of(text)) or spaced_parts(text) or None


def _key(form: Form) -> str | None:
    match form:
        case Number(value=value):
            return str(value)
        case Quantity(amount=Number(value=value), unit=unit):
            return f"{value}%" if unit == PERCENT else str(value)
        case ChoiceLetter(letter=letter, content=None):
            return letter
        case Words(text=words):
            return words
        case Equation(label=label, right=right) if label:
            return _key(right)
        case Readings(forms=(first, *_)):
            return _key(first)
        case _:
            return None
