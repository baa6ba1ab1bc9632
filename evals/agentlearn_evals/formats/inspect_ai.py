"""Readers of reports of programs: inspect_ai's logs, and pydantic-evals' reports as JSON.

Logs of inspect_ai have format 2: an `.eval` archive with one member per sample, or one JSON file.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import AliasPath, Field

from agentlearn.errors import DataError
from agentlearn.types.trajectory import RolloutOutcome
from agentlearn_evals.formats.content import Archive, Content, parse_json
from agentlearn_evals.formats.log_file import (
    ForeignRecord,
    LoggedRollout,
    LogReader,
    ParsedLog,
    Place,
    abbreviate,
    as_text,
    error_code,
    is_empty,
    parse_texts,
    prompt_text,
    span,
)

_VERSION = 2
"""Log format version that can be read."""

_ATTACHMENT = re.compile(r"attachment://([0-9a-f]{32})")
_TIME_LIMITS = ("time", "working")


class _Usage(ForeignRecord):
    """Token usage of one model in one sample; input tokens are without cache reads and writes."""

    input_tokens: int = Field(default=0, ge=0)
    input_tokens_cache_write: int | None = None
    input_tokens_cache_read: int | None = None
    output_tokens: int = Field(default=0, ge=0)
    total_cost: float | None = None
    """US dollars."""

    @property
    def tokens_in(self) -> int:
        """Input tokens, with cache reads and writes."""
        return self.input_tokens + (self.input_tokens_cache_read or 0) + (self.input_tokens_cache_write or 0)


class _Sample(ForeignRecord):
    """One epoch of one sample."""

    id: int | str
    epoch: int = Field(ge=1)
    problem: str
    """The question in the sample's input, with attachments filled in."""
    tool_calls: int | None
    """Tool calls in the events, which include sub-agents; without events, in the messages. None without both."""
    empty: bool = False
    """Whether the last output of the model is recorded and has neither text nor a tool call."""
    scores: dict[str, dict[str, Any]] | None = None
    """By scorer: its `value` (a number, a letter, or a list or mapping of these), or the `reason` why it has none."""
    metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    model_usage: dict[str, _Usage] = Field(default_factory=dict[str, _Usage])
    total_time: float | None = None
    """Seconds."""
    working_time: float | None = None
    """Seconds without waiting for rate limits and shared resources."""
    uuid: str | None = None
    invalidation: Any = None
    """Set when somebody marked the sample as invalid."""
    error: dict[str, Any] | None = None
    """The exception that ended the sample."""
    limit: dict[str, Any] | None = None
    """The limit that ended the sample; its `type` is such as `time`, `working`, `token` or `message`."""

    @property
    def values(self) -> dict[str, Any]:
        """Score values by name. A scorer with several values gives one score for each: `SCORER.KEY`."""
        found: dict[str, Any] = {}
        for scorer, score in (self.scores or {}).items():
            value = score.get("value")
            if isinstance(value, Mapping):
                found |= {f"{scorer}.{key}": one for key, one in value.items()}
            elif isinstance(value, Sequence) and not isinstance(value, str):
                found |= {f"{scorer}.{index}": one for index, one in enumerate(value)}
            else:
                found[scorer] = value
        return {name: one for name, one in found.items() if not is_empty(one)}  # NaN: a scorer could not decide

    @property
    def limit_type(self) -> str:
        """What ended the sample early; empty when no limit did."""
        return "" if self.limit is None else as_text(self.limit.get("type")) or "unknown"

    @property
    def is_late(self) -> bool:
        """Whether a limit on time ended the sample."""
        return self.limit_type in _TIME_LIMITS

    def grade(self, scorer: str, place: str) -> float | None:
        """Return the scorer's value as a number; None when there is none."""
        value = self.values.get(scorer)
        return None if value is None else Place(place).number(value, f"score {scorer!r}", letters=True)

    def outcome(self, scorer: str, place: str) -> tuple[float | None, RolloutOutcome, str]:
        """Return the score, the status and the code of the rollout."""
        if self.invalidation is not None:
            return None, "undecided", "invalidated"
        if self.error is not None:
            return None, "undecided", _code(self.error)
        if self.is_late:
            return None, "undecided", "time_limit"
        grade = self.grade(scorer, place)
        if grade is not None:
            return grade, "ok", ""
        if self.limit_type:
            return 0.0, "failed", f"{self.limit_type}_limit"
        scores = self.scores or {}
        found = scores.get(scorer) or scores.get(scorer.partition(".")[0]) or {}
        return None, "undecided", as_text(found.get("reason")) or "unscored"


