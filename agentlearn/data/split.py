"""Dividing a source of tasks into files, such as one to learn from and one to measure on."""

import csv
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from agentlearn.data.files import ending
from agentlearn.data.overlap import alike, same_text
from agentlearn.data.reading import RowReader, name_of, rows
from agentlearn.data.row import Columns, NumberText, SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn.types.ids import content_hash

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
    numbers = alike(tasks)
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
