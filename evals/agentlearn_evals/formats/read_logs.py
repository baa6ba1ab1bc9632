"""Reads logs of other evaluation programs as observations. The format is recognised by the content of the file."""

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path

from agentlearn.errors import ConfigError, DataError
from agentlearn.files import write_whole
from agentlearn.measure.observation import Observation
from agentlearn.store.parquet import ColumnType, write_parquet
from agentlearn.text import storable
from agentlearn_evals.formats.content import as_rows, read_content, spreadsheet_cell
from agentlearn_evals.formats.fields import abbreviate
from agentlearn_evals.formats.inspect_ai import INSPECT_LOG
from agentlearn_evals.formats.lm_eval import LM_EVAL_LOG
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, LogSet, ParsedLog, Span
from agentlearn_evals.formats.plain import COLUMNS, COUNTS, NUMBERS, PLAIN_LOG, TRL_LOG
from agentlearn_evals.formats.pydantic_evals import PYDANTIC_EVALS_LOG

FORMATS = (INSPECT_LOG, PYDANTIC_EVALS_LOG, LM_EVAL_LOG, TRL_LOG, PLAIN_LOG)
"""Log formats, in the order in which they are tried."""


def read_logs(paths: Sequence[Path | LogFile], *, arm: str | None = None) -> LogSet:
    """Read all rollouts of the files as observations.

    paths: each may be written `ARM=FILE#SCORE`, see `LogFile.parse`. arm: the arm of every file that names none.

    Unless the log numbers them, rollouts of one task in one arm are numbered 0, 1, … in file order. Numbers continue
    across files only when the user named the arm, because logs of two runs often use the same name.

    Raises DataError or ConfigError that names the file, line or sample, the value and the next step; MissingExtra.
    """
    if not paths:
        raise DataError("no log was given; name at least one file", code="no_log")
    parsed = [path if isinstance(path, LogFile) else LogFile.parse(str(path)) for path in paths]
    logs = [log if log.arm else log.model_copy(update={"arm": arm or ""}) for log in parsed]
    results = [_read_log(log) for log in logs]
    hashes = [_sha256(log.path) for log in logs]
    _demand_distinct_logs(logs, hashes)
    names = _source_names(logs)
    numbered = tuple(_numbered(logs, results, names))
    return LogSet(
        observations=tuple(one for one, _ in numbered),
        sources=dict(zip(names, hashes, strict=True)),
        models=_models(results),
        warnings=tuple(
            one for log, result in zip(logs, results, strict=True) for one in (*result.warnings, *_empty(log, result))
        ),
        outcomes=tuple(one for log, result in zip(logs, results, strict=True) for one in _outcomes(log, result)),
        notes=tuple(note for result in results for note in result.notes),
        times=_times(results),
        places={(one.arm, one.task, one.g): place for one, place in numbered},
    )


def _read_log(log: LogFile) -> ParsedLog:
    content = read_content(log.path)
    for log_format in FORMATS:
        if log_format.matches(content):
            return log_format.read(log, content)
    rows = as_rows(content)
    columns = abbreviate(list(rows.columns)) if rows else "none"
    *others, last = (log_format.name for log_format in FORMATS)
    raise DataError(
        f"{log.path.name} is not in a known log format (its columns: {columns}); give a {', '.join(others)}, or {last}",
        code="unknown_log",
    )


def _models(results: Sequence[ParsedLog]) -> dict[str, str]:
    by_arm: dict[str, dict[str, None]] = {}
    for result in results:
        for arm, model in result.models.items():
            by_arm.setdefault(arm, {})[model] = None
    return {arm: ", ".join(models) for arm, models in by_arm.items()}


def _times(results: Sequence[ParsedLog]) -> dict[str, Span]:
    by_arm: dict[str, list[datetime]] = {}
    for result in results:
        for arm, moments in result.times.items():
            by_arm.setdefault(arm, []).extend(moments)
    return {arm: (min(moments), max(moments)) for arm, moments in by_arm.items()}


