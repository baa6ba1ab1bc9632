"""Readers of tables: rows with task, arm and score; completions of TRL; samples of lm-eval.

Rows are JSON lines, CSV or Parquet. lm-eval writes one line per document and filter, with its metrics
(`samples_TASK_DATE.jsonl`).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentlearn.data.row import SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.observation import Observation
from agentlearn.types.ids import content_hash
from agentlearn_evals.formats.content import Content, Document, RowsFile, as_rows, read_content
from agentlearn_evals.formats.log_file import (
    LogFile,
    LogFormat,
    LoggedRollout,
    ParsedLog,
    Span,
    abbreviate,
    as_text,
    build_observation,
    choose_score,
    is_empty,
    is_number,
    parse_number,
    parse_optional_count,
    parse_optional_number,
    parse_texts,
    prompt_text,
    span,
)

COUNTS = ("tokens_in", "tokens_library", "tokens_out", "tool_calls")
"""Columns of whole numbers."""
NUMBERS = ("cost_usd", "seconds")
"""Columns of numbers."""
_TEXTS = ("cluster", "domain", "problem", "rollout")
"""Columns of text."""
_TIMEOUT = "timeout"
"""Status in foreign tables of a rollout that ran out of time. Nothing is known about its answer."""
_STARTED = "started_at"
"""Column that may hold when a rollout began: ISO 8601, or seconds since 1970."""
_RESPONSES = ("response", "completion", "output", "prediction")
"""Columns that may hold what the agent answered. Only whether it is empty is read."""
COLUMNS = tuple(Observation.model_fields)
"""Columns that are written. The reader also reads `model`, and may take another column as `score`."""


def _is_plain_log(content: Content) -> bool:
    """Return whether the content has a `task` or a `score` column; missing columns are reported when reading."""
    rows = as_rows(content)
    return rows is not None and bool({"task", "score"} & set(rows.columns))


def _read_plain_log(log: LogFile, content: Content) -> ParsedLog:
    """Read the rows. Raises DataError or ConfigError."""
    rows = as_rows(content)
    assert rows is not None
    file, score, columns = log.path.name, log.score or "score", rows.columns
    missing = [name for name in (("task", score) if log.arm else ("task", "arm", score)) if name not in columns]
    if missing:
        how = ", or name the arm: ARM=FILE" if missing == ["arm"] else ""
        raise DataError(
            f"{file} has no column {missing[0]!r} (it has {', '.join(map(repr, columns))}); add it{how}",
            code="missing_column",
        )
    arms = dict.fromkeys(as_text(row.fields.get("arm")) for row in rows.rows)
    if log.arm and len(arms) > 1:
        raise ConfigError(
            f"{file} holds the arms {', '.join(map(repr, arms))}, so they cannot all be named {log.arm!r}; leave the"
            " name out",
            code="several_arms",
        )
    without = [row for row in rows.rows if is_empty(row.fields.get("g"))]
    if without and len(without) < len(rows.rows):
        raise DataError(
            f"{without[0].place} has no g, but other rows have one; fill it in, or remove the column", code="bad_count"
        )
    # The column with the agent's responses, if some are filled in.
    names = [name for name in _RESPONSES if name in columns and name != score]
    response = next((name for name in names if any(not is_empty(row.fields.get(name)) for row in rows.rows)), "")
    rollouts = tuple(_rollout(log, row, score, response, numbered=not without) for row in rows.rows)
    models, moments = dict[str, str](), dict[str, list[Any]]()
    for one, row in zip(rollouts, rows.rows, strict=True):
        moments.setdefault(one.observation.arm, []).append(row.fields.get(_STARTED))
        if model := as_text(row.fields.get("model")):
            models[one.observation.arm] = model
    unread = [name for name in columns if name not in {*COLUMNS, "model", _STARTED, score}]
    notes = [f"{file}: columns not read: {', '.join(unread)}"] if unread else []
    if not rows.ends_with_line:
        notes.append(f"{file}: the last line has no line end; if the file was cut, its last value is wrong")
    return ParsedLog(
        rollouts,
        models,
        notes=tuple(notes),
        warnings=tuple(_warnings(file, rows, rollouts)),
        times={arm: ran for arm, all_moments in moments.items() if (ran := span(all_moments)) is not None},
    )


PLAIN_LOG = LogFormat("rows with task, arm and score", _is_plain_log, _read_plain_log)


def _rollout(log: LogFile, row: SourceRow, score: str, response: str, *, numbered: bool) -> LoggedRollout:
    fields, place = row.fields, row.place
    for name in ("task",) if log.arm else ("task", "arm"):
        if not as_text(fields.get(name)):
            raise DataError(f"{place} has {abbreviate(fields.get(name))} as {name}; fill it in", code="missing_value")
    status, error, value = as_text(fields.get("status")), as_text(fields.get("error")), fields.get(score)
    found: float | None = None
    if status == _TIMEOUT or (error and not status):  # nothing is known about its answer
        status, error = "undecided", error or _TIMEOUT
    elif status == "failed" and is_empty(value):
        found = 0.0
    elif status != "undecided" or not is_empty(value):
        found = parse_number(value, score, place)
    observation = build_observation(
        place,
        arm=log.arm or as_text(fields["arm"]),
        task=as_text(fields["task"]),
        g=parse_optional_count(fields.get("g"), "g", place) or 0,
        score=found,
        status=status or "ok",
        error=error,
        tags=parse_texts(fields.get("tags")),
        **{name: as_text(fields.get(name)) for name in _TEXTS},
        **{name: parse_optional_count(fields.get(name), name, place) for name in COUNTS},
        **{name: parse_optional_number(fields.get(name), name, place) for name in NUMBERS},
    )
    empty = bool(response) and observation.status == "ok" and is_empty(fields.get(response))
    return LoggedRollout(place, observation, numbered=numbered, empty=empty)


def _warnings(file: str, rows: RowsFile, rollouts: Sequence[LoggedRollout]) -> Iterator[str]:
    of = f"of {len(rollouts):,} rows"
    without = sum(bool(as_text(row.fields.get("error"))) and not as_text(row.fields.get("status")) for row in rows.rows)
    if without:
        yield (
            f"{file}: {without:,} {of} have an error and no status, so they are undecided, whatever their score; write"
            " the status 'failed' where the agent gave no usable answer"
        )
    fine = sum(one.observation.status == "ok" and bool(one.observation.error) for one in rollouts)
    if fine:
        yield f"{file}: {fine:,} {of} have an error and the status 'ok'; their scores count"


_OTHER_COLUMNS = {"step", "prompt", "completion", "advantage", "__index_level_0__"}
_STEP = re.compile(r"_\d+$")


def _is_trl_log(content: Content) -> bool:
    rows = as_rows(content)
    return rows is not None and {"step", "prompt", "completion"} <= set(rows.rows[0].fields)


def _read_trl_log(log: LogFile, content: Content) -> ParsedLog:
    """Read the completions under one reward. Raises DataError or ConfigError.

    Unless the user names the arm, every step is its own arm, because the weights differ.
    """
    rows = as_rows(content)
    assert rows is not None

    def is_reward(name: str) -> bool:
        cells = [row.fields.get(name) for row in rows.rows]
        return any(map(is_number, cells)) and all(is_number(cell) or is_empty(cell) for cell in cells)

    reward = choose_score(log, [name for name in rows.columns if name not in _OTHER_COLUMNS and is_reward(name)])
    folder = log.path.parent
    # The name of the trainer's output folder, or else the file name without its step.
    in_folder = folder.name == "completions" and folder.parent.name
    run = folder.parent.name if in_folder else _STEP.sub("", log.path.stem)
    rollouts: list[LoggedRollout] = []
    for row in rows.rows:
        step = parse_optional_count(row.fields.get("step"), "step", row.place)
        prompt, completion = row.fields.get("prompt"), row.fields.get("completion")
        lost = completion is None or completion != completion
        observation = build_observation(
            row.place,
            arm=log.arm or f"{run}@{step or 0}",
            task=content_hash(as_text(prompt))[:12],
            score=None if lost else parse_number(row.fields.get(reward), f"reward {reward!r}", row.place),
            status="undecided" if lost else "ok",
            error="no_completion" if lost else "",
            problem=prompt_text(prompt),
            rollout=row.where,
        )
        empty = not lost and not _has_answer(completion)
        rollouts.append(LoggedRollout(row.place, observation, numbered=False, empty=empty))
    return ParsedLog(tuple(rollouts))


TRL_LOG = LogFormat("completions of TRL", _is_trl_log, _read_trl_log)


def _has_answer(completion: object) -> bool:
    """Return whether a completion, a text or a list of messages, has a text or a tool call."""
    if not isinstance(completion, Sequence) or isinstance(completion, str):
        return not is_empty(completion)
    messages = [one for one in completion if isinstance(one, Mapping)]
    return any(not is_empty(one.get("content")) or one.get("tool_calls") for one in messages)


_FILE = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)")
_QUESTION_FIELDS = ("question", "problem", "query", "prompt")
_NO_FILTER = "none"
_INVALID = "[invalid]"
"""What lm-eval's filters give when they find no answer in a response."""