class _Header(ForeignRecord):
    """The log without its samples."""

    version: int
    status: str = "started"
    task: str = Field(validation_alias=AliasPath("eval", "task"))
    model: str = Field(validation_alias=AliasPath("eval", "model"))
    samples: int | None = Field(default=None, validation_alias=AliasPath("eval", "dataset", "samples"))
    """Number of samples in the whole dataset."""
    sample_ids: list[Any] | None = Field(default=None, validation_alias=AliasPath("eval", "dataset", "sample_ids"))
    """Ids of the samples that were chosen for the run."""
    epochs: int | None = Field(default=None, validation_alias=AliasPath("eval", "config", "epochs"))
    limit: int | tuple[int, int] | None = Field(default=None, validation_alias=AliasPath("eval", "config", "limit"))
    """How many samples of the dataset were chosen, or from which to before which."""
    sample_id: Any = Field(default=None, validation_alias=AliasPath("eval", "config", "sample_id"))
    """Ids or patterns of the samples that were chosen."""
    created: Any = Field(default=None, validation_alias=AliasPath("eval", "created"))
    started_at: Any = Field(default=None, validation_alias=AliasPath("stats", "started_at"))
    completed_at: Any = Field(default=None, validation_alias=AliasPath("stats", "completed_at"))
    error: dict[str, Any] | None = None
    """What ended the run, when its status is `error`."""

    @property
    def planned_samples(self) -> int:
        """Number of samples, times epochs, that the run was to produce; 0 when unknown."""
        if self.sample_ids is not None:
            chosen = len(self.sample_ids)
        elif self.sample_id is not None:
            chosen = 0
        else:
            whole = self.samples or 0
            first, end = self.limit if isinstance(self.limit, tuple) else (0, self.limit)
            chosen = max(0, (whole if end is None else min(end, whole)) - first)
        return chosen * (self.epochs or 1)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


_HEADER, _START = "header.json", "_journal/start.json"


