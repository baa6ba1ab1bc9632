"""Whether an expected answer is a value that the verifier can compare: `unreadable_gold`."""

from agentlearn.answers.forms import Form, Readings, Unreadable, Words, parts_of
from agentlearn.answers.mathematics import parse_answer
from agentlearn_math.verify import judge_exactly

_PROBES = ("17", r"-\frac{7}{13}", "Tuesday", r"\text{green}")
"""Plain answers. An expected answer that can be compared with none of them decides nothing."""
_NO_VALUE = frozenset({"nan", "null", "n/a", "tbd"})
"""Texts that programs write where a value is missing."""


def unreadable_gold(answer: str) -> str | None:
    """Return why an expected answer cannot be read as a value, as a sentence without a place; None when it can."""
    if answer.strip().casefold() in _NO_VALUE:
        return f"the expected answer {_short(answer)} stands for a missing value; write the answer"
    form = parse_answer(answer)
    if (why := _fault(form)) is not None:
        return f"the expected answer {_short(answer)} {why}"
    verdicts = [judge_exactly(probe, answer) for probe in _PROBES]
    if all(verdict is not None and verdict.status == "undecided" for verdict in verdicts):
        what = "is in words that" if isinstance(form, Words) else "is something that"
        return f"the expected answer {_short(answer)} {what} no other answer can be compared with"
    return None


def _fault(form: Form) -> str | None:
    """Return what makes a form unreadable; None when one of its readings has no fault."""
    if isinstance(form, Unreadable):
        return form.reason
    if isinstance(form, Readings):
        faults = [_fault(one) for one in form.forms]
        return None if None in faults else faults[0]
    return next((why for part in parts_of(form) if (why := _fault(part)) is not None), None)


def _short(answer: str) -> str:
    return repr(answer if len(answer) <= 60 else f"{answer[:57]}...")
