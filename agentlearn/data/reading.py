"""Reading tasks from rows: each problem once, with the answer as the domain reads it."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from agentlearn.data.answer_cells import TaskChoices, amount_without_unit, boxed_answer, marked_answer
from agentlearn.data.files import HARBOR, file_rows, files_in, harbor_path, harbor_rows, stem
from agentlearn.data.gym import GYM, gym_rows, parse_gym
from agentlearn.data.hub import HUB, hub_rows, published
from agentlearn.data.row import Columns, RowLayout, SourceRow, both_places, cell
from agentlearn.errors import DataError
from agentlearn.text.log import get_log
from agentlearn.types.task import Split, Task, User


def rows(source: str | Path, *, limit: int | None = None) -> Iterator[SourceRow]:
    """Yield the rows of a source in order. Raises DataError, or MissingExtra when its reader is not installed."""
    text = _not_empty(source)
    if text.startswith(HUB):
        found = hub_rows(text)
    elif text.startswith(GYM):
        found = gym_rows(text)
    elif text.startswith(HARBOR):
        found = harbor_rows(text)
    else:
        found = file_rows(Path(source))
    return islice(found, limit)


def name_of(source: str | Path) -> str:
    """Return a short name: the file's stem, the dataset's name or the gym's task."""
    text = _not_empty(source)
    if text.startswith(HUB):
        return published(text)[0].rpartition("/")[2]
    if text.startswith(GYM):
        return parse_gym(text).name
    path = harbor_path(text) if text.startswith(HARBOR) else Path(source)
    return path.resolve().name if path.is_dir() else stem(path)


def passed_over(source: str | Path) -> tuple[str, ...]:
    """Return the files of a folder that are not read, because their endings are not those of task files."""
    path = Path(source)
    return () if str(source).startswith((HUB, GYM, HARBOR)) or not path.is_dir() else files_in(path)[1]


def _not_empty(source: str | Path) -> str:
    """Return the source as text. Raises DataError for the empty text, which a path would take for this folder."""
    if not (text := str(source)).strip():
        raise DataError(f"the source {text!r} is empty; give a file, a folder, hf:NAME, gym:TASK or harbor:DIR")
    return text


PUBLISHED = ("hf:", "gym:")
"""Sources whose rows a user cannot correct."""


_COUNTS_FROM_0 = frozenset({"question", "subject", "choices", "answer"})
"""Columns of MMLU, whose right choices are numbers from 0."""
_MANY = 16
"""Rows of which at least one has the right choice 0, if the choices count from 0."""

StartAndPath = tuple[str, tuple[str, ...]]
"""Where a task starts, and the places on a known path from there to the answer."""


