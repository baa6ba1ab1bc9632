"""Reads logs of other evaluation programs, and writes rollouts and reports that they can read.

The format of a log is recognised by the content of the file.
"""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path

from agentlearn.domain.base import Domain
from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.score_table import Observation
from agentlearn.store.parquet import ColumnType, write_parquet
from agentlearn.text import storable
from agentlearn.text.files import write_whole
from agentlearn_evals.formats.harbor import RESULT, read_jobs
from agentlearn_evals.formats.inspect_ai import InspectReader
from agentlearn_evals.formats.log_file import (
    Content,
    LogFile,
    LoggedRollout,
    LogSet,
    ParsedLog,
    abbreviate,
    spreadsheet_cell,
)
from agentlearn_evals.formats.tables import COLUMNS, COUNTS, NUMBERS, LmEvalReader, PlainReader

__all__ = ["LogFile", "LogSet", "read_logs", "write_observations"]

_FORMATS = (InspectReader, LmEvalReader, PlainReader)
"""Log formats, in the order in which they are tried."""


def read_logs(paths: Sequence[Path | LogFile], *, arm: str | None = None, domain: Domain | None = None) -> LogSet:
    """Read all rollouts of the files as observations.

    paths: each may be written `ARM=FILE#SCORE`, see `LogFile.parse`. arm: the arm of every file that names none.
    domain: reads a folder, or a file with a JSON array, as records of its tasks by another program. Without it, a
    folder holds jobs of Harbor.

    Unless the log numbers them, rollouts of one task in one arm are numbered 0, 1, … in file order. Numbers continue
    across files only when the user named the arm, because logs of two runs often use the same name.

    Raises DataError or ConfigError that names the file, line or sample, the value and the next step; MissingExtra.
    """
    if not paths:
        raise DataError("no log was given; name at least one file")
    parsed = [path if isinstance(path, LogFile) else LogFile.parse(str(path)) for path in paths]
    logs = [log if log.arm else log.model_copy(update={"arm": arm or ""}) for log in parsed]
    records = [domain is not None and (log.path.is_dir() or Content.is_array(log.path)) for log in logs]
    if domain is not None and not any(records):
        raise ConfigError(
            f"none of the logs is a record that the domain {domain.name!r} reads: a folder, or a JSON array; leave"
            " --domain out"
        )
    results = [
        _recordings(log, domain)
        if domain is not None and record
        else (read_jobs if log.path.is_dir() else _read_log)(log)
        for log, record in zip(logs, records, strict=True)
    ]
    hashes: list[str] = []
    for log in logs:
        files = sorted(log.path.rglob("*.json" if domain else RESULT)) if log.path.is_dir() else [log.path]
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
        hashes.append(digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest())
    seen: dict[tuple[str, str], LogFile] = {}
    for log, sha256 in zip(logs, hashes, strict=True):
        first = seen.setdefault((log.arm, sha256), log)
        if first is not log:
            raise DataError(
                f"{log.path.name} and {first.path.name} hold the same bytes and would count twice; give one of them,"
                f" or give their arms different names: {f'ARM={log.path.name}'!r}"
            )
    by_name = Counter(path.name for path in {log.path for log in logs})
    names = [log.path.name if by_name[log.path.name] == 1 else str(log.path) for log in logs]
    models, moments = dict[str, dict[str, None]](), dict[str, list[datetime]]()
    warnings: list[str] = []
    for log, result in zip(logs, results, strict=True):
        for name, model in result.models.items():
            models.setdefault(name, {})[model] = None
        for name, ran in result.times.items():
            moments.setdefault(name, []).extend(ran)
        warnings += [*result.warnings, *_about_empty(log.path.name, result)]
    numbered = tuple(_numbered(logs, results, names))
    return LogSet(
        observations=tuple(one for one, _ in numbered),
        sources=dict(zip(names, hashes, strict=True)),
        models={name: ", ".join(found) for name, found in models.items()},
        warnings=tuple(warnings),
        notes=tuple(note for result in results for note in result.notes),
        times={name: (min(found), max(found)) for name, found in moments.items()},
        places={(one.arm, one.task, one.g): place for one, place in numbered},
    )


def _read_log(log: LogFile) -> ParsedLog:
    content = Content.read(log.path)
    for log_format in _FORMATS:
        if log_format.matches(content):
            return log_format(log).read(content)
    columns = abbreviate(list(content.columns)) if content.rows else "none"
    *others, last = (log_format.name for log_format in _FORMATS)
    raise DataError(
        f"{log.path.name} is not in a known log format (its columns: {columns}); give a {', '.join(others)}, or {last}"
    )


