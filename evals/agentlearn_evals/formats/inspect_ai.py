"""Logs of inspect_ai, format 2: an `.eval` archive with a member per sample, or the same as one JSON file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from agentlearn.errors import DataError
from agentlearn.types.value import Value
from agentlearn_evals.formats.archive import ArchiveLimits, open_archive
from agentlearn_evals.formats.content import ArchiveFile, Content, Document, parse_json
from agentlearn_evals.formats.fields import choose, error_code, nothing, number, observe, said, short, text, texts
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog
from agentlearn_evals.observation import RolloutStatus

NAME = "log of inspect_ai"
VERSION = 2

_HEADER, _START = "header.json", "_journal/start.json"
_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{32})")
_OF_TIME = ("time", "working")


class _Foreign(Value):
    model_config = ConfigDict(extra="ignore")


class _Usage(_Foreign):
    input_tokens: int = Field(default=0, ge=0)
    """Without those from and to the cache."""
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    output_tokens: int = Field(default=0, ge=0)
    total_cost: float | None = None


class _Error(_Foreign):
    message: str = ""


class _Limit(_Foreign):
    type: str


class _Score(_Foreign):
    value: Any = None
    reason: str | None = None


class _Sample(_Foreign):
    id: int | str
    epoch: int = Field(ge=1)
    problem: str
    """Of its input."""
    tool_calls: int | None
    """Of its events, which hold those of sub-agents, too; else of its messages."""
    scores: dict[str, _Score] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    model_usage: dict[str, _Usage] = Field(default_factory=dict[str, _Usage])
    total_time: float | None = None
    working_time: float | None = None
    uuid: str | None = None
    invalidation: Any = None
    error: _Error | None = None
    limit: _Limit | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Every score that was given; a scorer that gives several makes one of each: `SCORER.KEY`."""
        return {
            name: value
            for scorer, score in (self.scores or {}).items()
            for name, value in _flat(scorer, score.value)
            if not nothing(value)  # NaN is how inspect_ai writes that a scorer could not tell
        }

    def reason(self, name: str) -> str:
        """Why that score is not there."""
        scores = self.scores or {}
        scorer = scores.get(name) or scores.get(name.partition(".")[0])
        return (scorer and scorer.reason) or "unscored"


class _Dataset(_Foreign):
    samples: int | None = None
    sample_ids: list[Any] | None = None
    """Those that were chosen of all the samples."""


class _Config(_Foreign):
    epochs: int | None = None


class _Eval(_Foreign):
    task: str
    model: str
    dataset: _Dataset = _Dataset()
    config: _Config = _Config()


class _Header(_Foreign):
    version: int
    status: str = "started"
    eval: _Eval


def fits(content: Content) -> bool:
    """Whether it is one: every archive is looked at as one."""
    return isinstance(content, ArchiveFile) or (
        isinstance(content, Document) and {"version", "eval"} <= set(content.value)
    )


def read(log: LogFile, content: Content, limits: ArchiveLimits = ArchiveLimits()) -> ParsedLog:  # noqa: B008  frozen
    """The samples of a log. Raises DataError, ConfigError; MissingExtra where an archive needs zstandard."""
    if isinstance(content, Document):
        header = _header(log, content.value)
        samples = tuple(_samples_of_json(log, content.value.get("samples") or []))
    else:
        with open_archive(log.path, limits) as archive:
            start = _HEADER if _HEADER in archive.names else _START
            if start not in archive.names:
                raise DataError(
                    f"{log.path.name} is an archive without {_HEADER!r}, so no log of inspect_ai; give an .eval file",
                    code="unknown_log",
                )
            header = _header(log, _member(log, start, archive.read(start)))
            _demand_whole_samples(log, archive.names)
            samples = tuple(
                _sample(log, f"sample {name.removeprefix('samples/')!r}", _member(log, name, archive.read(name)))
                for name in archive.names
                if name.startswith("samples/") and name.endswith(".json")
            )
    return _reading(log, header, samples)


def _reading(log: LogFile, header: _Header, samples: Sequence[_Sample]) -> ParsedLog:
    if not samples:
        raise DataError(
            f"{log.path.name} holds no samples (status {header.status!r}); run it again with its samples logged",
            code="empty_log",
        )
    arm = log.arm or f"{header.eval.task}/{header.eval.model}"
    names = tuple(dict.fromkeys(name for sample in samples for name in sample.values))
    unscored = all(sample.error or sample.limit for sample in samples)
    scorer = "" if unscored and not names else choose(log, names)
    found = tuple(_found(log, header.eval.task, arm, sample, scorer) for sample in samples)
    return ParsedLog(found, {arm: text(header.eval.model)}, tuple(_notes(log, header, samples, scorer)))


def _notes(log: LogFile, header: _Header, samples: Sequence[_Sample], scorer: str) -> Iterator[str]:
    if header.status != "success":
        yield f"{log.path.name}: the log ended with status {header.status!r}"
    dataset = header.eval.dataset
    chosen = (dataset.samples or 0) if dataset.sample_ids is None else len(dataset.sample_ids)
    planned = chosen * (header.eval.config.epochs or 1)
    if len(samples) < planned:
        yield f"{log.path.name}: {len(samples)} of {planned} samples are in the log"
    late = [one for one in samples if _is_late(one)]
    if any(_grade(one, scorer, log.path.name) for one in late):
        yield f"{log.path.name}: samples over their time limit count as 0, although the log grades some of them higher"


