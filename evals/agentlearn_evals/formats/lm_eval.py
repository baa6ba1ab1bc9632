"""Reader of lm-eval samples (`samples_TASK_DATE.jsonl`): one line per document and filter, with its metrics."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError
from agentlearn_evals.formats.content import Content, Document, as_rows, read_content
from agentlearn_evals.formats.fields import (
    abbreviate,
    as_text,
    build_observation,
    choose_score,
    is_empty,
    is_number,
    parse_number,
    prompt_text,
)
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog, Span, span
from agentlearn_evals.formats.log_format import LogFormat

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)")
_QUESTION_FIELDS = ("question", "problem", "query", "prompt")
_NO_FILTER = "none"
_INVALID = "[invalid]"
"""What lm-eval's filters give when they find no answer in a response."""


def is_lm_eval_log(content: Content) -> bool:
    """Return whether the content is a samples file of lm-eval."""
    rows = as_rows(content)
    return rows is not None and {"doc_id", "metrics"} <= set(rows.rows[0].fields)


def read_lm_eval_log(log: LogFile, content: Content) -> ParsedLog:
    """Read the documents of one file under one metric and filter. Raises DataError or ConfigError."""
    rows = as_rows(content)
    assert rows is not None
    named = _FILE.fullmatch(log.path.stem)
    task = named["task"] if named else log.path.stem
    results = _results(log.path, named["date"] if named else "")
    model = as_text(results.get("model_name")) or ""
    arm = log.arm or model or log.path.stem
    metric, filter_name = _choose_metric(log, rows.rows)
    _demand_more_is_better(log, results, task, metric)
    chosen = tuple(row for row in rows.rows if row.fields.get("filter", _NO_FILTER) == filter_name)
    rollouts = tuple(_rollout(row, arm, task, metric) for row in chosen)
    return ParsedLog(
        rollouts,
        {arm: model} if model else {},
        tuple(_notes(log, chosen)),
        tuple(_warnings(log, results, task, len({as_text(row.fields.get("doc_id")) for row in chosen}))),
        {} if (ran := _ran(named["date"] if named else "", results)) is None else {arm: ran},
    )


LM_EVAL_LOG = LogFormat("samples of lm-eval", is_lm_eval_log, read_lm_eval_log)


def _choose_metric(log: LogFile, rows: Sequence[SourceRow]) -> tuple[str, str]:
    """Return the metric to use and its filter. Written `METRIC`, or `METRIC,FILTER` when there are several filters."""
    pairs = dict.fromkeys((metric, _filter(row)) for row in rows for metric in _metrics(row))
    several = len({filter_name for _, filter_name in pairs}) > 1
    names = {f"{metric},{filter_name}" if several else metric: (metric, filter_name) for metric, filter_name in pairs}
    if log.score and not several:
        log = log.model_copy(update={"score": log.score.partition(",")[0]})
    return names[choose_score(log, tuple(names))]


def _metrics(row: SourceRow) -> list[str]:
    listed = row.fields.get("metrics")
    if not isinstance(listed, list):
        raise DataError(
            f"{row.place} has {abbreviate(listed)} as 'metrics', not a list; write the samples again", code="bad_log"
        )
    return [str(name) for name in listed if is_number(row.fields.get(str(name)))]


def _filter(row: SourceRow) -> str:
    return as_text(row.fields.get("filter", _NO_FILTER))


def _rollout(row: SourceRow, arm: str, task: str, metric: str) -> LoggedRollout:
    document, document_hash = row.fields.get("doc_id"), as_text(row.fields.get("doc_hash"))[:8]
    responses = _responses(row.fields)
    lost = responses is not None and all(one is None for one in responses)
    if metric not in row.fields and not lost:
        raise DataError(f"{row.place} has no {metric!r}; write the samples again", code="missing_column")
    observation = build_observation(
        row.place,
        arm=arm,
        # With the hash, documents with the same id but other content are different tasks.
        task="/".join(filter(None, (task, as_text(document), document_hash))),
        score=None if lost else parse_number(row.fields[metric], f"metric {metric!r}", row.place),
        status="undecided" if lost else "ok",
        error="no_response" if lost else "",
        domain=task,
        problem=_problem(row.fields),
        rollout=row.where,
    )
    empty = not lost and responses is not None and all(map(is_empty, responses))
    return LoggedRollout(row.place, observation, numbered=False, empty=empty)


def _responses(fields: Mapping[str, Any]) -> list[Any] | None:
    """Return what the model answered, one for each request and repeat; None when the row does not say.

    A request without a response is None. Empty when the log holds no response at all.
    """
    responses = fields.get("resps")
    if not isinstance(responses, list):
        return None
    return [one for request in responses for one in (request if isinstance(request, list) else [request])]


def _notes(log: LogFile, rows: Sequence[SourceRow]) -> Iterator[str]:
    unread = sum(row.fields.get("filtered_resps") in (_INVALID, [_INVALID]) for row in rows)
    if unread:
        yield f"{log.path.name}: in {unread:,} of {len(rows):,} responses the filter found no answer ({_INVALID})"


def _warnings(log: LogFile, results: Mapping[str, Any], task: str, documents: int) -> Iterator[str]:
    counts = results.get("n-samples")
    of_task = counts.get(task) if isinstance(counts, Mapping) else None
    planned = of_task.get("effective") if isinstance(of_task, Mapping) else None
    if isinstance(planned, int) and documents < planned:
        yield f"{log.path.name}: only {documents:,} of {planned:,} documents are in the log"


def _problem(fields: Mapping[str, Any]) -> str:
    document = fields.get("doc")
    if isinstance(document, Mapping):
        question = next((document[name] for name in _QUESTION_FIELDS if isinstance(document.get(name), str)), None)
        if question is not None:
            return as_text(question)
    try:
        return prompt_text(fields["arguments"]["gen_args_0"]["arg_0"])
    except (KeyError, TypeError, IndexError):
        return ""


def _results(samples: Path, date: str) -> dict[str, Any]:
    """Return the content of the results file that was written with the samples; empty when there is none."""
    results = samples.with_name(f"results_{date}.json")
    if not date or not results.is_file():
        return {}
    content = read_content(results)
    return content.value if isinstance(content, Document) else {}


def _ran(date: str, results: Mapping[str, Any]) -> Span | None:
    """Return when the evaluation ran. The file's name says when it ended, and the results file how long it took."""
    day, _, clock = date.partition("T")
    ended = span([f"{day}T{clock.replace('-', ':')}"])
    took = as_text(results.get("total_evaluation_time_seconds"))
    seconds = float(took) if re.fullmatch(r"\d+(\.\d+)?", took) else 0.0
    return ended and (ended[0] - timedelta(seconds=seconds), ended[1])


def _demand_more_is_better(log: LogFile, results: Mapping[str, Any], task: str, metric: str) -> None:
    directions = results.get("higher_is_better")
    of_task = directions.get(task) if isinstance(directions, Mapping) else None
    if isinstance(of_task, Mapping) and of_task.get(metric) is False:
        raise DataError(
            f"in {log.path.name} a smaller {metric!r} is better, but compare needs a score where larger is better;"
            f" choose another metric ({json.dumps(list(of_task))})",
            code="smaller_is_better",
        )
