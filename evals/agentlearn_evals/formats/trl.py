"""Reader of the completions that TRL's GRPOTrainer logs: one row per completion, one column per reward."""

import re
from collections.abc import Mapping, Sequence

from agentlearn.data.row import SourceRow
from agentlearn.types.ids import content_hash
from agentlearn_evals.formats.content import Content, RowsFile, as_rows
from agentlearn_evals.formats.fields import (
    as_text,
    build_observation,
    choose_score,
    is_empty,
    is_number,
    parse_number,
    parse_optional_count,
    prompt_text,
)
from agentlearn_evals.formats.log_file import LogFile, LoggedRollout, ParsedLog
from agentlearn_evals.formats.log_format import LogFormat

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
    return ParsedLog(tuple(_rollout(log, row, reward) for row in rows.rows))


TRL_LOG = LogFormat("completions of TRL", is_trl_log, read_trl_log)


def _is_reward(rows: RowsFile, name: str) -> bool:
    cells = [row.fields.get(name) for row in rows.rows]
    return any(map(is_number, cells)) and all(is_number(cell) or is_empty(cell) for cell in cells)


def _rollout(log: LogFile, row: SourceRow, reward: str) -> LoggedRollout:
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
