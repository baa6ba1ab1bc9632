"""Tasks from a source, with answers as mathematics writes them.

GSM8K puts its final answer behind `####`, AIME pads it with zeros, and an AIME answer is an integer from 0 to 999.
"""

from collections.abc import Callable
from pathlib import Path

from agentlearn import data
from agentlearn.types.task import Split, Task
from agentlearn_math.answers import answer_key, rational
from agentlearn_math.tasks import DOMAIN

AIME_RANGE = range(1000)


def read_tasks(source: str | Path, *, split: Split, limit: int | None = None) -> tuple[Task, ...]:
    """The source's tasks in its order, each problem once. Raises DataError naming file, line and next step."""
    found = data.read_tasks(
        source,
        domain=DOMAIN,
        split=split,
        limit=limit,
        gold=answer_reader_for(source),
        key=lambda text: answer_key(text) or text,
    )
    return tuple(found)


def answer_reader_for(source: str | Path) -> Callable[[str], str]:
    """How the expected answer is read from an answer's text: that of AIME where the source's name says so."""
    return aime_answer if "aime" in data.name_of(source).casefold() else gold


def gold(text: str) -> str:
    """What follows the last `####`, and integers in their plain form (`033` is `33`); empty for no answer.

    Units and percent signs stay, since `50\\%` is no 50.
    """
    answer = text.rpartition("####")[2].strip()
    value = rational(answer)
    return str(value) if value is not None and value.denominator == 1 else answer


def aime_answer(text: str) -> str:
    """`gold` of an AIME problem. Raises ValueError for what is no integer from 0 to 999."""
    answer = gold(text)
    if answer and not (answer.isdecimal() and int(answer) in AIME_RANGE):
        raise ValueError(f"has the answer {answer!r}, but AIME answers are integers from 0 to 999; correct it")
    return answer
