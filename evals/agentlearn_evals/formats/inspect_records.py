"""The parts of an inspect_ai log, format 2, that a comparison needs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from agentlearn.errors import DataError
from agentlearn_evals.formats.fields import abbreviate, as_text, is_empty, prompt_text
from agentlearn_evals.formats.foreign_record import ForeignRecord, parse_record
from agentlearn_evals.formats.log_file import LogFile

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
