"""Checking a source of tasks: how many can be read, which are refused, and how small a difference a run could detect.

The rules of the domain are passed in, so that any reward can be checked in the same way.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.data.overlap import hold_out, near_copies
from agentlearn.data.reading import ParsedRow, RowReader, passed_over, rows, unclear_count
from agentlearn.data.row import SourceRow, is_empty
from agentlearn.errors import DataError
from agentlearn.measure.clustered import quantile
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


def reasons_of(sentences: Iterable[str]) -> tuple[Reason, ...]:
    """Return the reasons of sentences about rows, the most frequent first. Each sentence counts once."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for sentence in sentences:
        plain = _QUOTED.sub("…", _PLACE.sub("", sentence, count=1))  # without its place, values and numbers
        found[re.sub(r"\d[\d,.]*", "…", plain)].append(sentence)
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
    reasons = reasons_of(against.values())
    shown = "; ".join(
        f"{one.count:,} {'is' if one.count == 1 else 'are'} like {one.example}" for one in reasons[:_SHOWN]
    )
    more = f"; and {len(reasons) - _SHOWN:,} more reasons" if len(reasons) > _SHOWN else ""
    words = f"{len(against):,} of {len(tasks):,} expected answers in {source} cannot be read by the verifier"
    if len(against) > most * len(tasks) or len(against) == len(tasks):
        raise DataError(
            f"{words}, more than the share {most:g} of --max-unreadable ({shown}{more}); correct them"
            + (f" ({check} lists them)" if check else "")
        )
    kept = tuple(task for task in tasks if task.id not in against)
    return ReadableTasks(kept, f"{words}, and these tasks are left out ({shown}{more})")


SHOWN = 5
"""Most refusals that are shown; the rest is only counted."""

ROLLOUTS = 4
_POWER, _LEVEL = 0.8, 0.95
_SUCCESS, _SPREAD = 0.5, 0.1
ASSUMPTIONS = (
    f"paired, {ROLLOUTS} rollouts per task before and after, two-sided {1 - _LEVEL:.0%} level, {_POWER:.0%} power;"
    f" rollouts succeed with probability {_SUCCESS} (the widest case), true effects differ between tasks by {_SPREAD}"
    " (standard deviation), tasks are independent"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRules(RowReader):
    """How a domain reads rows and accepts answers."""

    domain: str
    accepts: Callable[[Task], str]
    """Return "" when the task's expected answer is accepted as an answer to it, else the reason."""
    unreadable: Callable[[Task], str | None] = lambda _: None
    """Return why the verifier cannot read the task's expected answer; None when it can."""
    key: Callable[[str], Hashable] = str


class DataReport(Value):
    """What a source contains."""

    source: str
    rows: int
    columns: dict[str, str]
    """Source columns used for `problem`, `choices`, `answer` and `family`; a name is missing when no row has it."""
    ignored: tuple[str, ...]
    """Columns that are not read, of all rows that were read."""
    passed_over: tuple[str, ...]
    """Files of a folder that are not read."""
    usable: int
    """Different tasks that can be learned from."""
    repeated: int
    """Rows that repeat an earlier row."""
    near_copies: int
    """Tasks that are near-copies of an earlier task; a split keeps them together."""
    refused: int
    """Rows that cannot be read."""
    unreadable: int
    """Tasks whose expected answer the verifier cannot read; a run leaves them out, or refuses the source."""
    unverifiable: int
    """Tasks whose expected answer the verifier reads and does not accept."""
    reasons: tuple[Reason, ...]
    """Why rows cannot be used, the most frequent reason first. The counts add up to `unusable`."""
    sentences: tuple[str, ...]
    """The first refusals, without repetitions."""
    kinds: dict[str, int]
    """Number of tasks for each kind of expected answer."""
    families: dict[str, int]
    train: int
    test: int
    detectable: float | None
    """Smallest true difference that a run with `test` held-out tasks would detect with 80 % power; None below two
    tasks.
    """
    detectable_all: float | None
    """Smallest true difference that would be detected if every usable task were held out; None below two tasks."""
    assumptions: str = ASSUMPTIONS

    @property
    def unusable(self) -> int:
        """Rows that cannot be used. With the usable and the repeated rows they are all rows."""
        return self.refused + self.unreadable + self.unverifiable

    @property
    def sound(self) -> bool:
        """Whether every row can be used."""
        return not self.unusable and self.usable > 0


def check_source(
    source: str | Path, judged: AnswerRules, *, test_share: float = 0.3, limit: int | None = None
) -> DataReport:
    """Return a report on the first `limit` rows. Raises DataError only when nothing can be read."""
    reader = judged.of(source)
    sieve = _Sieve(judged.key)
    for row in sieve.readable(rows(source, limit=limit)):
        try:
            sieve.take(reader.read(row))
        except DataError as error:
            sieve.refusals.append(error.message)
    sieve.refuse_unclear()
    tasks = [found.task(judged.domain, "train") for found in sieve.found.values()]
    unreadable = {task.id: f"{task.source}: {why}" for task in tasks if (why := judged.unreadable(task)) is not None}
    readable = [task for task in tasks if task.id not in unreadable]
    against = [f"{task.source}: {why}" for task in readable if (why := judged.accepts(task))]
    learned, held = hold_out(readable, test_share, judged.key)
    unusable = [*sieve.refusals, *unreadable.values(), *against]
    return DataReport(
        source=str(source),
        rows=sieve.rows,
        columns=sieve.columns,
        ignored=tuple(sorted(sieve.seen - sieve.used)),
        passed_over=passed_over(source),
        usable=len(readable) - len(against),
        repeated=sieve.repeated,
        near_copies=near_copies(tasks, judged.key),
        refused=len(sieve.refusals),
        unreadable=len(unreadable),
        unverifiable=len(against),
        reasons=reasons_of(unusable),
        sentences=tuple(unusable[:SHOWN]),
        kinds=_counted(_answer_kind(task.answer) for task in tasks),
        families=_counted(task.family for task in tasks if task.family),
        train=len(learned),
        test=len(held),
        detectable=detectable(len(held)),
        detectable_all=detectable(len(readable)),
    )


def detectable(tasks: int, rollouts: int = ROLLOUTS) -> float | None:
    """Return the true difference that a paired test on this many tasks detects with 80 % power; None below two tasks.

    (t(0.975) + t(0.8)) * sd / sqrt(tasks), with sd² = spread² + 2 p (1 - p) / rollouts, under `ASSUMPTIONS`.
    """
    if tasks < 2:
        return None
    variance = _SPREAD**2 + 2 * _SUCCESS * (1 - _SUCCESS) / rollouts
    reach = quantile((1 + _LEVEL) / 2, tasks - 1) + quantile(_POWER, tasks - 1)
    return min(1.0, reach * math.sqrt(variance / tasks))


def _answer_kind(answer: str | None) -> str:
    """Return the kind of an expected answer: none, integer, decimal, fraction, choice, words or expression."""
    if answer is None:
        return "none"
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(answer.strip())), "expression")


