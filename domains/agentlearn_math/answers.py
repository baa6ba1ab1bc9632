"""Expected answers in the notation of math data sets, and the key that equal answers share. Without symbolic algebra.

GSM8K writes its final answer after `####`. AIME pads it with zeros, and an AIME answer is an integer from 0 to 999.
"""

from fractions import Fraction

from agentlearn.answers.amounts import PERCENT
from agentlearn.answers.forms import ChoiceLetter, Equation, Form, Number, Quantity, Readings, Words
from agentlearn.answers.latex import MAX_CHARACTERS, normalise, spaced_parts
from agentlearn.answers.mathematics import form_of
from agentlearn.answers.numbers import number_value
from agentlearn.data.answer_cells import boxed_answer


def rational(text: str) -> Fraction | None:
    """Return the exact value of one number in a usual notation, without unit; None for anything else."""
    value = number_value(normalise(text)) if len(text) <= MAX_CHARACTERS else None
    return None if value is None else Fraction(value)


def answer_key(text: str) -> str | None:
    """Return a form that equal numbers share (`033` and `33`, `1/2` and `0.5`); None when empty.

    Units and the name of the unknown are left out, as in the verifier; a percentage keeps its sign. Other answers keep
    their words, without markup and without white space that separates nothing.
    """

    def key(form: Form) -> str | None:
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
                return key(right)
            case Readings(forms=(first, *_)):
                return key(first)
            case _:
                return None

    return key(form_of(text)) or spaced_parts(text) or None


def gold(text: str) -> str:
    r"""Return the text after the last `####`, or in the last `\boxed` of a longer text; empty for no answer.

    Integers are in plain form (`033` is `33`).

    Units and percent signs stay, since `50\%` is not 50. Raises ValueError when the last box is open or empty.
    """
    answer = text.rpartition("####")[2].strip()
    if r"\boxed" in answer:
        answer = boxed_answer(answer)
    value = rational(answer)
    return str(value) if value is not None and value.denominator == 1 else answer


def aime_gold(text: str) -> str:
    """Return `gold` of an AIME problem. Raises ValueError when it is not an integer from 0 to 999."""
    answer = gold(text)
    if answer and not (answer.isdecimal() and int(answer) < 1000):
        raise ValueError(f"has the answer {answer!r}, but AIME answers are integers from 0 to 999; correct it")
    return answer
