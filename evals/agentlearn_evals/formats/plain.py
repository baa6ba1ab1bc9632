"""Rows of our own layout: JSON lines, CSV or Parquet with the columns task, arm and score, and what else is known."""

from collections.abc import Mapping
from typing import Any

from agentlearn.data.row import SourceRow
from agentlearn.errors import ConfigError, DataError
from agentlearn_evals.formats.content import Content, RowsFile, rows_of
from agentlearn_evals.formats.fields import (
    nothing,
    number,
    observe,
    optional_count,
    optional_number,
    short,
    text,
    texts,
)
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog
from agentlearn_evals.observation import Observation

NAME = "rows with task, arm and score"

COUNTS = ("tokens_in", "tokens_library", "tokens_out", "tool_calls")
NUMBERS = ("cost_usd", "seconds")
TEXTS = ("error", "cluster", "domain", "problem", "rollout")
COLUMNS = tuple(Observation.model_fields)
"""The columns that are written; `model` is read besides, and `score` may be another column."""


def fits(content: Content) -> bool:
    """Whether it is one: a task or a score is there, and what is missing can be said."""
    rows = rows_of(content)
    return rows is not None and bool({"task", "score"} & set(rows.columns))


def read(log: LogFile, content: Content) -> ParsedLog:
    """The rows. Raises DataError, ConfigError."""
    rows = rows_of(content)
    assert rows is not None
    score = log.score or "score"
    _demand_columns(log, rows, score)
    _demand_one_arm(log, rows)
    numbered = _is_numbered(rows)
    found = tuple(_found(log, row, score, numbered=numbered) for row in rows.rows)
    return ParsedLog(found, _models(rows, found), tuple(_notes(log, rows, score)))


def _demand_columns(log: LogFile, rows: RowsFile, score: str) -> None:
    wanted = ["task", score] if log.arm else ["task", "arm", score]
    missing = [name for name in wanted if name not in rows.columns]
    if missing:
        how = "; or name the arm: ARM=FILE" if missing == ["arm"] else ""
        raise DataError(
            f"{log.path.name} has no column {missing[0]!r} (it has {', '.join(map(repr, rows.columns))}); add it{how}",
            code="missing_column",
        )


def _is_numbered(rows: RowsFile) -> bool:
    """Whether the rows carry g. Raises DataError where some do and some do not."""
    bare = [row for row in rows.rows if nothing(row.fields.get("g"))]
    if bare and len(bare) < len(rows.rows):
        raise DataError(
            f"{bare[0].place} has no g while other rows have one; fill it, or leave out the column", code="bad_count"
        )
    return not bare


def _demand_one_arm(log: LogFile, rows: RowsFile) -> None:
    arms = dict.fromkeys(text(row.fields.get("arm")) for row in rows.rows)
    if log.arm and len(arms) > 1:
        raise ConfigError(
            f"{log.path.name} holds the arms {', '.join(map(repr, arms))}, which cannot all be called {log.arm!r};"
            " leave out the name",
            code="several_arms",
        )


def _found(log: LogFile, row: SourceRow, score: str, *, numbered: bool) -> LoggedRollout:
    fields, place = row.fields, row.place
    for name in ("task",) if log.arm else ("task", "arm"):
        if not text(fields.get(name)):
            raise DataError(f"{place} has {short(fields.get(name))} as {name}; fill it", code="missing_value")
    observation = observe(
        place,
        arm=log.arm or text(fields["arm"]),
        task=text(fields["task"]),
        g=optional_count(fields.get("g"), "g", place) or 0,
        score=_score(fields, score, place),
        status=text(fields.get("status")) or "ok",
        tags=texts(fields.get("tags")),
        **{name: text(fields.get(name)) for name in TEXTS},
        **{name: optional_count(fields.get(name), name, place) for name in COUNTS},
        **{name: optional_number(fields.get(name), name, place) for name in NUMBERS},
    )
    return LoggedRollout(place, observation, numbered=numbered)


def _score(fields: Mapping[str, Any], name: str, place: str) -> float | None:
    status, value = text(fields.get("status")), fields.get(name)
    if status == "undecided" and nothing(value):
        return None
    if status in {"failed", "timeout"} and nothing(value):
        return 0.0
    return number(value, name, place)


def _models(rows: RowsFile, found: tuple[LoggedRollout, ...]) -> dict[str, str]:
    told = ((one.observation.arm, text(row.fields.get("model"))) for row, one in zip(rows.rows, found, strict=True))
    return {arm: model for arm, model in told if model}


def _notes(log: LogFile, rows: RowsFile, score: str) -> list[str]:
    unread = [name for name in rows.columns if name not in {*COLUMNS, "model", score}]
    return [f"{log.path.name}: columns not read: {', '.join(unread)}"] if unread else []
