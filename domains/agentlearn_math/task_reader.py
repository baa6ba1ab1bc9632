"""Reading tasks from a source, with answers in the notation of math data sets.

GSM8K writes its final answer after `####`. AIME pads it with zeros, and an AIME answer is an integer from 0 to 999.
"""

from collections.abc import Callable
from pathlib import Path

from agentlearn import data
from agentlearn.types.task import Split, Task
from agentlearn_math.answers import answer_key, rational

DOMAIN = "math"
AIME_RANGE = range(1000)


def read_tasks(
    source: str | Path, *, split: Split, limit: int | None = None, columns: data.ColumnChoice | None = None
) -> tuple[Task, ...]:
    """Return the source's tasks in order, each problem once. Raises DataError naming file, line and next step."""
    found = data.read_tasks(
        source,
        domain=DOMAIN,
        split=split,
        limit=limit,
        columns=data.Columns(chosen=columns),
        gold=answer_reader_for(source),
        key=lambda text: answer_key(text) or text,
    )
    return tuple(found)


def answer_reader_for(source: str | Path) -> Callable[[str], str]:
    """Return the function that reads expected answers: that of AIME when the source's name contains `aime`."""
    return _aime_answer if "aime" in data.name_of(source).casefold() else gold


def gold(text: str) -> str:
    r"""Return the text after the last `####`, or in the last `\boxed` of a longer text; empty for no answer.

    Integers are in plain form (`033` is `33`).

    Units and percent signs stay, since `50\%` is not 50. Raises ValueError when the last box is open or empty.
    """
    answer = text.rpartition("####")[2].strip()
    if r"\boxed" in answer:
        answer = data.boxed_answer(answer)
    value = rational(answer)
    return str(value) if value is not None and value.denominator == 1 else answer


def _aime_answer(text: str) -> str:
    """Return `gold` of an AIME problem. Raises ValueError when it is not an integer from 0 to 999."""
    answer = gold(text)
    if answer and not (answer.isdecimal() and int(answer) in AIME_RANGE):
        raise ValueError(f"has the answer {answer!r}, but AIME answers are integers from 0 to 999; correct it")
    return answer
