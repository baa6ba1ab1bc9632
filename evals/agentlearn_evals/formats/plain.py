"""Reader of plain tables: JSON lines, CSV or Parquet with the columns task, arm and score, and optional others."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentlearn.data.row import SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn.measure.observation import Observation
from agentlearn.types.ids import content_hash
from agentlearn_evals.formats.content import Content, RowsFile, as_rows
from agentlearn_evals.formats.fields import (
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
)
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog, Span, span
from agentlearn_evals.formats.log_format import LogFormat

COUNTS = ("tokens_in", "tokens_library", "tokens_out", "tool_calls")
"""Columns of whole numbers."""
NUMBERS = ("cost_usd", "seconds")
"""Columns of numbers."""
TEXTS = ("cluster", "domain", "problem", "rollout")
"""Columns of text."""
TIMEOUT = "timeout"
"""Status in foreign tables of a rollout that ran out of time. Nothing is known about its answer."""
STARTED = "started_at"
"""Column that may hold when a rollout began: ISO 8601, or seconds since 1970."""
RESPONSES = ("response", "completion", "output", "prediction")
"""Columns that may hold what the agent answered. Only whether it is empty is read."""
COLUMNS = tuple(Observation.model_fields)
"""Columns that are written. The reader also reads `model`, and may take another column as `score`."""


def is_plain_log(content: Content) -> bool:
    """Return whether the content has a `task` or a `score` column; missing columns are reported when reading."""
    rows = as_rows(content)
    return rows is not None and bool({"task", "score"} & set(rows.columns))


def read_plain_log(log: LogFile, content: Content) -> ParsedLog:
    """Read the rows. Raises DataError or ConfigError."""
    rows = as_rows(content)
    assert rows is not None
    score = log.score or "score"
    _demand_columns(log, rows, score)
    _demand_one_arm(log, rows)
    numbered = _is_numbered(rows)
    response = _response_column(rows, score)
    rollouts = tuple(_rollout(log, row, score, response, numbered=numbered) for row in rows.rows)
    return ParsedLog(
        rollouts,
        _models(rows, rollouts),
        tuple(_notes(log, rows, score)),
        tuple(_warnings(log, rows, rollouts)),
        _times(rows, rollouts),
    )


PLAIN_LOG = LogFormat("rows with task, arm and score", is_plain_log, read_plain_log)


def _demand_columns(log: LogFile, rows: RowsFile, score: str) -> None:
    required = ["task", score] if log.arm else ["task", "arm", score]
    missing = [name for name in required if name not in rows.columns]
    if missing:
        how = ", or name the arm: ARM=FILE" if missing == ["arm"] else ""
        raise DataError(
            f"{log.path.name} has no column {missing[0]!r} (it has {', '.join(map(repr, rows.columns))}); add it{how}",
            code="missing_column",
        )


def _is_numbered(rows: RowsFile) -> bool:
    """Return whether the rows have a g. Raises DataError when only some have one."""
    without = [row for row in rows.rows if is_empty(row.fields.get("g"))]
    if without and len(without) < len(rows.rows):
        raise DataError(
            f"{without[0].place} has no g, but other rows have one; fill it in, or remove the column", code="bad_count"
        )
    return not without


def _demand_one_arm(log: LogFile, rows: RowsFile) -> None:
    arms = dict.fromkeys(as_text(row.fields.get("arm")) for row in rows.rows)
    if log.arm and len(arms) > 1:
        raise ConfigError(
            f"{log.path.name} holds the arms {', '.join(map(repr, arms))}, so they cannot all be named {log.arm!r};"
            " leave the name out",
            code="several_arms",
        )


def _response_column(rows: RowsFile, score: str) -> str:
    """Return the column with the agent's responses, if some are filled in; else empty."""
    names = [name for name in RESPONSES if name in rows.columns and name != score]
    return next((name for name in names if any(not is_empty(row.fields.get(name)) for row in rows.rows)), "")


def _rollout(log: LogFile, row: SourceRow, score: str, response: str, *, numbered: bool) -> LoggedRollout:
    fields, place = row.fields, row.place
    for name in ("task",) if log.arm else ("task", "arm"):
        if not as_text(fields.get(name)):
            raise DataError(f"{place} has {abbreviate(fields.get(name))} as {name}; fill it in", code="missing_value")
    observation = build_observation(
        place,
        arm=log.arm or as_text(fields["arm"]),
        task=as_text(fields["task"]),
        g=parse_optional_count(fields.get("g"), "g", place) or 0,
        score=_score(fields, score, place),
        **_status(fields),
        tags=parse_texts(fields.get("tags")),
        **{name: as_text(fields.get(name)) for name in TEXTS},
        **{name: parse_optional_count(fields.get(name), name, place) for name in COUNTS},
        **{name: parse_optional_number(fields.get(name), name, place) for name in NUMBERS},
    )
    empty = bool(response) and observation.status == "ok" and is_empty(fields.get(response))
    return LoggedRollout(place, observation, numbered=numbered, empty=empty)