_KINDS = {
    "integer": re.compile(r"[+-]?\d[\d,]*"),
    "decimal": re.compile(r"[+-]?\d*\.\d+"),
    "fraction": re.compile(r"[+-]?(?:\d+\s*/\s*\d+|\\[dt]?frac\s*(?:\{\d+\}|\d)\s*(?:\{\d+\}|\d))"),
    "choice": re.compile(r"\(?[A-Z]\)?"),
    "words": re.compile(r"[^\W\d_]{2,}(?:[\s,.'-]+[^\W\d_]+)*\.?"),
}


@dataclass(slots=True)
class _Sieve:
    """The rows read so far."""

    key: Callable[[str], Hashable]
    rows: int = 0
    repeated: int = 0
    found: dict[tuple[str, str], ParsedRow] = field(default_factory=dict[tuple[str, str], ParsedRow])
    columns: dict[str, str] = field(default_factory=dict[str, str])
    """What the rows have been read from; of rows that differ, the first."""
    seen: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])
    refusals: list[str] = field(default_factory=list[str])

    def readable(self, rows: Iterator[SourceRow]) -> Iterator[SourceRow]:
        """Yield rows until reading fails. Raises DataError when it fails at the first row."""
        try:
            for row in rows:
                self.rows += 1
                yield row
        except DataError as error:
            if not self.rows:
                raise
            self.rows += 1
            self.refusals.append(f"{error.message} (nothing after it was read)")

    def refuse_unclear(self) -> None:
        """Refuse the rows whose right choice is a number, when it is not clear where the numbers begin."""
        if not unclear_count(self.found.values()):
            return
        unclear = {identity: found for identity, found in self.found.items() if found.counted is not None}
        for identity in unclear:
            del self.found[identity]
        self.refusals += [unclear_count([found]) for found in unclear.values()]

    def take(self, found: ParsedRow) -> None:
        """Keep the row, or count it as repeated. Raises DataError when it contradicts an earlier answer."""
        self.columns = dict(found.columns) | self.columns
        self.seen |= {name for name, value in found.row.fields.items() if not is_empty(value)}
        self.used |= {
            one
            for name in found.columns.values()
            for part in (name, *name.split("+"))
            for one in (part, part.partition(".")[0])
        }
        first = self.found.setdefault(found.identity, found)
        if first is found:
            return
        if not first.agrees(found, self.key):
            raise DataError(first.dispute(found))
        self.repeated += 1


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())
