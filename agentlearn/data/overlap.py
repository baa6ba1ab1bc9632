"""Near-copies among problems, and dividing a source into parts so that no problem and its near-copy are in two.

A copy with a few words changed leaks a held-out problem without being noticed. Generated problems of one family share
their wording and differ in what is given, so two texts are near-copies only when their numbers and names in capitals
are equal too.
"""

import csv
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from agentlearn.data.files import ending
from agentlearn.data.reading import RowReader, name_of, rows
from agentlearn.data.row import Columns, NumberText, SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn.text import plain
from agentlearn.types.ids import content_hash
from agentlearn.types.ranking import lower_case_words, single_spaced
from agentlearn.types.task import Task


def same_text(text: str) -> str:
    """The text without differences in case, compatible characters (NFKC) and white space."""
    return single_spaced(text).casefold()


def most_central(texts: Sequence[Sequence[str]]) -> int:
    """Return the place of the text, given as its words, that shares most with the others; of equal ones the first."""
    words = [frozenset(text) for text in texts]

    def overlap(place: int) -> float:
        return sum(len(words[place] & one) / max(len(words[place] | one), 1) for one in words)

    return max(range(len(texts)), key=lambda place: (overlap(place), -place))


SHINGLE_WORDS = 8
SIMILAR = 0.6
"""Jaccard index of two texts' shingles from which they are near-copies: about one word in forty changed."""

_GIVEN = re.compile(r"\d+|\b[A-Z]{2,}\b")
_SPACE = re.compile(r"\s+|\$|\\[,;:! ]")


def overlaps(
    learned: Iterable[Task], held: Iterable[Task], key: Callable[[str], Hashable] = str
) -> Iterator[tuple[Task, Task]]:
    """Yield pairs (learned, held) of equal problems or near-copies, in the order of `learned`.

    key: near-copies whose expected answers have different keys are different problems; equal texts are always the same
    problem.
    """
    layout = _Layout(key)
    for task in held:
        layout.add(task)
    for task in learned:
        if (copy_of := layout.copy_of(task)) is not None:
            yield task, copy_of


def near_copies(tasks: Iterable[Task], key: Callable[[str], Hashable] = str) -> int:
    """Return how many tasks equal an earlier task or nearly do."""
    layout, count = _Layout(key), 0
    for task in tasks:
        count += layout.copy_of(task) is not None
        layout.add(task)
    return count


def _alike(tasks: Sequence[Task], key: Callable[[str], Hashable] = str) -> list[int]:
    """Return a number for each task, the same for tasks of one family, equal problems and near-copies (`overlaps`)."""
    layout, first = _Layout(key), dict[str, int]()
    group = list(range(len(tasks)))

    def root(at: int) -> int:
        while group[at] != at:
            at = group[at]
        return at

    places: dict[int, int] = {}
    for at, task in enumerate(tasks):
        copied = layout.copy_of(task)
        layout.add(task)
        places[id(task)] = at
        same = [places[id(copied)]] if copied is not None else []
        same += [first.setdefault(task.family, at)] if task.family else []
        for other in same:
            low, high = sorted((root(at), root(other)))
            group[high] = low
    return [root(at) for at in range(len(tasks))]


class _Layout:
    """An index of tasks by shingles, which finds a near-copy without comparing all pairs."""

    def __init__(self, key: Callable[[str], Hashable]) -> None:
        self._key = key
        self._texts: dict[str, Task] = {}
        self._tasks: list[tuple[Task, _Marks]] = []
        # Indexed by the givens first: generated problems share nearly all their wording, but seldom their numbers.
        self._with: defaultdict[tuple[str, str], list[int]] = defaultdict(list)

    def add(self, task: Task) -> None:
        """Add a task."""
        marks = _Marks(task, self._key)
        self._texts.setdefault(_plain_text(task.whole_text), task)
        for shingle in marks.shingles:
            self._with[marks.given, shingle].append(len(self._tasks))
        self._tasks.append((task, marks))

    def copy_of(self, task: Task) -> Task | None:
        """Return the same problem, or the first near-copy; None when there is none."""
        if (same := self._texts.get(_plain_text(task.whole_text))) is not None:
            return same
        marks = _Marks(task, self._key)
        shared = Counter(number for shingle in marks.shingles for number in self._with.get((marks.given, shingle), ()))
        for number in sorted(shared):
            other, theirs = self._tasks[number]
            if marks.copies(theirs, shared[number]):
                return other
        return None


