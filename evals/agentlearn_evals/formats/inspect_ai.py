"""Reads logs of inspect_ai, by its own reader: an `.eval` archive with one member per sample, or one JSON file."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from zipfile import ZipFile

from pydantic import ValidationError

from agentlearn.errors import DataError, MissingExtra
from agentlearn.plugins import cause_words
from agentlearn.types.trajectory import RolloutOutcome
from agentlearn.types.value import first_fault
from agentlearn_evals.formats.log_file import (
    Content,
    LoggedRollout,
    LogReader,
    ParsedLog,
    Place,
    as_text,
    error_code,
    is_empty,
    parse_texts,
    prompt_text,
    span,
    too_large,
)

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample
    from inspect_ai.model import ModelOutput, ModelUsage

_TIME_LIMITS = ("time", "working")
_AT_ONCE = 50
"""Samples of an archive that are in memory together."""
_MEMBER_MIB, _ARCHIVE_MIB = 512, 16 << 10
"""Largest unpacked size of one member of an archive, and of all together."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """One epoch of one sample."""

    logged: "EvalSample"
    """Without its long texts."""
    problem: str
    """The question in its input."""
    tool_calls: int | None
    """Tool calls in the events, which include sub-agents; without events, in the messages. None without both."""
    empty: bool
    """Whether the last output of the model is recorded and has neither text nor a tool call."""

    @classmethod
    def of(cls, one: "EvalSample") -> Self:
        """Return the sample without what is not needed."""
        problem = one.input if isinstance(one.input, str) else [message.model_dump() for message in one.input]
        called = sum(event.event == "tool" for event in one.events)
        asked = sum(len(message.tool_calls or ()) for message in one.messages if message.role == "assistant")
        unread = {"input": "", "messages": [], "output": None, "events": [], "attachments": {}, "store": {}}
        return cls(
            one.model_copy(update={**unread, "events_data": None, "timelines": None}),
            prompt_text(problem),
            called or asked if one.events or one.messages else None,
            _is_empty_output(one.output),
        )

    @property
    def values(self) -> dict[str, Any]:
        """Score values by name. A scorer with several values gives one score for each: `SCORER.KEY`."""
        found: dict[str, Any] = {}
        for scorer, score in (self.logged.scores or {}).items():
            value = score.value
            if isinstance(value, Mapping):
                found |= {f"{scorer}.{key}": one for key, one in value.items()}
            elif isinstance(value, Sequence) and not isinstance(value, str):
                found |= {f"{scorer}.{index}": one for index, one in enumerate(value)}
            else:
                found[scorer] = value
        return {name: one for name, one in found.items() if not is_empty(one)}  # NaN: a scorer could not decide

    @property
    def is_late(self) -> bool:
        """Whether a limit on time ended the sample."""
        return self.logged.limit is not None and self.logged.limit.type in _TIME_LIMITS

    def grade(self, scorer: str, place: str) -> float | None:
        """Return the scorer's value as a number; None when there is none."""
        value = self.values.get(scorer)
        return None if value is None else Place(place).number(value, f"score {scorer!r}", letters=True)

    def outcome(self, scorer: str, place: str) -> tuple[float | None, RolloutOutcome, str]:
        """Return the score, the status and the code of the rollout."""
        one = self.logged
        if one.invalidation is not None:
            return None, "undecided", "invalidated"
        if one.error is not None:
            return None, "undecided", error_code(one.error.message)
        if self.is_late:
            return None, "undecided", "time_limit"
        grade = self.grade(scorer, place)
        if grade is not None:
            return grade, "ok", ""
        if one.limit is not None:
            return 0.0, "failed", f"{one.limit.type}_limit"
        scores = one.scores or {}
        found = scores.get(scorer) or scores.get(scorer.partition(".")[0])
        return None, "undecided", as_text(found and found.reason) or "unscored"


