"""Reader of inspect_ai logs, format 2: an `.eval` archive with one member per sample, or one JSON file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from agentlearn.errors import DataError
from agentlearn.types.trajectory import RolloutOutcome
from agentlearn_evals.formats.content import ArchiveFile, Content, Document, parse_json
from agentlearn_evals.formats.fields import (
    ForeignRecord,
    abbreviate,
    as_text,
    build_observation,
    choose_score,
    error_code,
    is_empty,
    parse_number,
    parse_record,
    parse_texts,
    prompt_text,
)
from agentlearn_evals.formats.log_file import ArchiveLimits, LogFile, LoggedRollout, ParsedLog, open_archive, span
from agentlearn_evals.formats.log_format import LogFormat

VERSION = 2
"""Log format version that can be read."""

_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{32})")
_TIME_LIMITS = ("time", "working")


class InspectUsage(ForeignRecord):
    """Token usage of one model in one sample."""

    input_tokens: int = Field(default=0, ge=0)
    """Input tokens, without cache reads and writes."""
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    output_tokens: int = Field(default=0, ge=0)
    total_cost: float | None = None
    """US dollars."""

    @property
    def tokens_in(self) -> int:
        """Input tokens, with cache reads and writes."""
        return self.input_tokens + (self.input_tokens_cache_read or 0) + (self.input_tokens_cache_write or 0)


class InspectError(ForeignRecord):
    """The exception that ended a sample."""

    message: str = ""


class InspectLimit(ForeignRecord):
    """The limit that ended a sample."""

    type: str
    """Such as `time`, `working`, `token` or `message`."""


class InspectScore(ForeignRecord):
    """What one scorer gave to one sample."""

    value: Any = None
    """A number, a letter, or a list or mapping of these."""
    reason: str | None = None
    """Why there is no value."""


class InspectSample(ForeignRecord):
    """One epoch of one sample."""

    id: int | str
    epoch: int = Field(ge=1)
    problem: str
    """The question in the sample's input, with attachments filled in."""
    tool_calls: int | None
    """Tool calls in the events, which include sub-agents; without events, in the messages. None without both."""
    empty: bool = False
    """Whether the last output of the model is recorded and has neither text nor a tool call."""
    scores: dict[str, InspectScore] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    model_usage: dict[str, InspectUsage] = Field(default_factory=dict[str, InspectUsage])
    total_time: float | None = None
    """Seconds."""
    working_time: float | None = None
    """Seconds without waiting for rate limits and shared resources."""
    uuid: str | None = None
    invalidation: Any = None
    """Set when somebody marked the sample as invalid."""
    error: InspectError | None = None
    limit: InspectLimit | None = None

    @property
    def values(self) -> dict[str, Any]:
        """Score values by name. A scorer with several values gives one score for each: `SCORER.KEY`."""
        return {
            name: value
            for scorer, score in (self.scores or {}).items()
            for name, value in _named_values(scorer, score.value)
            if not is_empty(value)  # inspect_ai writes NaN when a scorer cannot decide
        }

    @property
    def out_of_time(self) -> bool:
        """Whether a time limit ended the sample."""
        return self.limit is not None and self.limit.type in _TIME_LIMITS

    def unscored_reason(self, name: str) -> str:
        """Return why the sample has no score of that name."""
        scores = self.scores or {}
        scorer = scores.get(name) or scores.get(name.partition(".")[0])
        return (scorer and scorer.reason) or "unscored"


class InspectDataset(ForeignRecord):
    """The samples of an evaluation."""

    samples: int | None = None
    """Number of samples in the whole dataset."""
    sample_ids: list[Any] | None = None
    """Ids of the samples that were chosen for the run."""


