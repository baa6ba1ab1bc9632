"""Reader of inspect_ai logs, format 2: an `.eval` archive with one member per sample, or one JSON file."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentlearn.errors import DataError
from agentlearn.types.trajectory import RolloutOutcome
from agentlearn_evals.formats.archive import ArchiveLimits, open_archive
from agentlearn_evals.formats.content import ArchiveFile, Content, Document, parse_json
from agentlearn_evals.formats.fields import (
    as_text,
    build_observation,
    choose_score,
    error_code,
    parse_number,
    parse_texts,
)
from agentlearn_evals.formats.inspect_records import InspectHeader, InspectSample, parse_header, parse_sample
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog, span
from agentlearn_evals.formats.log_format import LogFormat

_HEADER, _START = "header.json", "_journal/start.json"


def is_inspect_log(content: Content) -> bool:
    """Return whether the content is an inspect_ai log. Every archive is taken for one."""
    return isinstance(content, ArchiveFile) or (
        isinstance(content, Document) and {"version", "eval"} <= set(content.value)
    )


def read_inspect_log(log: LogFile, content: Content, limits: ArchiveLimits = ArchiveLimits()) -> ParsedLog:  # noqa: B008  frozen
    """Read the samples. Raises DataError or ConfigError; MissingExtra when an archive needs zstandard."""
    if isinstance(content, Document):
        header = parse_header(log, content.value)
        samples = tuple(_json_samples(log, content.value.get("samples") or []))
    else:
        header, samples = _read_archive(log, limits)
    if not samples:
        raise DataError(
            f"{log.path.name} holds no samples (status {header.status!r}); run it again with its samples logged",
            code="empty_log",
        )
    arm = log.arm or f"{header.eval.task}/{header.eval.model}"
    names = tuple(dict.fromkeys(name for sample in samples for name in sample.values))
    all_ended = all(sample.error or sample.limit for sample in samples)
    scorer = "" if all_ended and not names else choose_score(log, names)
    rollouts = tuple(_rollout(log, header.eval.task, arm, sample, scorer) for sample in samples)
    ran = span((header.eval.created, header.stats.started_at, header.stats.completed_at))
    return ParsedLog(
        rollouts,
        {arm: as_text(header.eval.model)},
        tuple(_notes(log, samples, scorer)),
        tuple(_warnings(log, header, samples)),
        {} if ran is None else {arm: ran},
    )


INSPECT_LOG = LogFormat("log of inspect_ai", is_inspect_log, read_inspect_log)


def _read_archive(log: LogFile, limits: ArchiveLimits) -> tuple[InspectHeader, tuple[InspectSample, ...]]:
    with open_archive(log.path, limits) as archive:
        start = _HEADER if _HEADER in archive.names else _START
        if start not in archive.names:
            raise DataError(
                f"{log.path.name} is an archive without {_HEADER!r}, so not an inspect_ai log; give an .eval file",
                code="unknown_log",
            )
        header = parse_header(log, _member(log, start, archive.read(start)))
        _demand_whole_samples(log, archive.names)
        samples = tuple(
            parse_sample(log, f"sample {name.removeprefix('samples/')!r}", _member(log, name, archive.read(name)))
            for name in archive.names
            if name.startswith("samples/") and name.endswith(".json")
        )
    return header, samples


def _demand_whole_samples(log: LogFile, names: Sequence[str]) -> None:
    split = next((name for name in names if re.fullmatch(r"samples/.+_epoch_\d+/sample\.json", name)), None)
    if split is not None:
        raise DataError(
            f"{log.path.name} stores {split.removesuffix('/sample.json')!r} in several members, which cannot be read;"
            " convert it with `inspect log convert --to json`",
            code="unknown_version",
        )


def _member(log: LogFile, name: str, body: bytes) -> Any:
    try:
        decoded = body.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{log.path.name} {name!r} is not UTF-8; write the log again", code="bad_log") from error
    return parse_json(decoded, f"{log.path.name} {name!r}")


def _json_samples(log: LogFile, samples: Any) -> Iterator[InspectSample]:
    for index, value in enumerate(samples if isinstance(samples, list) else [samples]):
        yield parse_sample(log, f"sample number {index + 1}", value)


def _warnings(log: LogFile, header: InspectHeader, samples: Sequence[InspectSample]) -> Iterator[str]:
    if header.status != "success":
        cause = f" ({error_code(header.error.message)})" if header.error is not None else ""
        yield f"{log.path.name}: the run ended with status {header.status!r}{cause}, not 'success'"
    if len(samples) < header.eval.planned_samples:
        yield f"{log.path.name}: only {len(samples):,} of {header.eval.planned_samples:,} samples are in the log"


def _notes(log: LogFile, samples: Sequence[InspectSample], scorer: str) -> Iterator[str]:
    if any(_grade(one, scorer, log.path.name) is not None for one in samples if one.out_of_time):
        yield f"{log.path.name}: samples over their time limit are undecided, although the log grades some of them"


def _rollout(log: LogFile, task: str, arm: str, sample: InspectSample, scorer: str) -> LoggedRollout:
    place = f"{log.path.name} sample {sample.id!r} epoch {sample.epoch}"
    score, status, error = _outcome(sample, scorer, place)
    usages = tuple(sample.model_usage.values())
    observation = build_observation(
        place,
        arm=arm,
        task=as_text(sample.id),
        g=sample.epoch - 1,
        score=score,
        status=status,
        error=error,
        cluster=as_text(sample.metadata.get("cluster")),
        domain=as_text(task),
        tags=parse_texts(sample.metadata.get("tags")),
        problem=sample.problem,
        rollout=as_text(sample.uuid) or f"{log.path.name}#{sample.id}_epoch_{sample.epoch}",
        cost_usd=_total([usage.total_cost for usage in usages]),
        tokens_in=_total([usage.tokens_in for usage in usages]),
        tokens_out=_total([usage.output_tokens for usage in usages]),
        tool_calls=sample.tool_calls,
        seconds=sample.total_time if sample.working_time is None else sample.working_time,
    )
    return LoggedRollout(place, observation, numbered=True, empty=status == "ok" and sample.empty)


def _outcome(sample: InspectSample, scorer: str, place: str) -> tuple[float | None, RolloutOutcome, str]:
    if sample.invalidation is not None:
        return None, "undecided", "invalidated"
    if sample.error is not None:
        return None, "undecided", error_code(sample.error.message)
    if sample.out_of_time:
        return None, "undecided", "time_limit"
    grade = _grade(sample, scorer, place)
    if grade is not None:
        return grade, "ok", ""
    if sample.limit is not None:
        return 0.0, "failed", f"{sample.limit.type}_limit"
    return None, "undecided", as_text(sample.unscored_reason(scorer))


def _grade(sample: InspectSample, scorer: str, place: str) -> float | None:
    """Return the scorer's value as a number; None when there is none."""
    value = sample.values.get(scorer)
    return None if value is None else parse_number(value, f"score {scorer!r}", place, letters=True)


def _total(numbers: Sequence[Any]) -> Any:
    return sum(numbers) if numbers and None not in numbers else None
