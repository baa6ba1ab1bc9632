"""Stored rollouts as lines for other trainers: OpenAI chat, and TRL's conversational prompt and completion."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from agentlearn.errors import DataError
from agentlearn.exchange.chat import Chat, to_chat
from agentlearn.ids import RolloutId
from agentlearn.store import Selection, StoreReader, WholeRollout
from agentlearn.store.files import put
from agentlearn.store.parquet import nothing_selected

LineFormat = Literal["openai-jsonl", "trl-jsonl"]

_PAGE = 64
"""Rollouts read at once."""


def export_lines(reader: StoreReader, selection: Selection, out: Path, form: LineFormat) -> int:
    """Write one line per selected rollout to a file, in place of an older one; how many.

    openai-jsonl: `messages`, `reward` (null where there is none), and where the rollout comes from.
    trl-jsonl: `prompt` (up to the first answer), `completion` (all after it), `reward`; arguments of tool calls are
    objects there. Rollouts without a message of the model are left out of it, for they have no completion.

    Raises DataError where nothing is selected, a rollout holds what chat has no form for, or the file cannot be
    written; StoreError.
    """
    rollouts = [one.id for one in reader.selected(selection)]
    draft = out.with_name(f".{out.name}.{os.getpid()}.draft")
    count = 0
    try:
        with draft.open("w", encoding="ascii") as stream:
            for line in _lines(reader, rollouts, _FORMS[form]):
                stream.write(json.dumps(line, allow_nan=False) + "\n")
                count += 1
        if not count:
            raise nothing_selected()
        put(draft, out)
    except OSError as error:
        raise DataError(f"{str(out)!r} cannot be written: {error}; give another --out", code="bad_out") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _lines(
    reader: StoreReader, rollouts: Sequence[RolloutId], form: Callable[[WholeRollout, Chat], Mapping[str, Any] | None]
) -> Iterator[Mapping[str, Any]]:
    for at in range(0, len(rollouts), _PAGE):
        for one in reader.whole(rollouts[at : at + _PAGE]):
            try:
                line = form(one, to_chat(one.messages))
            except DataError as error:
                raise DataError(f"rollout {one.trajectory.id}: {error}", code=error.code) from error
            if line is not None:
                yield line


def _openai(rollout: WholeRollout, chat: Chat) -> Mapping[str, Any]:
    trajectory = rollout.trajectory
    return {
        "messages": chat,
        "reward": trajectory.reward,
        "answer": trajectory.answer,
        "rollout": trajectory.id,
        "run": trajectory.run,
        "phase": trajectory.phase,
        "task": trajectory.task,
        "model": trajectory.treatment.model,
        "library": trajectory.treatment.library,
        "arm": trajectory.treatment.arm,
    }


def _trl(rollout: WholeRollout, chat: Chat) -> Mapping[str, Any] | None:
    prompt = list(takewhile(lambda message: message["role"] != "assistant", chat))
    completion = [_with_objects(message) for message in chat[len(prompt) :]]
    if not completion:
        return None
    return {"prompt": prompt, "completion": completion, "reward": rollout.trajectory.reward}


def _with_objects(message: dict[str, Any]) -> dict[str, Any]:
    """The message with arguments as chat templates of open models take them."""
    if "tool_calls" not in message:
        return message
    calls = [
        {**call, "function": {**call["function"], "arguments": _object(call["function"]["arguments"])}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def _object(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


_FORMS: Mapping[LineFormat, Callable[[WholeRollout, Chat], Mapping[str, Any] | None]] = {
    "openai-jsonl": _openai,
    "trl-jsonl": _trl,
}