def _is_lm_eval_log(content: Content) -> bool:
    rows = as_rows(content)
    return rows is not None and {"doc_id", "metrics"} <= set(rows.rows[0].fields)


def _read_lm_eval_log(log: LogFile, content: Content) -> ParsedLog:
    """Read the documents of one file under one metric and filter. Raises DataError or ConfigError."""
    rows = as_rows(content)
    assert rows is not None
    file, named = log.path.name, _FILE.fullmatch(log.path.stem)
    task, date = (named["task"], named["date"]) if named else (log.path.stem, "")
    results = _results(log.path, date)
    model = as_text(results.get("model_name"))
    arm = log.arm or model or log.path.stem
    metric, filter_name = _choose_metric(log, rows.rows)
    directions = _of(results, "higher_is_better", task)
    if directions.get(metric) is False:
        raise DataError(
            f"in {file} a smaller {metric!r} is better, but compare needs a score where larger is better; choose"
            f" another metric ({json.dumps(list(directions))})",
            code="smaller_is_better",
        )
    chosen = [row for row in rows.rows if row.fields.get("filter", _NO_FILTER) == filter_name]
    documents = len({as_text(row.fields.get("doc_id")) for row in chosen})
    planned = _of(results, "n-samples", task).get("effective")
    missing = isinstance(planned, int) and documents < planned
    unread = sum(row.fields.get("filtered_resps") in (_INVALID, [_INVALID]) for row in chosen)
    note = f"{file}: in {unread:,} of {len(chosen):,} responses the filter found no answer ({_INVALID})"
    ran = _ran(date, results)
    return ParsedLog(
        tuple(_document(row, arm, task, metric) for row in chosen),
        {arm: model} if model else {},
        notes=(note,) if unread else (),
        warnings=(f"{file}: only {documents:,} of {planned:,} documents are in the log",) if missing else (),
        times={} if ran is None else {arm: ran},
    )