class InspectReader(LogReader):
    """Reads logs of inspect_ai."""

    name = "log of inspect_ai"

    @staticmethod
    def matches(content: Content) -> bool:
        """Return whether the content is an inspect_ai log. Every archive is taken for one."""
        return not content.rows or {"version", "eval"} <= set(content.document or ())

    def read(self, content: Content) -> ParsedLog:
        """Read the samples. Raises DataError or ConfigError; MissingExtra without inspect_ai."""
        log, file = self.log, self.file
        header, samples = self._read(is_json=content.document is not None)
        if not samples:
            raise DataError(f"{file} holds no samples (status {header.status!r}); run it again with its samples logged")
        spec = header.eval
        arm = log.arm or as_text(f"{spec.task}/{spec.model}")
        names = tuple(dict.fromkeys(name for sample in samples for name in sample.values))
        all_ended = all(sample.logged.error is not None or sample.logged.limit for sample in samples)
        scorer = "" if all_ended and not names else log.choose(names)
        rollouts = tuple(self._rollout(spec.task, arm, sample, scorer) for sample in samples)
        ran = span((spec.created, header.stats.started_at, header.stats.completed_at))
        warnings: list[str] = []
        if header.status != "success":
            cause = "" if header.error is None else f" ({error_code(header.error.message)})"
            warnings.append(f"{file}: the run ended with status {header.status!r}{cause}, not 'success'")
        planned = len(spec.dataset.sample_ids or ()) * (spec.config.epochs or 1)
        if len(samples) < planned:
            warnings.append(f"{file}: only {len(samples):,} of {planned:,} samples are in the log")
        graded = any(one.is_late and one.grade(scorer, file) is not None for one in samples)
        note = f"{file}: samples over their time limit are undecided, although the log grades some of them"
        return ParsedLog(
            rollouts,
            {arm: as_text(spec.model)},
            notes=(note,) if graded else (),
            warnings=tuple(warnings),
            times={} if ran is None else {arm: ran},
        )

    def _read(self, *, is_json: bool) -> "tuple[EvalLog, list[_Sample]]":
        """Return what inspect_ai reads: the log without its samples, and these."""
        if find_spec("inspect_ai") is None:
            raise MissingExtra(f"reading {self.file!r} needs inspect-ai: pip install 'agentlearn-lib[inspect]'")
        try:
            with ThreadPoolExecutor(1) as own_thread:  # it would patch an event loop that runs in this one
                return own_thread.submit(_from_json if is_json else _from_archive, self.log.path).result()
        except DataError:
            raise
        except Exception as error:  # the file may hold anything, and every layer of the reader has errors of its own
            why = first_fault(error, "log") if isinstance(error, ValidationError) else cause_words(error)
            raise DataError(
                f"{self.file} cannot be read by inspect_ai {version('inspect_ai')} ({why}); copy the log again, or"
                " write it again with `inspect log convert`"
            ) from error

    def _rollout(self, task: str, arm: str, sample: _Sample, scorer: str) -> LoggedRollout:
        one = sample.logged
        place = Place(f"{self.file} sample {one.id!r} epoch {one.epoch}")
        score, status, error = sample.outcome(scorer, place)
        usages = tuple(one.model_usage.values())
        observation = place.observation(
            arm=arm,
            task=as_text(one.id),
            g=one.epoch - 1,
            score=score,
            status=status,
            error=error,
            cluster=as_text(one.metadata.get("cluster")),
            domain=as_text(task),
            tags=parse_texts(one.metadata.get("tags")),
            problem=sample.problem,
            rollout=as_text(one.uuid) or f"{self.file}#{one.id}_epoch_{one.epoch}",
            cost_usd=_total([usage.total_cost for usage in usages]),
            tokens_in=_total([_tokens_in(usage) for usage in usages]),
            tokens_out=_total([usage.output_tokens for usage in usages]),
            tool_calls=sample.tool_calls,
            seconds=one.total_time if one.working_time is None else one.working_time,
        )
        return LoggedRollout(place, observation, numbered=True, empty=status == "ok" and sample.empty)


def _from_json(path: Path) -> "tuple[EvalLog, list[_Sample]]":
    from inspect_ai.log import read_eval_log

    log = read_eval_log(path, format="json", resolve_attachments="core")
    samples, log.samples = [_Sample.of(one) for one in log.samples or ()], None
    return log, samples


def _from_archive(path: Path) -> "tuple[EvalLog, list[_Sample]]":
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries, read_eval_log_samples_by_id

    with ZipFile(path) as archive:
        sizes = [one.file_size >> 20 for one in archive.infolist()]
    if max(sizes) > _MEMBER_MIB or sum(sizes) > _ARCHIVE_MIB:
        raise too_large(path, f"unpacks to more than {_MEMBER_MIB} MiB for one sample, or {_ARCHIVE_MIB:,} for all")
    keys = [(one.id, one.epoch) for one in read_eval_log_sample_summaries(path, format="eval")]

    def samples() -> "Iterator[EvalSample]":
        for at in range(0, len(keys), _AT_ONCE):
            yield from read_eval_log_samples_by_id(
                path, keys[at : at + _AT_ONCE], format="eval", resolve_attachments="core", exclude_fields={"store"}
            )

    return read_eval_log(path, header_only=True, format="eval"), [_Sample.of(one) for one in samples()]


def _is_empty_output(output: "ModelOutput") -> bool:
    if not output.model or output.completion.strip():
        return False  # a solver that calls no model leaves an output without a model
    return not any(
        message.tool_calls
        or message.text.strip()
        or (not isinstance(message.content, str) and any(part.type != "text" for part in message.content))
        for message in (choice.message for choice in output.choices)
    )


def _tokens_in(usage: "ModelUsage") -> int:
    """Input tokens, with cache reads and writes."""
    return usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)


def _total(numbers: Sequence[Any]) -> Any:
    return sum(numbers) if numbers and None not in numbers else None