def _no_start(_: SourceRow) -> StartAndPath:
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
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    """What was read from which column: `{"problem": "Body+Question"}`."""
    counted: int | None = None
    """Number of the right choice, when the row gives a number; None when it gives a letter or text, or has no choices.
    """
    user: User | None = None
    """Whom the agent talks with."""

    @property
    def identity(self) -> tuple[str, str]:
        """What two rows of the same problem have in common."""
        return _same_words(self.problem), f"{self.start}{self.user or ''}"

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
            user=self.user,
        )

    def dispute(self, second: "ParsedRow") -> str:
        """Return the message about one problem with two answers."""
        places = both_places(self.row.where, second.row.where)
        return (
            f"{places} have the same problem with the answers {self.answer!r} and {second.answer!r}; keep the right one"
        )

    def agrees(self, other: "ParsedRow", key: Callable[[str], Hashable]) -> bool:
        """Whether two rows give the same answer."""
        if self.answer is None or other.answer is None:
            return self.answer == other.answer
        return key(self.answer) == key(other.answer)


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
    start_and_path: Callable[[SourceRow], StartAndPath] = _no_start,
) -> list[Task]:
    """Return the source's tasks in order, each problem once.

    limit: most tasks; later rows are not read. gold: returns the final answer of an answer cell, empty for none; the
    words of its ValueError continue "FILE line N …". key: answers with equal keys are the same. start_and_path: returns
    where a row's task starts and the known path; its ValueErrors are reported like those of `gold`. A problem with two
    different answers raises DataError in a file; in a published source it is left out with a warning. Raises DataError
    with file, line and next step.
    """
    reader = RowReader(columns, gold, answer_required, start_and_path).of(source)
    kept: dict[tuple[str, str], ParsedRow] = {}
    disputed: set[tuple[str, str]] = set()
    for found in map(reader.read, rows(source)):
        first = kept.setdefault(found.identity, found)
        if first is not found and not first.agrees(found, key):
            if not str(source).startswith(PUBLISHED):
                raise DataError(first.dispute(found))
            disputed.add(found.identity)
        if limit is not None and len(kept) - len(disputed) >= limit:
            break
    if why := unclear_count(kept.values()):
        raise DataError(why)
    tasks = [found.task(domain, split) for identity, found in kept.items() if identity not in disputed]
    if not tasks:
        name = source if str(source).startswith(PUBLISHED) else Path(source).name
        raise DataError(f"{name} has no tasks; write one problem and its answer per line")
    if disputed:
        get_log().warning("data.disputed", source=str(source), left_out=len(disputed))
    return tasks


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads single rows."""

    columns: Columns = field(default_factory=Columns)
    gold: Callable[[str], str] = str.strip
    answer_required: bool = True
    start_and_path: Callable[[SourceRow], StartAndPath] = _no_start

    def of(self, source: str | Path) -> Self:
        """The reader of a source.

        Chosen columns do not count where they are known: for a dataset with a short name, for reasoning-gym and Harbor.
        """
        text = str(source)
        fixed = text.startswith((GYM, HARBOR)) or (text.startswith(HUB) and published(text)[1].columns is not None)
        return replace(self, columns=replace(self.columns, chosen=None)) if fixed else self

    def read(self, row: SourceRow) -> ParsedRow:
        """Return the content of the row. Raises DataError with place, cause and next step."""
        if row.fault:
            raise DataError(row.fault)
        question = cell(row.fields, "question")
        if isinstance(question, Mapping) and {"stem", "choices"} <= set(question):  # as in the files of ARC
            rest = {name: value for name, value in row.fields.items() if name.strip().casefold() != "question"}
            row = replace(row, fields={**rest, "question": question["stem"], "choices": question["choices"]})
        _demand_distinct(row)
        layout = RowLayout.of(row, self.columns)
        problem = self._problem(row, layout)
        choices = _choices(row, layout)
        answer = self._answer(row, layout, choices)
        try:
            start, path = self.start_and_path(row)
        except ValueError as error:
            raise DataError(f"{row.place} {error}") from error
        chosen = self.columns.chosen
        names = (chosen.family,) if chosen is not None and chosen.family else self.columns.family
        named = next(((name, text) for name in names if (text := row.text(name))), None)
        family_column, family = named or ("", urlsplit(start).hostname or "")
        try:
            "".join((problem, family, answer or "", start, *path)).encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{row.place} has a broken character (half a surrogate pair); write it in full") from error
        whole = problem if choices is None else choices.below(problem)
        counted = None if choices is None else choices.position(cell(row.fields, layout.answer))
        try:
            user = User.read({name.strip().casefold(): value for name, value in row.fields.items()})
        except ValueError as error:
            raise DataError(f"{row.place} {error}") from error
        columns = _columns_read(row, layout, family_column)
        return ParsedRow(row, whole, answer, family, start, path, columns, counted=counted, user=user)

    def _problem(self, row: SourceRow, layout: RowLayout) -> str:
        texts = [text for name in layout.problem if (text := row.text(name))]
        if not texts:
            names = layout.problem or self.columns.problem
            wanted = " or ".join(map(repr, names))
            raise DataError(f"{row.place} has no problem; put its text into the column {wanted}{_seen(row, names)}")
        words = [_same_words(text) for text in texts]
        # some files hold the whole problem as well: a part that a later one repeats is left out
        parts = [text for at, text in enumerate(texts) if not any(words[at] in later for later in words[at + 1 :])]
        return "\n\n".join(parts)

    def _answer(self, row: SourceRow, layout: RowLayout, choices: TaskChoices | None) -> str | None:
        written = row.text(layout.answer) if layout.answer else ""
        is_story = len(layout.problem) > 1 and layout.problem[0].strip().casefold() == "body"
        try:
            if written and choices is not None:
                written = choices.letter(cell(row.fields, layout.answer))
            elif written:
                final = boxed_answer if layout.boxed else amount_without_unit if is_story else marked_answer
                written = final(written)
            answer = self.gold(written) if written else ""
        except ValueError as error:
            raise DataError(f"{row.place} {error}") from error
        if not answer and self.answer_required:
            if row.unanswered:
                raise DataError(f"{row.place} {row.unanswered}")
            names = (layout.answer,) if layout.answer else self.columns.answer
            wanted = " or ".join(map(repr, names))
            raise DataError(
                f"{row.place} has no answer; fill its column {wanted} or take the line out{_seen(row, names)}"
            )
        return answer or None


def _choices(row: SourceRow, layout: RowLayout) -> TaskChoices | None:
    """Return the row's choices; None when it has none. Raises DataError when they cannot be read."""
    if not layout.choices:
        return None
    cells = [cell(row.fields, name) for name in layout.choices]
    found = TaskChoices.read(cells[0]) if len(cells) == 1 else TaskChoices.of(cells, columns=True)
    if found is None:
        which = "+".join(layout.choices)
        alone = f"problem={'+'.join(layout.problem)}" + (f" answer={layout.answer}" if layout.answer else "")
        raise DataError(
            f"{row.place} has choices in {which!r} that cannot be read; write a list of at least 2 different texts, or"
            f" add --columns {alone!r} to leave them out"
        )
    return found