LM_EVAL_LOG = LogFormat("samples of lm-eval", _is_lm_eval_log, _read_lm_eval_log)


def _choose_metric(log: LogFile, rows: Sequence[SourceRow]) -> tuple[str, str]:
    """Return the metric to use and its filter. Written `METRIC`, or `METRIC,FILTER` when there are several filters."""
    pairs: dict[tuple[str, str], None] = {}
    for row in rows:
        listed = row.fields.get("metrics")
        if not isinstance(listed, list):
            raise DataError(
                f"{row.place} has {abbreviate(listed)} as 'metrics', not a list; write the samples again",
                code="bad_log",
            )
        numbers = (name for name in map(str, listed) if is_number(row.fields.get(name)))
        pairs |= dict.fromkeys((name, as_text(row.fields.get("filter", _NO_FILTER))) for name in numbers)
    several = len({filter_name for _, filter_name in pairs}) > 1
    names = {f"{metric},{filter_name}" if several else metric: (metric, filter_name) for metric, filter_name in pairs}
    if log.score and not several:
        log = log.model_copy(update={"score": log.score.partition(",")[0]})
    return names[choose_score(log, tuple(names))]


def _document(row: SourceRow, arm: str, task: str, metric: str) -> LoggedRollout:
    fields, listed = row.fields, row.fields.get("resps")
    responses: list[Any] | None = None  # one for each request and repeat; None when the row does not say
    if isinstance(listed, list):
        responses = [one for request in listed for one in (request if isinstance(request, list) else [request])]
    lost = responses is not None and all(one is None for one in responses)
    if metric not in fields and not lost:
        raise DataError(f"{row.place} has no {metric!r}; write the samples again", code="missing_column")
    observation = build_observation(
        row.place,
        arm=arm,
        # With the hash, documents with the same id but other content are different tasks.
        task="/".join(filter(None, (task, as_text(fields.get("doc_id")), as_text(fields.get("doc_hash"))[:8]))),
        score=None if lost else parse_number(fields[metric], f"metric {metric!r}", row.place),
        status="undecided" if lost else "ok",
        error="no_response" if lost else "",
        domain=task,
        problem=_problem(fields),
        rollout=row.where,
    )
    empty = not lost and responses is not None and all(map(is_empty, responses))
    return LoggedRollout(row.place, observation, numbered=False, empty=empty)


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
    content = read_content(results) if date and results.is_file() else None
    return content.value if isinstance(content, Document) else {}


def _of(results: Mapping[str, Any], name: str, task: str) -> Mapping[str, Any]:
    """Return what a field of the results says of the task; empty when it says nothing."""
    by_task = results.get(name)
    found = by_task.get(task) if isinstance(by_task, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _ran(date: str, results: Mapping[str, Any]) -> Span | None:
    """Return when the evaluation ran. The file's name says when it ended, and the results file how long it took."""
    day, _, clock = date.partition("T")
    ended = span([f"{day}T{clock.replace('-', ':')}"])
    took = as_text(results.get("total_evaluation_time_seconds"))
    seconds = float(took) if re.fullmatch(r"\d+(\.\d+)?", took) else 0.0
    return ended and (ended[0] - timedelta(seconds=seconds), ended[1])