def _status(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of a row and its error code.

    A rollout that ran out of time is undecided, and so is one with an error and no status.
    """
    status, error = as_text(fields.get("status")), as_text(fields.get("error"))
    if status == TIMEOUT or (error and not status):
        return {"status": "undecided", "error": error or TIMEOUT}
    return {"status": status or "ok", "error": error}


def _score(fields: Mapping[str, Any], name: str, place: str) -> float | None:
    status, value = as_text(fields.get("status")), fields.get(name)
    if status == TIMEOUT or (status == "undecided" and is_empty(value)):
        return None
    if not status and as_text(fields.get("error")):
        return None
    if status == "failed" and is_empty(value):
        return 0.0
    return parse_number(value, name, place)


def _models(rows: RowsFile, rollouts: tuple[LoggedRollout, ...]) -> dict[str, str]:
    arms = (one.observation.arm for one in rollouts)
    models = (as_text(row.fields.get("model")) for row in rows.rows)
    return {arm: model for arm, model in zip(arms, models, strict=True) if model}


def _times(rows: RowsFile, rollouts: tuple[LoggedRollout, ...]) -> dict[str, Span]:
    by_arm: dict[str, list[Any]] = {}
    for one, row in zip(rollouts, rows.rows, strict=True):
        by_arm.setdefault(one.observation.arm, []).append(row.fields.get(STARTED))
    spans = {arm: span(moments) for arm, moments in by_arm.items()}
    return {arm: ran for arm, ran in spans.items() if ran is not None}


def _warnings(log: LogFile, rows: RowsFile, rollouts: tuple[LoggedRollout, ...]) -> Iterator[str]:
    without = sum(bool(as_text(row.fields.get("error"))) and not as_text(row.fields.get("status")) for row in rows.rows)
    if without:
        yield (
            f"{log.path.name}: {without:,} of {len(rollouts):,} rows have an error and no status, so they are"
            " undecided, whatever their score; write the status 'failed' where the agent gave no usable answer"
        )
    fine = sum(one.observation.status == "ok" and bool(one.observation.error) for one in rollouts)
    if fine:
        rows_of = f"{fine:,} of {len(rollouts):,} rows"
        yield f"{log.path.name}: {rows_of} have an error and the status 'ok'; their scores count"


def _notes(log: LogFile, rows: RowsFile, score: str) -> list[str]:
    unread = [name for name in rows.columns if name not in {*COLUMNS, "model", STARTED, score}]
    notes = [f"{log.path.name}: columns not read: {', '.join(unread)}"] if unread else []
    if not rows.ends_with_line:
        notes.append(f"{log.path.name}: the last line has no line end; if the file was cut, its last value is wrong")
    return notes


_OTHER_COLUMNS = {"step", "prompt", "completion", "advantage", "__index_level_0__"}
_STEP = re.compile(r"_\d+$")


def is_trl_log(content: Content) -> bool:
    """Return whether the content is a TRL log of completions."""
    rows = as_rows(content)
    return rows is not None and {"step", "prompt", "completion"} <= set(rows.rows[0].fields)


def read_trl_log(log: LogFile, content: Content) -> ParsedLog:
    """Read the completions under one reward. Raises DataError or ConfigError.

    Unless the user names the arm, every step is its own arm, because the weights differ.
    """
    rows = as_rows(content)
    assert rows is not None
    reward = choose_score(log, [name for name in rows.columns if name not in _OTHER_COLUMNS and _is_reward(rows, name)])
    return ParsedLog(tuple(_trl_rollout(log, row, reward) for row in rows.rows))


TRL_LOG = LogFormat("completions of TRL", is_trl_log, read_trl_log)


def _is_reward(rows: RowsFile, name: str) -> bool:
    cells = [row.fields.get(name) for row in rows.rows]
    return any(map(is_number, cells)) and all(is_number(cell) or is_empty(cell) for cell in cells)


def _trl_rollout(log: LogFile, row: SourceRow, reward: str) -> LoggedRollout:
    step = parse_optional_count(row.fields.get("step"), "step", row.place)
    prompt, completion = row.fields.get("prompt"), row.fields.get("completion")
    lost = completion is None or completion != completion
    observation = build_observation(
        row.place,
        arm=log.arm or f"{_run_name(log)}@{0 if step is None else step}",
        task=content_hash(as_text(prompt))[:12],
        score=None if lost else parse_number(row.fields.get(reward), f"reward {reward!r}", row.place),
        status="undecided" if lost else "ok",
        error="no_completion" if lost else "",
        problem=prompt_text(prompt),
        rollout=row.where,
    )
    return LoggedRollout(row.place, observation, numbered=False, empty=not lost and not _has_answer(completion))


def _has_answer(completion: object) -> bool:
    """Return whether a completion, a text or a list of messages, has a text or a tool call."""
    if not isinstance(completion, Sequence) or isinstance(completion, str):
        return not is_empty(completion)
    messages = [one for one in completion if isinstance(one, Mapping)]
    return any(not is_empty(one.get("content")) or one.get("tool_calls") for one in messages)


def _run_name(log: LogFile) -> str:
    """Return the name of the trainer's output folder, or else the file name without its step."""
    folder = log.path.parent
    if folder.name == "completions" and folder.parent.name:
        return folder.parent.name
    return _STEP.sub("", log.path.stem)
