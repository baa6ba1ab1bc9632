"""Reading final answers: the box, and the key that equal answers share. Without symbolic algebra."""

import re
from fractions import Fraction

from agentlearn.answers.thoughts import split_thoughts
from agentlearn_math.judging.forms import ChoiceLetter, Equation, Form, Number, Quantity, Readings, Words
from agentlearn_math.judging.normalise import MAX_CHARACTERS, normalise, spaced_parts
from agentlearn_math.judging.numerals import number_value
from agentlearn_math.judging.parse_answer import form_of
from agentlearn_math.judging.quantities import PERCENT

_TOKEN = re.compile(r"\\(?:boxed|framebox)\s*\{|\\.|[{}]", re.DOTALL)


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` or `\framebox{…}` with balanced braces; None when there is none.

    Boxes in thoughts do not count. A reply whose last thought never ends has no box.
    """
    spoken = split_thoughts(text)
    if spoken.unfinished:
        return None
    text = spoken.said
    last: tuple[int, int] | None = None
    opened: list[int | None] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == "{":
            opened.append(None)
        elif word.endswith("{") and len(word) > 2:
            opened.append(token.end())
        elif word == "}" and opened:
            start = opened.pop()
            if start is not None and (last is None or start > last[0]):
                last = (start, token.start())
    return None if last is None else text[last[0] : last[1]].strip()


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