def _plain_text(problem: str) -> str:
    """Return the text without case, white space, `$`, LaTeX spacing and compatibility forms."""
    return _SPACE.sub("", plain(problem)).casefold()


class _Marks:
    """What near-copies are recognised by."""

    __slots__ = ("answer", "given", "shingles")

    def __init__(self, task: Task, key: Callable[[str], Hashable]) -> None:
        words = lower_case_words(task.whole_text)
        starts = range(max(1, len(words) - SHINGLE_WORDS + 1))
        self.shingles = frozenset(" ".join(words[at : at + SHINGLE_WORDS]) for at in starts)
        self.given = " ".join(sorted(_GIVEN.findall(task.whole_text)))
        self.answer = None if task.answer is None else key(task.answer)

    def copies(self, other: "_Marks", common: int) -> bool:
        """Whether two problems with equal givens are near-copies. common: number of shingles they share."""
        similar = common >= SIMILAR * (len(self.shingles) + len(other.shingles) - common)
        told_apart = self.answer is not None and other.answer is not None and self.answer != other.answer
        return similar and not told_apart


def hold_out(
    tasks: Sequence[Task], share: float, key: Callable[[str], Hashable] = str
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Return the tasks to learn from and the share to hold out: the first by content hash.

    Near-copies (by `key`, as in `overlaps`) are kept on the same side, so the held-out share may become smaller. When
    nothing else could be held out they stay where they are.
    """
    ranked = sorted(tasks, key=lambda task: content_hash("split", task.id))
    wanted = round(len(tasks) * share)
    if share > 0 and len(tasks) > 1:  # at least 1, and at least 1 left to learn from
        wanted = min(max(wanted, 1), len(tasks) - 1)
    held = {task.id for task in ranked[:wanted]}
    while True:
        learned = tuple(task for task in tasks if task.id not in held)
        test = tuple(task.model_copy(update={"split": "test"}) for task in tasks if task.id in held)
        copies = {copy.id for copy, _ in overlaps(test, learned, key)}
        if not copies or copies == held:
            return learned, test
        held -= copies


_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def parse_parts(text: str) -> dict[str, float]:
    """Return the shares in `train=0.7,test=0.3` by name. Raises ConfigError unless they are above 0 and add up to 1."""
    parts: dict[str, float] = {}
    for one in text.split(","):
        name, _, share = (part.strip() for part in one.partition("="))
        try:
            number = float(share)
        except ValueError:
            number = math.nan
        if not _PART.fullmatch(name) or not 0 < number <= 1 or name in parts:
            raise ConfigError(
                f"--into {text!r} has {one!r}; give each part once, as NAME=SHARE with a share above 0, such as"
                " train=0.7,test=0.3"
            )
        parts[name] = number
    if abs(math.fsum(parts.values()) - 1) > 1e-6:
        raise ConfigError(
            f"the shares of --into {text!r} add up to {math.fsum(parts.values()):g}; change them to add up to 1"
        )
    return parts


@dataclass(frozen=True, slots=True)
class _PartFile:
    """One part of a source."""

    name: str
    file: Path
    rows: int
    groups: int
    """Rows of one family, equal problems and near-copies are one group, and no group is in two parts."""


def split_source(
    source: str,
    parts: Mapping[str, float],
    *,
    seed: int,
    columns: Columns = Columns(),  # noqa: B008  frozen
    out: Path | None = None,
) -> tuple[_PartFile, ...]:
    """Write the rows of a source into one file per part, in their order and with all their columns.

    parts: their shares of the rows, by name. seed: another one gives other parts; the order of the rows has no effect.
    out: folder of the files; None: that of the source, or this one. The files are called `STEM.PART`, with the ending
    of a CSV or TSV file, else `.jsonl`. Raises DataError for a row that cannot be read and for a part that would be
    empty, and ConfigError for a file that is there already; nothing is written then.
    """
    found = list(rows(source))
    reader = RowReader(columns, answer_required=False).of(source)
    tasks = [reader.read(row).task("split", "train") for row in found]
    if len({task.family for task in tasks}) == 1:  # a family that all rows have tells nothing about them
        tasks = [task.model_copy(update={"family": ""}) for task in tasks]
    numbers = _alike(tasks)
    keys: dict[int, str] = {}
    for number, task in zip(numbers, tasks, strict=True):
        key = content_hash("split", seed, same_text(task.whole_text))
        keys[number] = min(key, keys.get(number, key))
    sizes = Counter(numbers)
    wanted = {name: share * len(found) for name, share in parts.items()}
    given = dict.fromkeys(parts, 0)
    part_of: dict[int, str] = {}
    for number in sorted(sizes, key=lambda one: (-sizes[one], keys[one])):
        name = max(parts, key=lambda name: wanted[name] - given[name])
        part_of[number], given[name] = name, given[name] + sizes[number]
    if empty := [name for name, count in given.items() if not count]:
        raise DataError(
            f"the part {empty[0]!r} would be empty: {source} has {len(found):,} rows in {len(sizes):,} groups of"
            " questions that stay together; give fewer parts or more rows"
        )
    online = not Path(source).exists()
    folder = out or (Path() if online else Path(source).parent)
    suffix = "" if online else ending(Path(source))
    suffix = suffix if suffix in _DELIMITERS else ".jsonl"
    files = {name: folder / f"{name_of(source)}.{name}{suffix}" for name in parts}
    chosen: defaultdict[str, list[SourceRow]] = defaultdict(list)
    for row, number in zip(found, numbers, strict=True):
        chosen[part_of[number]].append(row)
    _write({file: _text(chosen[name], suffix) for name, file in files.items()})
    counts = Counter(part_of.values())
    return tuple(_PartFile(name, file, given[name], counts[name]) for name, file in files.items())


def _write(texts: Mapping[Path, str]) -> None:
    """Write new files: all or none."""
    with ExitStack() as made:
        for file, text in texts.items():
            try:
                with file.open("x", encoding="utf-8", newline="") as opened:
                    made.callback(file.unlink)
                    opened.write(text)
            except FileExistsError as error:
                raise ConfigError(
                    f"the file {str(file)!r} is there already and is not replaced; move it, or choose another folder"
                    " with --out"
                ) from error
            except OSError as error:
                raise ConfigError(f"{str(file)!r} cannot be written: {error.strerror}", code="not_written") from error
        made.pop_all()


def _text(found: Sequence[SourceRow], suffix: str) -> str:
    if suffix not in _DELIMITERS:
        return "".join(f"{_json(row.fields)}\n" for row in found)
    names = dict.fromkeys(name for row in found for name in row.fields)
    text = StringIO(newline="")
    table = csv.DictWriter(text, list(names), delimiter=_DELIMITERS[suffix], lineterminator="\n")
    table.writeheader()
    table.writerows({name: row.fields.get(name) for name in names} for row in found)
    return text.getvalue()


def _json(value: object) -> str:
    """Return a value as JSON, with the digits that its numbers had."""
    match value:
        case NumberText():
            return str(value)
        case Mapping():
            pairs = (f"{json.dumps(str(key), ensure_ascii=False)}: {_json(one)}" for key, one in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_json, value))}]"
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)
