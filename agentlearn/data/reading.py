"""Reading tasks from rows: each problem once, with the answer as the domain reads it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

from agentlearn.data.row import Columns, SourceRow, both_places
from agentlearn.data.sources import name_of, rows
from agentlearn.errors import DataError
from agentlearn.log import get_log
from agentlearn.types.task import Split, Task

PUBLISHED = ("hf:", "gym:")
"""Sources whose rows a user cannot correct."""


StartAndPath = tuple[str, tuple[str, ...]]
"""Where a task starts, and the places on a known path from there to the answer."""


def no_start(_: SourceRow) -> StartAndPath:
    """Return an empty start and path."""
    return "", ()


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """The content of one row."""

    row: SourceRow
    problem: str
    answer: str | None
    family: str
    start: str = ""
    path: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, str]:
        """What two rows of the same problem have in common."""
        return same_words(self.problem), self.start

    def task(self, domain: str, split: Split) -> Task:
        """Return the row as a task."""
        return Task.of(
            domain,
            self.problem,
            self.answer,
            family=self.family,
            split=split,
            source=self.row.where,
            start=self.start,
            path=self.path,
        )


def read_tasks(
    source: str | Path,
    *,
    domain: str,
    split: Split,
    limit: int | None = None,
    columns: Columns = Columns(),  # noqa: B008  frozen
    gold: Callable[[str], str] = str.strip,
    answer_required: bool = True,
    key: Callable[[str], Hashable] = str,
    start_and_path: Callable[[SourceRow], StartAndPath] = no_start,
) -> list[Task]:
    """Return the source's tasks in order, each problem once.

    limit: most tasks; later rows are not read. gold: returns the final answer of an answer cell, empty for none; the
    words of its ValueError continue "FILE line N …". key: answers with equal keys are the same. start_and_path: returns
    where a row's task starts and the known path; its ValueErrors are reported like those of `gold`. A problem with two
    different answers raises DataError in a file; in a published source it is left out with a warning. Raises DataError
    with file, line and next step.
    """
    reader = RowReader(
        columns, gold, answer_required=answer_required, default_family=name_of(source), start_and_path=start_and_path
    )
    kept: dict[tuple[str, str], ParsedRow] = {}
    disputed: set[tuple[str, str]] = set()
    for found in map(reader.read, rows(source)):
        first = kept.setdefault(found.identity, found)
        if first is not found and not same_answer(first, found, key):
            if not str(source).startswith(PUBLISHED):
                raise DataError(dispute(first, found))
            disputed.add(found.identity)
        if limit is not None and len(kept) - len(disputed) >= limit:
            break
    tasks = [found.task(domain, split) for identity, found in kept.items() if identity not in disputed]
    if not tasks:
        raise DataError(f"{_short(source)} has no tasks; write one problem and its answer per line")
    if disputed:
        get_log().warning("data.disputed", source=str(source), left_out=len(disputed))
    return tasks


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads single rows."""

    columns: Columns
    gold: Callable[[str], str]
    answer_required: bool
    default_family: str
    start_and_path: Callable[[SourceRow], StartAndPath] = no_start

    def read(self, row: SourceRow) -> ParsedRow:
        """Return the content of the row. Raises DataError with place, cause and next step."""
        problem = self._problem(row)
        family = next((text for name in self.columns.family if (text := row.text(name))), self.default_family)
        answer = self._answer(row)
        start, path = self._way(row)
        for text in (problem, family, answer or "", start, *path):
            _demand_encodable(row, text)
        return ParsedRow(row, problem, answer, family, start, path)

    def _way(self, row: SourceRow) -> StartAndPath:
        try:
            return self.start_and_path(row)
        except ValueError as error:
            raise DataError(f"{row.place} {error}", code="bad_start") from error

    def _problem(self, row: SourceRow) -> str:
        names = self.columns.problem
        texts = {name: text for name in names if (text := row.text(name))}
        if not texts:
            wanted = " or ".join(map(repr, names))
            raise DataError(f"{row.place} has no problem; put its text into the column {wanted}{_seen(row, names)}")
        if len(set(texts.values())) > 1:
            which = " and a ".join(map(repr, texts))
            raise DataError(f"{row.place} has a {which} that differ; keep one of them")
        return next(iter(texts.values()))

    def _answer(self, row: SourceRow) -> str | None:
        names = self.columns.answer
        written = next((text for name in names if (text := row.text(name))), "")
        try:
            answer = self.gold(written) if written else ""
        except ValueError as error:
            raise DataError(f"{row.place} {error}", code="bad_answer") from error
        if not answer and self.answer_required:
            wanted = " or ".join(map(repr, names))
            raise DataError(
                f"{row.place} has no answer; fill its column {wanted} or take the line out{_seen(row, names)}"
            )
        return answer or None


def same_words(problem: str) -> str:
    """Return the problem with single spaces, to find repetitions."""
    return " ".join(problem.split())


def same_answer(one: ParsedRow, other: ParsedRow, key: Callable[[str], Hashable]) -> bool:
    """Whether two rows give the same answer."""
    if one.answer is None or other.answer is None:
        return one.answer == other.answer
    return key(one.answer) == key(other.answer)


def dispute(first: ParsedRow, second: ParsedRow) -> str:
    """Return the message about one problem with two answers."""
    places = both_places(first.row.where, second.row.where)
    return f"{places} have the same problem with the answers {first.answer!r} and {second.answer!r}; keep the right one"


def _seen(row: SourceRow, wanted: tuple[str, ...]) -> str:
    """Return the existing columns, for a message; empty when a wanted column exists."""
    present = {name.strip().casefold() for name in row.fields}
    if not present or present & {name.partition(".")[0].casefold() for name in wanted}:
        return ""
    return f" (it has {', '.join(map(repr, row.fields))})"


def _demand_encodable(row: SourceRow, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{row.place} has a broken character (half a surrogate pair); write it in full") from error


def _short(source: str | Path) -> str:
    return str(source) if str(source).startswith(PUBLISHED) else Path(source).name