def _demand_distinct(row: SourceRow) -> None:
    """Raise DataError when two columns have the same name but for capital letters, and differ in what they hold."""
    seen: dict[str, str] = {}
    for name, value in row.fields.items():
        first = seen.setdefault(name.strip().casefold(), name)
        if name.strip() and first != name and row.fields[first] != value:
            raise DataError(
                f"{row.place} has the columns {first!r} and {name!r}, which are the same name; keep one of them"
            )


def _columns_read(row: SourceRow, layout: RowLayout, family: str) -> dict[str, str]:
    """Return what was read from which column, with the names that the row gives them."""
    written = {name.strip().casefold(): name for name in row.fields}
    named = {"problem": layout.problem, "choices": layout.choices, "answer": (layout.answer,), "family": (family,)}
    shown = {
        what: "+".join(written.get(name.strip().casefold(), name) for name in names) for what, names in named.items()
    }
    return {what: name for what, name in shown.items() if name}


def _same_words(problem: str) -> str:
    """Return the problem with single spaces, to find repetitions."""
    return " ".join(problem.split())


def unclear_count(rows: Iterable[ParsedRow]) -> str:
    """Return why the right choices of rows are not clear: numbers from 0 or from 1; empty when they are clear."""
    counted = [row for row in rows if row.counted is not None]
    if not counted or any(row.counted == 0 for row in counted):
        return ""
    first = counted[0]
    if len(counted) < _MANY and {name.strip().casefold() for name in first.row.fields} <= _COUNTS_FROM_0:
        return ""
    return (
        f"{first.row.place} has the right choice {first.counted}, and no row has 0, so the choices may count from 0 or"
        " from 1; write the letters of the right choices"
    )


def _seen(row: SourceRow, wanted: tuple[str, ...]) -> str:
    """Return the existing columns, for a message; empty when a wanted column exists."""
    present = {name.strip().casefold() for name in row.fields} - {""}
    if not present or present & {name.partition(".")[0].casefold() for name in wanted}:
        return ""
    return (
        f" (it has {', '.join(map(repr, filter(str.strip, row.fields)))}; --columns 'problem=NAME answer=NAME' chooses)"
    )