class InspectReader(LogReader):
    """Reads logs of inspect_ai."""

    name = "log of inspect_ai"

    @staticmethod
    def matches(content: Content) -> bool:
        """Return whether the content is an inspect_ai log. Every archive is taken for one."""
        return not content.rows or {"version", "eval"} <= set(content.document or ())

    def read(self, content: Content) -> ParsedLog:
        """Read the samples. Raises DataError or ConfigError; MissingExtra when an archive needs zstandard."""
        log, file = self.log, self.file
        if content.document is not None:
            header, values = self._header(content.document), content.document.get("samples") or []
            numbered = enumerate(values if isinstance(values, list) else [values], start=1)
            samples = [self._sample(f"sample number {number}", value) for number, value in numbered]
        else:
            header, samples = self._read_archive()
        if not samples:
            raise DataError(
                f"{file} holds no samples (status {header.status!r}); run it again with its samples logged",
                code="empty_log",
            )
        arm = log.arm or f"{header.task}/{header.model}"
        names = tuple(dict.fromkeys(name for sample in samples for name in sample.values))
        all_ended = all(sample.error is not None or sample.limit for sample in samples)
        scorer = "" if all_ended and not names else log.choose(names)
        rollouts = tuple(self._rollout(header.task, arm, sample, scorer) for sample in samples)
        ran = span((header.created, header.started_at, header.completed_at))
        warnings: list[str] = []
        if header.status != "success":
            cause = "" if header.error is None else f" ({_code(header.error)})"
            warnings.append(f"{file}: the run ended with status {header.status!r}{cause}, not 'success'")
        if len(samples) < header.planned_samples:
            warnings.append(f"{file}: only {len(samples):,} of {header.planned_samples:,} samples are in the log")
        graded = any(one.is_late and one.grade(scorer, file) is not None for one in samples)
        note = f"{file}: samples over their time limit are undecided, although the log grades some of them"
        return ParsedLog(
            rollouts,
            {arm: as_text(header.model)},
            notes=(note,) if graded else (),
            warnings=tuple(warnings),
            times={} if ran is None else {arm: ran},
        )

    def _read_archive(self) -> tuple[_Header, list[_Sample]]:
        with Archive.open(self.log.path) as archive:
            start = _HEADER if _HEADER in archive.names else _START
            if start not in archive.names:
                raise DataError(
                    f"{self.file} is an archive without {_HEADER!r}, so not an inspect_ai log; give an .eval file",
                    code="unknown_log",
                )

            def member(name: str) -> Any:
                try:
                    decoded = archive.read(name).decode()
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{self.file} {name!r} is not UTF-8; write the log again", code="bad_log"
                    ) from error
                return parse_json(decoded, f"{self.file} {name!r}")

            header = self._header(member(start))
            split = next(
                (one for one in archive.names if re.fullmatch(r"samples/.+_epoch_\d+/sample\.json", one)), None
            )
            if split is not None:
                raise DataError(
                    f"{self.file} stores {split.removesuffix('/sample.json')!r} in several members, which cannot be"
                    " read; convert it with `inspect log convert --to json`",
                    code="unknown_version",
                )
            names = [one for one in archive.names if one.startswith("samples/") and one.endswith(".json")]
            return header, [self._sample(f"sample {name.removeprefix('samples/')!r}", member(name)) for name in names]

    def _header(self, value: Any) -> _Header:
        version = value.get("version") if isinstance(value, Mapping) else None
        if version != _VERSION:
            raise DataError(
                f"{self.file} is an inspect_ai log in format {abbreviate(version)}, but only format {_VERSION} can be"
                " read; convert it with `inspect log convert` from a version of inspect_ai that writes this format",
                code="unknown_version",
            )
        return Place(f"{self.file} header").record(_Header, value)

    def _sample(self, which: str, value: Any) -> _Sample:
        """Return one sample. which: names the sample in messages. Raises DataError."""
        place = Place(f"{self.file} {which}")
        if not isinstance(value, Mapping):
            raise DataError(f"{place} is {abbreviate(value)}, not a JSON object; write the log again", code="bad_log")
        attachments = value.get("attachments")
        texts = attachments if isinstance(attachments, Mapping) else {}
        problem = _ATTACHMENT.sub(lambda match: as_text(texts.get(match[1], match[0])), prompt_text(value.get("input")))
        events, messages = _objects(value.get("events")), _objects(value.get("messages"))
        called = sum(event.get("event") == "tool" for event in events)
        asked = sum(len(_objects(message.get("tool_calls"))) for message in messages)
        tool_calls = called or asked if events or messages else None
        # The long texts of the sample are dropped here to save memory.
        read = {"problem": problem, "tool_calls": tool_calls, "empty": _is_empty_output(value.get("output"))}
        return place.record(_Sample, {**value, **read})

    def _rollout(self, task: str, arm: str, sample: _Sample, scorer: str) -> LoggedRollout:
        place = Place(f"{self.file} sample {sample.id!r} epoch {sample.epoch}")
        score, status, error = sample.outcome(scorer, place)
        usages = tuple(sample.model_usage.values())
        observation = place.observation(
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
            rollout=as_text(sample.uuid) or f"{self.file}#{sample.id}_epoch_{sample.epoch}",
            cost_usd=_total([usage.total_cost for usage in usages]),
            tokens_in=_total([usage.tokens_in for usage in usages]),
            tokens_out=_total([usage.output_tokens for usage in usages]),
            tool_calls=sample.tool_calls,
            seconds=sample.total_time if sample.working_time is None else sample.working_time,
        )
        return LoggedRollout(place, observation, numbered=True, empty=status == "ok" and sample.empty)


def _is_empty_output(output: Any) -> bool:
    if not isinstance(output, Mapping) or not output.get("model"):
        return False  # a solver that calls no model leaves an output without a model
    for message in (choice.get("message") for choice in _objects(output.get("choices"))):
        if isinstance(message, Mapping):
            content = message.get("content")
            says = any(part.get("type") != "text" or not is_empty(part.get("text")) for part in _objects(content))
            if says or message.get("tool_calls") or (isinstance(content, str) and not is_empty(content)):
                return False
    return is_empty(output.get("completion"))


