"""Reader of pydantic-evals reports, written as JSON."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from agentlearn.errors import DataError
from agentlearn_evals.formats.content import Content
from agentlearn_evals.formats.log_file import (
    ForeignRecord,
    LoggedRollout,
    LogReader,
    ParsedLog,
    Place,
    as_text,
    error_code,
    is_empty,
    parse_texts,
)

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
