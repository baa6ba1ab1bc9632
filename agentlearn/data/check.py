"""Whether a source is fit to learn from: what is read, what is refused, and what a run on it could tell.

Everything a domain knows is handed in, so that any reward can be checked in the same way.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.data.overlap import near_copies
from agentlearn.data.reading import ParsedRow, RowReader, StartAndPath, dispute, no_start, same_answer
from agentlearn.data.row import Columns, SourceRow, cell
from agentlearn.data.sources import name_of, rows
from agentlearn.data.split import hold_out
from agentlearn.errors import DataError
from agentlearn.stats.students_t import quantile
from agentlearn.types.task import Task
from agentlearn.types.value import Value

SHOWN = 5
"""So many refusals are told in words; the others are counted."""

ROLLOUTS = 4
_POWER, _LEVEL = 0.8, 0.95
_SUCCESS, _SPREAD = 0.5, 0.1
ASSUMPTIONS = (
    f"paired, {ROLLOUTS} rollouts per task before and after, two-sided {1 - _LEVEL:.0%} level, {_POWER:.0%} power;"
    f" rollouts succeed with probability {_SUCCESS} (the widest case), true effects differ between tasks by {_SPREAD}"
    " (standard deviation), tasks are independent"
)


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """What a domain knows about answers."""

    domain: str
    accepts: Callable[[Task], str]
    """Empty when the task's expected answer is accepted as an answer to it; else why not."""
    gold: Callable[[str], str] = str.strip
    key: Callable[[str], Hashable] = str
    columns: Columns = field(default_factory=Columns)
    answer_required: bool = True
    start_and_path: Callable[[SourceRow], StartAndPath] = no_start


class DataReport(Value):
    """What was found in a source."""

    source: str
    rows: int
    columns: dict[str, str]
    """Which column was taken for `problem`, `answer` and `family`; one that no row has is absent."""
    usable: int
    """Different tasks that can be learned from."""
    repeated: int
    """Rows that say again what an earlier one says."""
    near_copies: int
    """Tasks so close to an earlier one that they are never split from it."""
    refused: int
    unverifiable: int
    """Tasks whose own expected answer the verifier does not accept."""
    sentences: tuple[str, ...]
    """The first of the refusals, repetitions apart."""
    kinds: dict[str, int]
    """Tasks by kind of expected answer."""
    families: dict[str, int]
    train: int
    test: int
    detectable: float | None
    """The smallest true difference that a run holding out `test` tasks would probably show; None below two tasks."""
    detectable_all: float | None
    """The same, were every usable task a held-out one."""
    assumptions: str = ASSUMPTIONS

    @property
    def sound(self) -> bool:
        """Whether every row can be used."""
        return not self.refused and not self.unverifiable and self.usable > 0


def check_source(
    source: str | Path, judged: AnswerRules, *, test_share: float = 0.3, limit: int | None = None
) -> DataReport:
    """A report on the first `limit` rows. Raises DataError only for what stops reading altogether."""
    reader = RowReader(
        judged.columns,
        judged.gold,
        answer_required=judged.answer_required,
        default_family=name_of(source),
        start_and_path=judged.start_and_path,
    )
    sieve = _Sieve(judged.key)
    columns: dict[str, str] = {}
    for row in sieve.readable(rows(source, limit=limit)):
        columns = _columns(row.fields, judged.columns) | columns
        try:
            sieve.take(reader.read(row))
        except DataError as error:
            sieve.refusals.append(str(error))
    tasks = [found.task(judged.domain, "train") for found in sieve.found.values()]
    against = [f"{task.source}: {why}" for task in tasks if (why := judged.accepts(task))]
    learned, held = hold_out(tasks, test_share, judged.key)
    return DataReport(
        source=str(source),
        rows=sieve.rows,
        columns=columns,
        usable=len(tasks) - len(against),
        repeated=sieve.repeated,
        near_copies=near_copies(tasks, judged.key),
        refused=len(sieve.refusals),
        unverifiable=len(against),
        sentences=tuple([*sieve.refusals, *against][:SHOWN]),
        kinds=_counted(answer_kind(task.answer) for task in tasks),
        families=_counted(task.family for task in tasks),
        train=len(learned),
        test=len(held),
        detectable=detectable(len(held)),
        detectable_all=detectable(len(tasks)),
    )


def detectable(tasks: int, rollouts: int = ROLLOUTS) -> float | None:
    """The true difference that a paired test over so many tasks shows with 80 % power; None below two tasks.

    (t(0.975) + t(0.8)) * sd / sqrt(tasks), with sd² = spread² + 2 p (1 - p) / rollouts, under `ASSUMPTIONS`.
    """
    if tasks < 2:
        return None
    variance = _SPREAD**2 + 2 * _SUCCESS * (1 - _SUCCESS) / rollouts
    reach = quantile((1 + _LEVEL) / 2, tasks - 1) + quantile(_POWER, tasks - 1)
    return min(1.0, reach * math.sqrt(variance / tasks))


def answer_kind(answer: str | None) -> str:
    """What an expected answer looks like: none, integer, decimal, fraction, choice, words or expression."""
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
    """Rows so far."""

    key: Callable[[str], Hashable]
    rows: int = 0
    repeated: int = 0
    found: dict[tuple[str, str], ParsedRow] = field(default_factory=dict[tuple[str, str], ParsedRow])
    refusals: list[str] = field(default_factory=list[str])

    def readable(self, rows: Iterator[SourceRow]) -> Iterator[SourceRow]:
        """The rows, up to where reading breaks off. Raises DataError where it never began."""
        try:
            for row in rows:
                self.rows += 1
                yield row
        except DataError as error:
            if not self.rows:
                raise
            self.refusals.append(f"{error} (nothing after it was read)")

    def take(self, found: ParsedRow) -> None:
        """Keep it, or count it as a repetition. Raises DataError when it says another answer than before."""
        first = self.found.setdefault(found.identity, found)
        if first is found:
            return
        if not same_answer(first, found, self.key):
            raise DataError(dispute(first, found))
        self.repeated += 1


def _columns(fields: Mapping[str, object], columns: Columns) -> dict[str, str]:
    wanted = {"problem": columns.problem, "answer": columns.answer, "family": columns.family}
    found = {what: [name for name in names if cell(fields, name) is not None] for what, names in wanted.items()}
    return {what: names[0] for what, names in found.items() if names}


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())
