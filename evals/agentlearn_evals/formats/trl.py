"""Completions that TRL's GRPOTrainer logs (`log_completions`): a row per completion, with a column per reward."""

import re

from agentlearn.data.row import SourceRow
from agentlearn.types.ids import content_hash
from agentlearn_evals.formats.content import Content, RowsFile, rows_of
from agentlearn_evals.formats.fields import choose, is_number, nothing, number, observe, optional_count, said, text
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog

NAME = "completions of TRL"

_NO_REWARD = {"step", "prompt", "completion", "advantage", "__index_level_0__"}
_STEP = re.compile(r"_\d+$")


def fits(content: Content) -> bool:
    """Whether it is one."""
    rows = rows_of(content)
    return rows is not None and {"step", "prompt", "completion"} <= set(rows.rows[0].fields)


def read(log: LogFile, content: Content) -> ParsedLog:
    """The completions under one reward. Every step is an arm of its own unless one is named: the weights differ.

    Raises DataError, ConfigError.
    """
    rows = rows_of(content)
    assert rows is not None
    reward = choose(log, [name for name in rows.columns if name not in _NO_REWARD and _is_reward(rows, name)])
    return ParsedLog(tuple(_found(log, row, reward) for row in rows.rows))


def _is_reward(rows: RowsFile, name: str) -> bool:
    cells = [row.fields.get(name) for row in rows.rows]
    return any(map(is_number, cells)) and all(is_number(cell) or nothing(cell) for cell in cells)


def _found(log: LogFile, row: SourceRow, reward: str) -> LoggedRollout:
    step = optional_count(row.fields.get("step"), "step", row.place)
    prompt = row.fields.get("prompt")
    observation = observe(
        row.place,
        arm=log.arm or f"{_run(log)}@{0 if step is None else step}",
        task=content_hash(text(prompt))[:12],
        score=number(row.fields.get(reward), f"reward {reward!r}", row.place),
        problem=said(prompt),
        rollout=row.where,
    )
    return LoggedRollout(row.place, observation, numbered=False)


def _run(log: LogFile) -> str:
    """The folder that the trainer wrote to, or the file's name without its step."""
    folder = log.path.parent
    if folder.name == "completions" and folder.parent.name:
        return folder.parent.name
    return _STEP.sub("", log.path.stem)
