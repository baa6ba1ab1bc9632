"""Tasks whose expected answer the verifier cannot read: why, how many, and whether they are too many to go on."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn.errors import DataError
from agentlearn.types.task import Task
from agentlearn.types.value import Value

_SHOWN = 3
"""Most reasons that one sentence names."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'(?!\w)|\"(?:[^\"\\]|\\.)*\"(?!\w)")
_PLACE = re.compile(r"^\S.*?(?:(?: lines? | rows? )\d+(?: and \d+)?|[:#]\d+:)(?: column \d+)?\s*")


class Reason(Value):
    """One reason why rows cannot be used."""

    reason: str
    """The reason without places and values."""
    count: int
    """Rows with this reason."""
    example: str
    """The sentence about the first of them, with its place."""


@dataclass(frozen=True, slots=True)
class ReadableTasks:
    """The tasks of a source without those whose expected answer cannot be read."""

    tasks: tuple[Task, ...]
    note: str = ""
    """What was left out and why; empty when nothing was."""


def by_reason(sentences: Iterable[str]) -> tuple[Reason, ...]:
    """Return the reasons of sentences about rows, the most frequent first. Each sentence counts once."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for sentence in sentences:
        found[_general(sentence)].append(sentence)
    ranked = sorted(found.items(), key=lambda one: -len(one[1]))
    return tuple(Reason(reason=reason, count=len(of), example=of[0]) for reason, of in ranked)


def readable_tasks(
    tasks: Sequence[Task],
    source: str | Path,
    unreadable: Callable[[Task], str | None],
    *,
    most: float,
    check: str = "",
) -> ReadableTasks:
    """Return the tasks whose expected answer can be read.

    unreadable: returns why it cannot; None when it can. most: largest share that is left out with a note. check: the
    command that lists them. Raises DataError above that share, or when no task is left.
    """
    against = {task.id: f"{task.source}: {why}" for task in tasks if (why := unreadable(task)) is not None}
    if not against:
        return ReadableTasks(tuple(tasks))
    reasons = by_reason(against.values())
    shown = "; ".join(f"{one.count:,} {_was(one.count)} like {one.example}" for one in reasons[:_SHOWN])
    more = f"; and {len(reasons) - _SHOWN:,} more reasons" if len(reasons) > _SHOWN else ""
    words = f"{len(against):,} of {len(tasks):,} expected answers in {source} cannot be read by the verifier"
    if len(against) > most * len(tasks) or len(against) == len(tasks):
        raise DataError(
            f"{words}, more than the share {most:g} of --max-unreadable ({shown}{more}); correct them"
            + (f" ({check} lists them)" if check else ""),
            code="unreadable_answers",
        )
    kept = tuple(task for task in tasks if task.id not in against)
    return ReadableTasks(kept, f"{words}, and these tasks are left out ({shown}{more})")


def _was(count: int) -> str:
    return "is" if count == 1 else "are"


def _general(sentence: str) -> str:
    """Return a sentence without its place and with `…` for every quoted value and number."""
    plain = _QUOTED.sub("…", _PLACE.sub("", sentence, count=1))
    return re.sub(r"\d[\d,.]*", "…", plain)
