"""Reports of pydantic-evals as JSON: read as a log, and written from a comparison."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from agentlearn.errors import ConfigError, DataError
from agentlearn.types.value import Value
from agentlearn_evals.comparison import Comparison
from agentlearn_evals.formats.content import Content, Document
from agentlearn_evals.formats.fields import choose, error_code, number, observe, short, text, texts
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog
from agentlearn_evals.observation import Observation, RolloutStatus

NAME = "report of pydantic-evals"

_REPEAT = re.compile(r" \[(?P<run>\d+)/\d+\]$")
_TIMEOUT = "TimeoutError"
_SOURCE = {"name": "agentlearn", "arguments": None}


class _Foreign(Value):
    model_config = ConfigDict(extra="ignore")


class _Result(_Foreign):
    value: Any = None


class _Case(_Foreign):
    """A case that ran, or, with an error message, one that failed."""

    name: str = Field(min_length=1)
    inputs: Any = None
    metadata: Any = None
    scores: dict[str, _Result] = Field(default_factory=dict[str, _Result])
    assertions: dict[str, _Result] = Field(default_factory=dict[str, _Result])
    metrics: dict[str, Any] = Field(default_factory=dict[str, Any])
    task_duration: float | None = None
    source_case_name: str | None = None
    trace_id: str | None = None
    evaluator_failures: list[Any] = Field(default_factory=list[Any])
    error_message: str | None = None

    @property
    def results(self) -> dict[str, _Result]:
        return {**self.scores, **self.assertions}


class _Report(_Foreign):
    name: str = Field(min_length=1)
    cases: list[_Case]
    failures: list[_Case] = Field(default_factory=list[_Case])
    experiment_metadata: dict[str, Any] | None = None


def fits(content: Content) -> bool:
    """Whether it is one."""
    return isinstance(content, Document) and {"name", "cases"} <= set(content.value)


def read(log: LogFile, content: Content) -> ParsedLog:
    """The cases of a report under one score or assertion. Raises DataError, ConfigError."""
    assert isinstance(content, Document)
    report = _report(log, content.value)
    cases = (*report.cases, *report.failures)
    if not cases:
        raise DataError(f"{log.path.name} holds no cases; give a report with at least one", code="empty_log")
    names = tuple(dict.fromkeys(name for case in report.cases for name in case.results))
    score = choose(log, names) if report.cases else ""
    arm = log.arm or text(report.name)
    model = (report.experiment_metadata or {}).get("model")
    found = tuple(_found(log, case, arm, score) for case in cases)
    return ParsedLog(found, {arm: text(model)} if isinstance(model, str) and model else {})


def _report(log: LogFile, value: Any) -> _Report:
    try:
        return _Report.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DataError(
            f"{log.path.name} has {short(first['input'])} as {'.'.join(map(str, first['loc']))} ({first['msg']});"
            " write the report with `EvaluationReportAdapter` of pydantic-evals",
            code="bad_log",
        ) from error


def _found(log: LogFile, case: _Case, arm: str, score: str) -> LoggedRollout:
    place = f"{log.path.name} case {case.name!r}"
    repeat = _REPEAT.search(case.name) if case.source_case_name else None
    told: Mapping[str, Any] = case.metadata if isinstance(case.metadata, Mapping) else {}
    value, status, error = _outcome(case, score, place)
    observation = observe(
        place,
        arm=arm,
        task=text(case.source_case_name or case.name),
        g=max(0, int(repeat["run"]) - 1) if repeat else 0,
        score=value,
        status=status,
        error=error,
        cluster=text(told.get("cluster")),
        domain=text(told.get("domain")),
        tags=texts(told.get("tags")),
        problem=text(case.inputs),
        rollout=text(told.get("rollout")) or text(case.trace_id),
        cost_usd=case.metrics.get("cost"),
        tokens_in=case.metrics.get("input_tokens"),
        tokens_out=case.metrics.get("output_tokens"),
        tool_calls=case.metrics.get("tool_calls"),
        seconds=case.task_duration,
    )
    return LoggedRollout(place, observation, numbered=repeat is not None)


def _outcome(case: _Case, score: str, place: str) -> tuple[float | None, RolloutStatus, str]:
    if case.error_message is not None:
        code = error_code(case.error_message)
        return 0.0, "timeout" if code == _TIMEOUT else "failed", code
    if score not in case.results:
        return None, "undecided", "evaluator_failed" if case.evaluator_failures else "unscored"
    return number(case.results[score].value, f"score {score!r}", place), "ok", ""


def to_pydantic_evals(comparison: Comparison, observations: Sequence[Observation], arm: str) -> dict[str, Any]:
    """One arm of a comparison as a report, in JSON values: `EvaluationReportAdapter.validate_python` takes it.

    A rollout is a case; one that failed, a failure; an undecided one, a case whose evaluator failed. Repeated rollouts
    are runs of one case. What the comparison found about the arm stands in `experiment_metadata`. Raises ConfigError.
    """
    if arm not in comparison.names:
        raise ConfigError(
            f"the comparison has no arm {arm!r}; name one of {', '.join(map(repr, comparison.names))}",
            code="unknown_arm",
        )
    mine = [one for one in observations if one.arm == arm]
    runs = 1 + max((one.g for one in mine), default=0)
    return {
        "name": arm,
        "cases": [_case(one, runs) for one in mine if one.status in {"ok", "undecided"}],
        "failures": [_failure(one, runs) for one in mine if one.status in {"failed", "timeout"}],
        "analyses": _analyses(comparison, arm),
        "report_evaluator_failures": [],
        "experiment_metadata": _found_out(comparison, arm),
        "dataset_name": comparison.title,
    }


def _case(one: Observation, runs: int) -> dict[str, Any]:
    metrics = {
        "cost": one.cost_usd,
        "input_tokens": one.tokens_in,
        "output_tokens": one.tokens_out,
        "tool_calls": one.tool_calls,
    }
    result = {"name": "score", "value": one.score, "reason": None, "source": _SOURCE}
    undecided = {"name": "score", "error_message": one.error or "undecided", "error_stacktrace": "", "source": _SOURCE}
    return {
        **_head(one, runs),
        "output": None,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "attributes": {},
        "scores": {} if one.score is None else {"score": result},
        "labels": {},
        "assertions": {},
        "task_duration": one.seconds or 0.0,
        "total_duration": one.seconds or 0.0,
        "evaluator_failures": [undecided] if one.score is None else [],
    }


def _failure(one: Observation, runs: int) -> dict[str, Any]:
    message = _TIMEOUT if one.status == "timeout" else one.error or "failed"
    return {**_head(one, runs), "error_message": message, "error_stacktrace": ""}


def _head(one: Observation, runs: int) -> dict[str, Any]:
    told = {"cluster": one.cluster, "domain": one.domain, "tags": list(one.tags), "rollout": one.rollout}
    return {
        "name": f"{one.task} [{one.g + 1}/{runs}]" if runs > 1 else one.task,
        "inputs": one.problem,
        "metadata": {name: value for name, value in told.items() if value},
        "expected_output": None,
        "source_case_name": one.task if runs > 1 else None,
    }


def _found_out(comparison: Comparison, arm: str) -> dict[str, Any]:
    contrast = next((one for one in comparison.contrasts if one.arm == arm), None)
    about = comparison.reproducibility
    told = {
        "comparison": comparison.run,
        "simulated": comparison.simulated,
        "model": about.models.get(arm),
        "library": about.libraries.get(arm),
        "contrast": None if contrast is None else contrast.model_dump(mode="json"),
    }
    return {name: value for name, value in told.items() if value is not None and value != ""}


def _analyses(comparison: Comparison, arm: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "scalar",
            "title": f"Difference to {contrast.baseline}",
            "description": contrast.sentence or None,
            "value": contrast.mean,
            "unit": None,
        }
        for contrast in comparison.contrasts
        if contrast.arm == arm and contrast.mean is not None
    ]