def _recordings(log: LogFile, domain: Domain) -> ParsedLog:
    """Return what the domain reads, by its own tasks."""
    log.choose(("reward",))
    rollouts: list[LoggedRollout] = []
    for number, one in enumerate(domain.recordings(log.path), start=1):
        observation = Observation(
            arm=log.arm or log.path.stem,
            task=one.task.id,
            score=one.reward,
            status="ok" if one.reward is not None else "undecided",
            error="recorded_error" if one.failed else "" if one.reward is not None else "no_reward",
            cluster=one.task.cluster,
            domain=one.task.domain,
            problem=one.task.problem,
        )
        rollouts.append(LoggedRollout(f"{log.path.name} rollout {number}", observation, numbered=False))
    return ParsedLog(tuple(rollouts))


def _numbered(
    logs: Sequence[LogFile], results: Sequence[ParsedLog], names: Sequence[str]
) -> Iterator[tuple[Observation, str]]:
    """Yield every observation with its index and its place. names: of the files, each different."""
    places: dict[tuple[str, str, int], str] = {}
    counts: Counter[tuple[str, str]] = Counter()  # rollouts of one task in one arm so far
    for log, result, name in zip(logs, results, names, strict=True):
        before = Counter(counts)
        for one in result.rollouts:
            key = (one.observation.arm, one.observation.task)
            continues = not one.numbered and (log.arm or not before[key])
            g = counts[key] if continues else one.observation.g
            if (*key, g) in places:
                task, of_arm = abbreviate(one.observation.task), abbreviate(one.observation.arm)
                raise DataError(
                    f"{one.place} is rollout {g} of task {task} in arm {of_arm}, and so is {places[*key, g]}; remove"
                    f" one of them, or give the arms different names: {f'ARM={log.path.name}'!r}"
                )
            places[*key, g] = one.place
            counts[key] += 1
            observation = one.observation if g == one.observation.g else one.observation.model_copy(update={"g": g})
            yield observation, f"{name}{one.place.removeprefix(log.path.name)}"


def _about_empty(file: str, result: ParsedLog) -> Iterator[str]:
    """Yield a warning for each arm with empty responses."""
    empty = Counter(one.observation.arm for one in result.rollouts if one.empty)
    for arm, count in Counter(one.observation.arm for one in result.rollouts).items():
        if empty[arm]:
            yield (
                f"{file}: {empty[arm]:,} of {count:,} responses of {arm} are empty; the scores of the log count,"
                " although an empty response can be a failure of the service"
            )


_COLUMN_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(COLUMNS, "VARCHAR"),
    **dict.fromkeys(("g", *COUNTS), "BIGINT"),
    **dict.fromkeys(("score", *NUMBERS), "DOUBLE"),
    "tags": "VARCHAR[]",
}


def write_observations(observations: Sequence[Observation], path: Path) -> None:
    """Write a `.csv` or `.parquet` file with one column per field; an existing file is replaced.

    Lone surrogates are escaped. In CSV, an empty field means None or empty text, tags are a JSON array, and text that
    a spreadsheet program could run as a formula has an apostrophe in front, which our reader takes away. Raises
    ConfigError for another suffix, DataError when the file cannot be written.
    """
    rows, kind = [one.model_dump() for one in observations], path.suffix.lower()
    if kind not in {".csv", ".parquet"}:
        raise ConfigError(f"{path.name} has the suffix {path.suffix!r}; write a file that ends in '.csv' or '.parquet'")
    try:
        if kind == ".csv":
            write_whole(path, _csv(rows))
        else:
            cells = {name: [_parquet_cell(row[name]) for row in rows] for name in COLUMNS}
            write_parquet(path, {name: (_COLUMN_TYPES[name], cells[name]) for name in COLUMNS})
    except OSError as error:
        raise DataError(
            f"{str(path)!r} cannot be written ({error.strerror}); choose another place", code="not_written"
        ) from error


def _csv(rows: list[dict[str, object]]) -> bytes:
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        cells = {
            name: spreadsheet_cell(storable(cell) if isinstance(cell, str) else cell) for name, cell in row.items()
        }
        cells["tags"] = json.dumps(row["tags"]) if row["tags"] else ""
        writer.writerow([cells[name] for name in COLUMNS])
    return text.getvalue().encode()


def _parquet_cell(value: object) -> object:
    if isinstance(value, tuple):
        return [storable(str(one)) for one in value]
    return storable(value) if isinstance(value, str) else value
