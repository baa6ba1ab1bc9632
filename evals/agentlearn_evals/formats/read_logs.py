"""Logs of other harnesses as observations: each file is recognised by what it holds, and nothing in it is dropped."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentlearn.errors import DataError
from agentlearn_evals.formats import inspect_ai, lm_eval, plain, pydantic_evals, trl
from agentlearn_evals.formats.content import Content, content_of, rows_of
from agentlearn_evals.formats.fields import short
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, LogSet, ParsedLog
from agentlearn_evals.observation import Observation


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of log."""

    name: str
    fits: Callable[[Content], bool]
    read: Callable[[LogFile, Content], ParsedLog]


FORMATS = (
    Format(inspect_ai.NAME, inspect_ai.fits, inspect_ai.read),
    Format(pydantic_evals.NAME, pydantic_evals.fits, pydantic_evals.read),
    Format(lm_eval.NAME, lm_eval.fits, lm_eval.read),
    Format(trl.NAME, trl.fits, trl.read),
    Format(plain.NAME, plain.fits, plain.read),
)
"""In the order in which they are tried."""


def read_logs(paths: Sequence[Path | LogFile], *, arm: str | None = None) -> LogSet:
    """Everything the files say, as observations.

    A path may be written `ARM=FILE#SCORE`, as `LogFile.parse` reads it. arm: for every file that names none. Several
    rollouts of one task in one arm are numbered 0, 1, … in file order unless their log numbers them; over several files
    only where the arm was named here, since logs of two runs often call themselves the same. Raises DataError or
    ConfigError, naming file, line or sample, the value, and what to do; MissingExtra.
    """
    if not paths:
        raise DataError("no log was given; name at least one file", code="no_log")
    parsed = [path if isinstance(path, LogFile) else LogFile.parse(str(path)) for path in paths]
    logs = [log if log.arm else log.model_copy(update={"arm": arm or ""}) for log in parsed]
    readings = [_read(log) for log in logs]
    hashes = [_sha256(log.path) for log in logs]
    _demand_distinct(logs, hashes)
    return LogSet(
        observations=tuple(_numbered(logs, readings)),
        sources=dict(zip(_names(logs), hashes, strict=True)),
        models=_models(readings),
        notes=tuple(note for log, reading in zip(logs, readings, strict=True) for note in _notes(log, reading)),
    )


def _read(log: LogFile) -> ParsedLog:
    content = content_of(log.path)
    for kind in FORMATS:
        if kind.fits(content):
            return kind.read(log, content)
    rows = rows_of(content)
    columns = short(list(rows.columns)) if rows else "none"
    raise DataError(
        f"{log.path.name} is no log that is known here (its columns: {columns}); give a"
        f" {', '.join(kind.name for kind in FORMATS[:-1])}, or {FORMATS[-1].name}",
        code="unknown_log",
    )


def _models(readings: Sequence[ParsedLog]) -> dict[str, str]:
    told: dict[str, dict[str, None]] = {}
    for reading in readings:
        for arm, model in reading.models.items():
            told.setdefault(arm, {})[model] = None
    return {arm: ", ".join(models) for arm, models in told.items()}


def _demand_distinct(logs: Sequence[LogFile], hashes: Sequence[str]) -> None:
    first: dict[tuple[str, str], LogFile] = {}
    for log, sha256 in zip(logs, hashes, strict=True):
        same = first.setdefault((log.arm, sha256), log)
        if same is not log:
            raise DataError(
                f"{log.path.name} and {same.path.name} hold the same bytes and would count twice; give one of them,"
                f" or name the arms apart: {_apart(log)}",
                code="same_log",
            )


def _numbered(logs: Sequence[LogFile], readings: Sequence[ParsedLog]) -> Iterator[Observation]:
    places: dict[tuple[str, str, int], str] = {}
    counted: Counter[tuple[str, str]] = Counter()  # rollouts of one task in one arm so far
    for log, reading in zip(logs, readings, strict=True):
        before = Counter(counted)
        for one in reading.found:
            key = (one.observation.arm, one.observation.task)
            goes_on = not one.numbered and (log.arm or not before[key])
            g = counted[key] if goes_on else one.observation.g
            if (*key, g) in places:
                raise _repeated(log, one, g, places[*key, g])
            places[*key, g] = one.place
            counted[key] += 1
            yield one.observation if g == one.observation.g else one.observation.model_copy(update={"g": g})


def _repeated(log: LogFile, one: LoggedRollout, g: int, first: str) -> DataError:
    return DataError(
        f"{one.place} is rollout {g} of task {short(one.observation.task)} in arm {short(one.observation.arm)}, and so"
        f" is {first}; take one out, or name the arms apart: {_apart(log)}",
        code="duplicate_rollout",
    )


def _apart(log: LogFile) -> str:
    return repr(f"ARM={log.path.name}")


def _names(logs: Sequence[LogFile]) -> list[str]:
    paths = Counter(path.name for path in {log.path for log in logs})
    return [log.path.name if paths[log.path.name] == 1 else str(log.path) for log in logs]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _notes(log: LogFile, reading: ParsedLog) -> Iterator[str]:
    yield from reading.notes
    total = len(reading.found)
    for status, words in (
        ("failed", "failed and count as 0"),
        ("timeout", "ran out of time and count as 0"),
        ("undecided", "are undecided and count neither way"),
    ):
        codes = Counter(one.observation.error or "no code" for one in reading.found if one.observation.status == status)
        if codes:
            listed = ", ".join(f"{code} {count}" for code, count in codes.most_common())
            yield f"{log.path.name}: {codes.total()} of {total} rollouts {words} ({listed})"