def _found(log: LogFile, task: str, arm: str, sample: _Sample, scorer: str) -> LoggedRollout:
    place = f"{log.path.name} sample {sample.id!r} epoch {sample.epoch}"
    score, status, error = _outcome(sample, scorer, place)
    usages = tuple(sample.model_usage.values())
    observation = observe(
        place,
        arm=arm,
        task=text(sample.id),
        g=sample.epoch - 1,
        score=score,
        status=status,
        error=error,
        cluster=text(sample.metadata.get("cluster")),
        domain=text(task),
        tags=texts(sample.metadata.get("tags")),
        problem=sample.problem,
        rollout=text(sample.uuid) or f"{log.path.name}#{sample.id}_epoch_{sample.epoch}",
        cost_usd=_sum([usage.total_cost for usage in usages]),
        tokens_in=_sum([_tokens_in(usage) for usage in usages]),
        tokens_out=_sum([usage.output_tokens for usage in usages]),
        tool_calls=sample.tool_calls,
        seconds=sample.total_time if sample.working_time is None else sample.working_time,
    )
    return LoggedRollout(place, observation, numbered=True)


def _outcome(sample: _Sample, scorer: str, place: str) -> tuple[float | None, RolloutStatus, str]:
    if sample.invalidation is not None:
        return None, "undecided", "invalidated"
    if sample.error is not None:
        return 0.0, "failed", error_code(sample.error.message)
    if _is_late(sample):
        return 0.0, "timeout", "time_limit"
    grade = _grade(sample, scorer, place)
    if grade is not None:
        return grade, "ok", ""
    if sample.limit is not None:
        return 0.0, "failed", f"{sample.limit.type}_limit"
    return None, "undecided", text(sample.reason(scorer))


def _grade(sample: _Sample, scorer: str, place: str) -> float | None:
    """What the scorer gave; None where it gave nothing."""
    value = sample.values.get(scorer)
    return None if value is None else number(value, f"score {scorer!r}", place, letters=True)


def _is_late(sample: _Sample) -> bool:
    return sample.limit is not None and sample.limit.type in _OF_TIME


def _flat(scorer: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{scorer}.{key}", one) for key, one in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from ((f"{scorer}.{at}", one) for at, one in enumerate(value))
    else:
        yield scorer, value


def _tokens_in(usage: _Usage) -> int:
    return usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)


def _sum(numbers: Sequence[Any]) -> Any:
    return sum(numbers) if numbers and None not in numbers else None


def _header(log: LogFile, value: Any) -> _Header:
    version = value.get("version") if isinstance(value, Mapping) else None
    if version != VERSION:
        raise DataError(
            f"{log.path.name} is a log of inspect_ai in format {short(version)}, and only format {VERSION} is known;"
            " convert it with `inspect log convert` of a version that writes it",
            code="unknown_version",
        )
    return _strict(_Header, log, "header", value)


def _demand_whole_samples(log: LogFile, names: Sequence[str]) -> None:
    parted = next((name for name in names if re.fullmatch(r"samples/.+_epoch_\d+/sample\.json", name)), None)
    if parted is not None:
        raise DataError(
            f"{log.path.name} keeps {parted.removesuffix('/sample.json')!r} in pieces, which is not read here;"
            " convert it with `inspect log convert --to json`",
            code="unknown_version",
        )


def _samples_of_json(log: LogFile, samples: Any) -> Iterator[_Sample]:
    for at, value in enumerate(samples if isinstance(samples, list) else [samples]):
        yield _sample(log, f"sample number {at + 1}", value)


def _member(log: LogFile, name: str, body: bytes) -> Any:
    try:
        decoded = body.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{log.path.name} {name!r} is not UTF-8; write the log again", code="bad_log") from error
    return parse_json(decoded, f"{log.path.name} {name!r}")


def _sample(log: LogFile, which: str, value: Any) -> _Sample:
    if not isinstance(value, Mapping):
        raise DataError(f"{log.path.name} {which} is {short(value)} and no object; write the log again", code="bad_log")
    told = {**value, "problem": _problem(value), "tool_calls": _tool_calls(value)}  # its long texts are let go of here
    return _strict(_Sample, log, which, told)


def _problem(sample: Mapping[str, Any]) -> str:
    attachments = sample.get("attachments")
    kept = attachments if isinstance(attachments, Mapping) else {}
    return _ATTACHMENT.sub(lambda match: text(kept.get(match[1], match[0])), said(sample.get("input")))


def _tool_calls(sample: Mapping[str, Any]) -> int | None:
    events, messages = _objects(sample.get("events")), _objects(sample.get("messages"))
    called = sum(event.get("event") == "tool" for event in events)
    asked = sum(len(_objects(message.get("tool_calls"))) for message in messages)
    return called or asked if events or messages else None


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _strict(kind: type[Any], log: LogFile, which: str, value: Any) -> Any:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or which
        raise DataError(
            f"{log.path.name} {which} has {short(first['input'])} as {where} ({first['msg']}); write the log again",
            code="bad_log",
        ) from error
