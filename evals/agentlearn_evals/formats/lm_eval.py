"""Samples of lm-eval (`samples_TASK_DATE.jsonl`): a line per document and filter, with the document's metrics."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlearn.data.row import SourceRow
from agentlearn.errors import DataError
from agentlearn_evals.formats.content import Content, Document, content_of, rows_of
from agentlearn_evals.formats.fields import choose, is_number, number, observe, said, short, text
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog

NAME = "samples of lm-eval"

_FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)")
_ASKED = ("question", "problem", "query", "prompt")
_NO_FILTER = "none"


def fits(content: Content) -> bool:
    """Whether it is one."""
    rows = rows_of(content)
    return rows is not None and {"doc_id", "metrics"} <= set(rows.rows[0].fields)


def read(log: LogFile, content: Content) -> ParsedLog:
    """The documents of one file under one metric and filter. Raises DataError, ConfigError."""
    rows = rows_of(content)
    assert rows is not None
    named = _FILE.fullmatch(log.path.stem)
    task = named["task"] if named else log.path.stem
    results = _results(log.path, named["date"] if named else "")
    model = text(results.get("model_name")) or ""
    arm = log.arm or model or log.path.stem
    metric, kept_by = _chosen(log, rows.rows)
    _demand_more_is_better(log, results, task, metric)
    found = tuple(
        _found(row, arm, task, metric) for row in rows.rows if row.fields.get("filter", _NO_FILTER) == kept_by
    )
    return ParsedLog(found, {arm: model} if model else {})


def _chosen(log: LogFile, rows: Sequence[SourceRow]) -> tuple[str, str]:
    """The metric that counts and its filter; written `METRIC`, or `METRIC,FILTER` where there are several filters."""
    pairs = dict.fromkeys((metric, _filter(row)) for row in rows for metric in _metrics(row))
    several = len({kept_by for _, kept_by in pairs}) > 1
    names = {f"{metric},{kept_by}" if several else metric: (metric, kept_by) for metric, kept_by in pairs}
    if log.score and not several:
        log = log.model_copy(update={"score": log.score.partition(",")[0]})
    return names[choose(log, tuple(names))]


def _metrics(row: SourceRow) -> list[str]:
    listed = row.fields.get("metrics")
    if not isinstance(listed, list):
        raise DataError(
            f"{row.place} has {short(listed)} as 'metrics', which is no list; write the samples again", code="bad_log"
        )
    return [str(name) for name in listed if is_number(row.fields.get(str(name)))]


def _filter(row: SourceRow) -> str:
    return text(row.fields.get("filter", _NO_FILTER))


def _found(row: SourceRow, arm: str, task: str, metric: str) -> LoggedRollout:
    if metric not in row.fields:
        raise DataError(f"{row.place} has no {metric!r}; write the samples again", code="missing_column")
    document, hashed = row.fields.get("doc_id"), text(row.fields.get("doc_hash"))[:8]
    observation = observe(
        row.place,
        arm=arm,
        task="/".join(filter(None, (task, text(document), hashed))),  # documents that differ are no pair
        score=number(row.fields[metric], f"metric {metric!r}", row.place),
        domain=task,
        problem=_problem(row.fields),
        rollout=row.where,
    )
    return LoggedRollout(row.place, observation, numbered=False)


def _problem(fields: Mapping[str, Any]) -> str:
    document = fields.get("doc")
    if isinstance(document, Mapping):
        asked = next((document[name] for name in _ASKED if isinstance(document.get(name), str)), None)
        if asked is not None:
            return text(asked)
    try:
        return said(fields["arguments"]["gen_args_0"]["arg_0"])
    except (KeyError, TypeError, IndexError):
        return ""


def _results(samples: Path, date: str) -> dict[str, Any]:
    """What the file of results says that was written with the samples; empty where there is none."""
    beside = samples.with_name(f"results_{date}.json")
    if not date or not beside.is_file():
        return {}
    content = content_of(beside)
    return content.value if isinstance(content, Document) else {}


def _demand_more_is_better(log: LogFile, results: Mapping[str, Any], task: str, metric: str) -> None:
    directions = results.get("higher_is_better")
    of_task = directions.get(task) if isinstance(directions, Mapping) else None
    if isinstance(of_task, Mapping) and of_task.get(metric) is False:
        raise DataError(
            f"{log.path.name} is better where {metric!r} is smaller, and scores are compared as better where larger;"
            f" choose another metric ({json.dumps(list(of_task))})",
            code="smaller_is_better",
        )