def _demand_distinct_logs(logs: Sequence[LogFile], hashes: Sequence[str]) -> None:
    seen: dict[tuple[str, str], LogFile] = {}
    for log, sha256 in zip(logs, hashes, strict=True):
        first = seen.setdefault((log.arm, sha256), log)
        if first is not log:
            raise DataError(
                f"{log.path.name} and {first.path.name} hold the same bytes and would count twice; give one of them,"
                f" or give their arms different names: {_arm_example(log)}",
                code="same_log",
            )


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
                raise _duplicate(log, one, g, places[*key, g])
            places[*key, g] = one.place
            counts[key] += 1
            observation = one.observation if g == one.observation.g else one.observation.model_copy(update={"g": g})
            yield observation, f"{name}{one.place.removeprefix(log.path.name)}"


def _duplicate(log: LogFile, one: LoggedRollout, g: int, first: str) -> DataError:
    task, arm = abbreviate(one.observation.task), abbreviate(one.observation.arm)
    return DataError(
        f"{one.place} is rollout {g} of task {task} in arm {arm}, and so is {first}; remove one of them, or give the"
        f" arms different names: {_arm_example(log)}",
        code="duplicate_rollout",
    )


def _arm_example(log: LogFile) -> str:
    return repr(f"ARM={log.path.name}")


def _source_names(logs: Sequence[LogFile]) -> list[str]:
    paths = Counter(path.name for path in {log.path for log in logs})
    return [log.path.name if paths[log.path.name] == 1 else str(log.path) for log in logs]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _empty(log: LogFile, result: ParsedLog) -> Iterator[str]:
    by_arm: dict[str, list[LoggedRollout]] = {}
    for one in result.rollouts:
        by_arm.setdefault(one.observation.arm, []).append(one)
    for arm, rollouts in by_arm.items():
        if count := sum(one.empty for one in rollouts):
            yield (
                f"{log.path.name}: {count:,} of {len(rollouts):,} responses of {arm} are empty; the scores of the log"
                " count, although an empty response can be a failure of the service"
            )


def _outcomes(log: LogFile, result: ParsedLog) -> Iterator[str]:
    total = len(result.rollouts)
    for status, words in (
        ("failed", "failed"),
        ("undecided", "are undecided and are not counted"),
    ):
        rollouts = [one.observation for one in result.rollouts if one.observation.status == status]
        codes = Counter(one.error or "no code" for one in rollouts)
        if codes:
            listed = ", ".join(f"{code} {count}" for code, count in codes.most_common())
            yield f"{log.path.name}: {codes.total()} of {total} rollouts {words} ({listed})"


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
    write = {".csv": _write_csv, ".parquet": _write_parquet}.get(path.suffix.lower())
    if write is None:
        raise ConfigError(
            f"{path.name} has the suffix {path.suffix!r}; write a file that ends in '.csv' or '.parquet'",
            code="unknown_format",
        )
    try:
        write([one.model_dump() for one in observations], path)
    except OSError as error:
        raise DataError(
            f"{str(path)!r} cannot be written ({error.strerror}); choose another place", code="not_written"
        ) from error


def _write_csv(rows: list[dict[str, object]], path: Path) -> None:
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_csv_cell(row[name]) for name in COLUMNS])
    write_whole(path, text.getvalue().encode())


def _csv_cell(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value) if value else ""
    return spreadsheet_cell(storable(value)) if isinstance(value, str) else value


def _write_parquet(rows: list[dict[str, object]], path: Path) -> None:
    write_parquet(path, {name: (_COLUMN_TYPES[name], [_parquet_cell(row[name]) for row in rows]) for name in COLUMNS})


def _parquet_cell(value: object) -> object:
    if isinstance(value, tuple):
        return [storable(str(one)) for one in value]
    return storable(value) if isinstance(value, str) else value
