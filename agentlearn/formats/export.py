"""Export of stored rollouts as JSON lines: OpenAI chat, and the formats of TRL's trainers for GRPO, SFT and DPO."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Literal

from agentlearn.errors import DataError
from agentlearn.files import put
from agentlearn.formats.openai_chat import Chat, to_chat
from agentlearn.store import Selection, StoreReader, WholeRollout
from agentlearn.store.parquet import nothing_selected
from agentlearn.store.stored_arm import stored_arm
from agentlearn.types.ids import RolloutId, content_hash
from agentlearn.types.trajectory import Trajectory

LineFormat = Literal["openai-jsonl", "trl-jsonl", "trl-grpo", "trl-sft", "trl-dpo"]

_PAGE = 64
"""Number of rollouts read from the store at a time."""


def export_lines(reader: StoreReader, selection: Selection, out: Path, form: LineFormat) -> int:
    """Write the selected rollouts to a file, replacing an older one; return the number of lines.

    openai-jsonl: `messages`, `reward` (null when there is none), and the ids of the rollout, its run and its task.
    trl-jsonl: `prompt` (up to the first answer), `completion` (the rest), `reward`.
    trl-sft: `prompt` and `completion`, as SFTTrainer loads them.
    trl-grpo: each `prompt` once, with the task's expected `answer`, as GRPOTrainer and its reward functions take them.
    trl-dpo: `prompt`, `chosen`, `rejected`: two rollouts of a group with the same prompt, where `chosen` has more
    reward. Each rollout is in at most one pair.

    In TRL's formats, arguments of tool calls are objects, and rollouts without a message of the model are left out.

    Raises DataError when nothing is selected, when a rollout cannot be written as chat, or when the file cannot be
    written; StoreError.
    """
    rollouts = [one.id for one in reader.selected(selection)]
    draft = out.with_name(f".{out.name}.{os.getpid()}.draft")
    count = 0
    try:
        with draft.open("w", encoding="ascii") as stream:
            for line in _lines(reader, rollouts, form):
                stream.write(json.dumps(line, allow_nan=False) + "\n")
                count += 1
        if not count:
            raise nothing_selected() if not rollouts else _no_line(form, len(rollouts))
        put(draft, out)
    except OSError as error:
        raise DataError(f"{str(out)!r} cannot be written: {error}; give another --out", code="bad_out") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _no_line(form: LineFormat, rollouts: int) -> DataError:
    why = "no group among them has two rewards" if form == "trl-dpo" else "the model said nothing in any of them"
    return DataError(
        f"{rollouts} rollouts were selected, but {why}, so there is nothing to write as {form}; select others",
        code="nothing_to_export",
    )


RolloutChat = tuple[WholeRollout, Chat]

Lines = Iterator[Mapping[str, Any]]


def _lines(reader: StoreReader, rollouts: Sequence[RolloutId], form: LineFormat) -> Lines:
    chats = _chats(reader, rollouts)
    match form:
        case "openai-jsonl":
            return _all_openai(chats)
        case "trl-jsonl":
            return _trl(chats)
        case "trl-sft":
            return _sft(chats)
        case "trl-grpo":
            return _grpo(chats, reader)
        case "trl-dpo":
            return _dpo(chats)


def _chats(reader: StoreReader, rollouts: Sequence[RolloutId]) -> Iterator[RolloutChat]:
    """Yield the rollouts with their chat."""
    for at in range(0, len(rollouts), _PAGE):
        for one in reader.whole(rollouts[at : at + _PAGE]):
            try:
                yield one, to_chat(one.messages)
            except DataError as error:
                raise DataError(f"rollout {one.trajectory.id}: {error}", code=error.code) from error


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
        "arm": stored_arm(trajectory),
    }


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A rollout in TRL's conversational format."""

    rollout: WholeRollout
    prompt: Chat
    """Messages before the first answer."""
    completion: Chat
    """The first answer and all messages after it."""

    @property
    def reward(self) -> float | None:
        return self.rollout.trajectory.reward


def _conversations(chats: Iterable[RolloutChat]) -> Iterator[_Conversation]:
    """Yield the rollouts in which the model said something."""
    for rollout, chat in chats:
        prompt = list(takewhile(lambda message: message["role"] != "assistant", chat))
        if completion := [_with_objects(message) for message in chat[len(prompt) :]]:
            yield _Conversation(rollout, prompt, completion)


def _all_openai(chats: Iterator[RolloutChat]) -> Lines:
    return (_openai(rollout, chat) for rollout, chat in chats)


def _trl(chats: Iterator[RolloutChat]) -> Lines:
    return ({"prompt": one.prompt, "completion": one.completion, "reward": one.reward} for one in _conversations(chats))


def _sft(chats: Iterator[RolloutChat]) -> Lines:
    return ({"prompt": one.prompt, "completion": one.completion} for one in _conversations(chats))


def _grpo(chats: Iterator[RolloutChat], reader: StoreReader) -> Lines:
    """Yield each prompt once. A task that was asked with several libraries has several prompts."""
    seen: set[str] = set()
    for one in _conversations(chats):
        trajectory, key = one.rollout.trajectory, content_hash(one.prompt)
        if key not in seen:
            seen.add(key)
            yield {"prompt": one.prompt, "answer": reader.task(trajectory.task).answer, "task": trajectory.task}


def _dpo(chats: Iterator[RolloutChat]) -> Lines:
    """Yield pairs of rollouts. The rollouts of a group must be adjacent."""
    for _, members in groupby(_conversations(chats), key=lambda one: _group(one.rollout.trajectory)):
        by_prompt: dict[str, list[_Conversation]] = {}
        for one in members:
            if one.reward is not None:
                by_prompt.setdefault(content_hash(one.prompt), []).append(one)
        for alike in by_prompt.values():
            ranked = sorted(alike, key=lambda one: one.reward or 0.0, reverse=True)
            half = len(ranked) // 2
            for best, worst in zip(ranked[:half], reversed(ranked), strict=False):
                if best.reward != worst.reward:
                    yield {"prompt": best.prompt, "chosen": best.completion, "rejected": worst.completion}


def _group(trajectory: Trajectory) -> tuple[object, ...]:
    return trajectory.run, trajectory.phase, trajectory.batch, trajectory.task


def _with_objects(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with the arguments of tool calls as objects, as chat templates of open models expect."""
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