class InspectConfig(ForeignRecord):
    """How an evaluation was run."""

    epochs: int | None = None
    limit: int | tuple[int, int] | None = None
    """How many samples of the dataset were chosen, or from which to before which."""
    sample_id: Any = None
    """Ids or patterns of the samples that were chosen."""

    def chosen(self, samples: int) -> int:
        """Return how many of the dataset's samples were to be run; 0 when unknown."""
        if self.sample_id is not None:
            return 0
        if self.limit is None:
            return samples
        first, end = (0, self.limit) if isinstance(self.limit, int) else self.limit
        return max(0, min(end, samples) - first)


class InspectEval(ForeignRecord):
    """What was evaluated."""

    task: str
    model: str
    created: Any = None
    """When the log was begun, ISO 8601."""
    dataset: InspectDataset = InspectDataset()
    config: InspectConfig = InspectConfig()

    @property
    def planned_samples(self) -> int:
        """Number of samples, times epochs, that the run was to produce; 0 when unknown."""
        ids = self.dataset.sample_ids
        chosen = self.config.chosen(self.dataset.samples or 0) if ids is None else len(ids)
        return chosen * (self.config.epochs or 1)


class InspectStats(ForeignRecord):
    """When an evaluation ran."""

    started_at: Any = None
    completed_at: Any = None


class InspectHeader(ForeignRecord):
    """The log without its samples."""

    version: int
    status: str = "started"
    eval: InspectEval
    stats: InspectStats = InspectStats()
    error: InspectError | None = None
    """What ended the run, when its status is `error`."""


def parse_header(log: LogFile, value: Any) -> InspectHeader:
    """Return the header. Raises DataError when the log has another format version."""
    version = value.get("version") if isinstance(value, Mapping) else None
    if version != VERSION:
        raise DataError(
            f"{log.path.name} is an inspect_ai log in format {abbreviate(version)}, but only format {VERSION} can be"
            " read; convert it with `inspect log convert` from a version of inspect_ai that writes this format",
            code="unknown_version",
        )
    return parse_record(InspectHeader, value, f"{log.path.name} header")


def parse_sample(log: LogFile, which: str, value: Any) -> InspectSample:
    """Return one sample. which: names the sample in messages. Raises DataError."""
    place = f"{log.path.name} {which}"
    if not isinstance(value, Mapping):
        raise DataError(f"{place} is {abbreviate(value)}, not a JSON object; write the log again", code="bad_log")
    # The long texts of the sample are dropped here to save memory.
    read = {"problem": _problem(value), "tool_calls": _count_tool_calls(value), "empty": _is_empty_output(value)}
    return parse_record(InspectSample, {**value, **read}, place)


def _named_values(scorer: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{scorer}.{key}", one) for key, one in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from ((f"{scorer}.{index}", one) for index, one in enumerate(value))
    else:
        yield scorer, value


def _problem(sample: Mapping[str, Any]) -> str:
    attachments = sample.get("attachments")
    texts = attachments if isinstance(attachments, Mapping) else {}
    return _ATTACHMENT.sub(lambda match: as_text(texts.get(match[1], match[0])), prompt_text(sample.get("input")))


def _count_tool_calls(sample: Mapping[str, Any]) -> int | None:
    events, messages = _objects(sample.get("events")), _objects(sample.get("messages"))
    called = sum(event.get("event") == "tool" for event in events)
    asked = sum(len(_objects(message.get("tool_calls"))) for message in messages)
    return called or asked if events or messages else None


def _is_empty_output(sample: Mapping[str, Any]) -> bool:
    output = sample.get("output")
    if not isinstance(output, Mapping) or not output.get("model"):
        return False  # a solver that calls no model leaves an output without a model
    messages = [choice.get("message") for choice in _objects(output.get("choices"))]
    said = [one for one in messages if isinstance(one, Mapping) and (_has_text(one) or one.get("tool_calls"))]
    return not said and is_empty(output.get("completion"))


def _has_text(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    parts = _objects(content)
    return any(part.get("type") != "text" or not is_empty(part.get("text")) for part in parts) or (
        isinstance(content, str) and not is_empty(content)
    )


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


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
