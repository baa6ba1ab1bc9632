"""Expected answers in the notation of math data sets, the key that equal answers share, and judging an answer.

GSM8K writes its final answer after `####`. AIME pads it with zeros, and an AIME answer is an integer from 0 to 999. An
answer is judged exactly when both texts are plain, else by algebra in a separate process. A comparison that cannot be
decided is *undecided* with its reason, never a reward of 0.
"""

import re
from fractions import Fraction
from functools import lru_cache

from agentlearn.answers.form_comparison import EXACTLY, Algebra, FormComparator
from agentlearn.answers.forms import (
    ChoiceLetter,
    Equation,
    Form,
    Number,
    Quantity,
    Readings,
    Unreadable,
    Words,
    parts_of,
)
from agentlearn.answers.latex import MAX_CHARACTERS, PERCENT, normalise, spaced_parts
from agentlearn.answers.match import Match
from agentlearn.answers.mathematics import EMPTY, form_of, parse_answer
from agentlearn.answers.numbers import MAX_DIGITS, number_value
from agentlearn.answers.workers import AlgebraWorkers, open_workers
from agentlearn.data.answer_cells import boxed_answer
from agentlearn.types.trajectory import Verdict


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


_CORRECT = Verdict(status="correct", reward=1.0, reason=EXACTLY)
_INCORRECT = Verdict(status="incorrect", reward=0.0, reason=EXACTLY)
_NO_ANSWER = Verdict(status="no_answer", reward=0.0, reason="no boxed answer")
_INTEGER = re.compile(
    rf"\$? ?([+-]?(?:[1-9]\d{{0,2}}(?:,\d{{3}}){{1,300}}|\d{{1,{MAX_DIGITS}}}))(?:\.0{{0,300}})? ?\$?", re.ASCII
)
_EXACT = FormComparator(Algebra())
_PROBES = ("17", r"-\frac{7}{13}", "Tuesday", r"\text{green}")
"""Plain answers. An expected answer that can be compared with none of them decides nothing."""
_NO_VALUE = frozenset({"nan", "null", "n/a", "tbd"})
"""Texts that programs write where a value is missing."""


async def judge(answer: str | None, gold: str, workers: AlgebraWorkers | None = None) -> Verdict:
    """Judge `answer`, the content of the last box, against `gold`.

    workers: processes that do the algebra; None: start one for this comparison if it needs algebra.
    """
    verdict = judge_exactly(answer, gold)
    if verdict is not None or answer is None:
        return verdict or _NO_ANSWER
    if workers is not None:
        return _verdict(await workers.compare(answer, gold))
    async with open_workers() as opened:
        return _verdict(await opened.compare(answer, gold))


def judge_exactly(answer: str | None, gold: str) -> Verdict | None:
    """Return the verdict when it needs no algebra; else None. Pure, and without sympy."""
    if answer is None:
        return _NO_ANSWER
    if (given := _integer(answer)) is not None and (expected := _integer(gold)) is not None:
        return _CORRECT if given == expected else _INCORRECT
    form = form_of(answer)
    if form == EMPTY:
        return _NO_ANSWER
    match = _EXACT.compare(form, parse_answer(gold))
    if match.status in {"unclear", "open"} and spaced_parts(answer) == _expected_parts(gold):
        match = Match("equal", "the same text")
    return None if match.status == "open" else _verdict(match)


def unreadable_gold(answer: str) -> str | None:
    """Return why no answer can be compared with an expected one, as a sentence without a place; None when one can."""

    def fault(form: Form) -> str | None:
        """Return what makes a form unreadable; None when one of its readings has no fault."""
        if isinstance(form, Unreadable):
            return form.reason
        if isinstance(form, Readings):
            faults = [fault(one) for one in form.forms]
            return None if None in faults else faults[0]
        return next((why for part in parts_of(form) if (why := fault(part)) is not None), None)

    said = f"the expected answer {(answer if len(answer) <= 60 else answer[:57] + '...')!r}"
    if answer.strip().casefold() in _NO_VALUE:
        return f"{said} stands for a missing value; write the answer"
    form = parse_answer(answer)
    if (why := fault(form)) is not None:
        return f"{said} {why}"
    verdicts = [judge_exactly(probe, answer) for probe in _PROBES]
    if all(verdict is not None and verdict.status == "undecided" for verdict in verdicts):
        what = "is in words that" if isinstance(form, Words) else "is something that"
        return f"{said} {what} no other answer can be compared with"
    return None


@lru_cache(maxsize=4_096)
def _expected_parts(gold: str) -> str:
    return spaced_parts(gold)


def _integer(text: str) -> int | None:
    """Read a plain integer fast; None leaves the text to `form_of`."""
    if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
        return int(text)
    found = _INTEGER.fullmatch(text)
    return int(found[1].replace(",", "")) if found else None


def _verdict(match: Match) -> Verdict:
    match match:
        case Match(status="equal", reason=reason):
            return _CORRECT if reason == EXACTLY else Verdict(status="correct", reward=1.0, reason=reason)
        case Match(status="different", reason=reason):
            return _INCORRECT if reason == EXACTLY else Verdict(status="incorrect", reward=0.0, reason=reason)
        case _:
            return Verdict(status="undecided", reward=None, reason=match.reason)