def _code(error: Mapping[str, Any]) -> str:
    return error_code(as_text(error.get("message")))


def _total(numbers: Sequence[Any]) -> Any:
    return sum(numbers) if numbers and None not in numbers else None


_REPEAT = re.compile(r" \[(?P<run>\d+)/\d+\]$")


class _Case(ForeignRecord):
    """A case that ran; or, with an error message, a case that failed."""

    name: str = Field(min_length=1)
    inputs: Any = None
    metadata: Any = None
    scores: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    """By evaluator; `value` is what it gave."""
    assertions: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    metrics: dict[str, Any] = Field(default_factory=dict[str, Any])
    task_duration: float | None = None
    """Seconds."""
    source_case_name: str | None = None
    """Name of the case that was run several times; None for a case that ran once."""
    trace_id: str | None = None
    output: Any = None
    evaluator_failures: list[Any] = Field(default_factory=list[Any])
    error_message: str | None = None

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """Scores and assertions by name."""
        return {**self.scores, **self.assertions}


class _Report(ForeignRecord):
    """A report: one experiment over a dataset."""

    name: str = Field(min_length=1)
    cases: list[_Case]
    failures: list[_Case] = Field(default_factory=list[_Case])
    experiment_metadata: dict[str, Any] | None = None


class PydanticEvalsReader(LogReader):
    """Reads reports of pydantic-evals."""

    name = "report of pydantic-evals"

    @staticmethod
    def matches(content: Content) -> bool:
        """Return whether the content is a report."""
        return {"name", "cases"} <= set(content.document or ())

    def read(self, content: Content) -> ParsedLog:
        """Read the cases of a report under one score or assertion. Raises DataError or ConfigError."""
        advice = "write the report with `EvaluationReportAdapter` of pydantic-evals"
        report = Place(self.file).record(_Report, content.document, advice=advice)
        cases = (*report.cases, *report.failures)
        if not cases:
            raise DataError(f"{self.file} holds no cases; give a report with at least one", code="empty_log")
        names = tuple(dict.fromkeys(name for case in report.cases for name in case.results))
        score = self.log.choose(names) if report.cases else ""
        arm = self.log.arm or as_text(report.name)
        model = (report.experiment_metadata or {}).get("model")
        some_output = any(not is_empty(case.output) for case in report.cases)
        rollouts = tuple(self._rollout(case, arm, score, some_output=some_output) for case in cases)
        return ParsedLog(rollouts, {arm: as_text(model)} if isinstance(model, str) and model else {})

    def _rollout(self, case: _Case, arm: str, score: str, *, some_output: bool) -> LoggedRollout:
        """Return a case as a rollout. some_output: whether the report records outputs."""
        place = Place(f"{self.file} case {case.name!r}")
        repeat = _REPEAT.search(case.name) if case.source_case_name else None
        metadata: Mapping[str, Any] = case.metadata if isinstance(case.metadata, Mapping) else {}
        value, status, error = None, "undecided", ""
        if case.error_message is not None:
            error = error_code(case.error_message)
        elif score not in case.results:
            error = "evaluator_failed" if case.evaluator_failures else "unscored"
        else:
            value, status = place.number(case.results[score].get("value"), f"score {score!r}"), "ok"
        observation = place.observation(
            arm=arm,
            task=as_text(case.source_case_name or case.name),
            g=max(0, int(repeat["run"]) - 1) if repeat else 0,
            score=value,
            status=status,
            error=error,
            cluster=as_text(metadata.get("cluster")),
            domain=as_text(metadata.get("domain")),
            tags=parse_texts(metadata.get("tags")),
            problem=as_text(case.inputs),
            rollout=as_text(metadata.get("rollout")) or as_text(case.trace_id),
            seconds=case.task_duration,
            **{name: case.metrics.get(theirs) for name, theirs in _METRICS.items()},
        )
        empty = some_output and status == "ok" and is_empty(case.output)
        return LoggedRollout(place, observation, numbered=repeat is not None, empty=empty)


_METRICS = {"cost_usd": "cost", "tokens_in": "input_tokens", "tokens_out": "output_tokens", "tool_calls": "tool_calls"}
"""Names of their metrics by ours."""
