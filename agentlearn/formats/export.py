"""Export of stored rollouts as JSON lines: OpenAI chat, and the formats of TRL's trainers for GRPO, SFT and DPO."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Literal, TextIO

from agentlearn.errors import DataError
from agentlearn.files import put
from agentlearn.formats.openai_chat import Chat, to_chat
from agentlearn.store import Selection, StoreReader
from agentlearn.store.queries import SelectedText
from agentlearn.types.ids import content_hash

LineFormat = Literal["openai-jsonl", "trl-jsonl", "trl-grpo", "trl-sft", "trl-dpo"]


def export_lines(reader: StoreReader, selection: Selection, out: Path, form: LineFormat) -> int:
    """Write the selected rollouts to a file, replacing an older one; return the number of lines.

    openai-jsonl: `messages`, `reward` (null when there is none), and the ids of the rollout, its run and its task.
    trl-jsonl: `prompt` (up to the first answer), `completion` (the rest), `reward`.
    trl-sft: `prompt` and `completion`, as SFTTrainer loads them.
    trl-grpo: each `prompt` once, with the task's expected `answer`, as GRPOTrainer and its reward functions take them.
    trl-dpo: `prompt`, `chosen`, `rejected`: two rollouts of a group with the same prompt, where `chosen` has more
    reward. Each rollout is in at most one pair.

    In TRL's formats, arguments of tool calls are objects, and rollouts without a message of the model are left out.
    The lines are in the order of the rollouts: by run, phase, batch, task and g. Memory does not grow with their texts.

    Raises DataError when nothing is selected, when a rollout cannot be written as chat, or when the file cannot be
    written; StoreError.
    """
    draft = out.with_name(f".{out.name}.{os.getpid()}.draft")
    try:
        with reader.texts(selection, out.parent) as texts, draft.open("w", encoding="ascii") as stream:
            count = _write_lines(_lines(texts, form), stream)
            if not count:
                raise _no_line(form, texts.count)
        put(draft, out)
    except OSError as error:
        raise DataError(f"{str(out)!r} cannot be written: {error}; give another --out", code="bad_out") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _write_lines(lines: "Lines", stream: TextIO) -> int:
    count = 0
    for line in lines:
        stream.write(json.dumps(line, allow_nan=False) + "\n")
        count += 1
    return count


def _no_line(form: LineFormat, rollouts: int) -> DataError:
    why = "no group among them has two rewards" if form == "trl-dpo" else "the model said nothing in any of them"
    return DataError(
        f"{rollouts} rollouts were selected, but {why}, so there is nothing to write as {form}; select others",
        code="nothing_to_export",
    )


RolloutChat = tuple[SelectedText, Chat]

Lines = Iterator[Mapping[str, Any]]


def _lines(texts: Iterable[SelectedText], form: LineFormat) -> Lines:
    chats = _chats(texts)
    match form:
        case "openai-jsonl":
            return _all_openai(chats)
        case "trl-jsonl":
            return _trl(chats)
        case "trl-sft":
            return _sft(chats)
        case "trl-grpo":
            return _grpo(chats)
        case "trl-dpo":
            return _dpo(chats)


def _chats(texts: Iterable[SelectedText]) -> Iterator[RolloutChat]:
    """Yield the rollouts with their chat."""
    for one in texts:
        try:
            yield one, to_chat(one.messages)
        except DataError as error:
            raise DataError(f"rollout {one.id}: {error}", code=error.code) from error


def _openai(rollout: SelectedText, chat: Chat) -> Mapping[str, Any]:
    return {
        "messages": chat,
        "reward": rollout.reward,
        "answer": rollout.answer,
        "rollout": rollout.id,
        "run": rollout.run,
        "phase": rollout.phase,
        "task": rollout.task,
        "model": rollout.model,
        "library": rollout.library,
        "arm": rollout.arm,
        "weights_step": rollout.weights_step,
    }


@dataclass(frozen=True, slots=True)
class _Conversation:
    """A rollout in TRL's conversational format."""

    rollout: SelectedText
    prompt: Chat
    """Messages before the first answer."""
    completion: Chat
    """The first answer and all messages after it."""

    @property
    def reward(self) -> float | None:
        return self.rollout.reward


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


def _grpo(chats: Iterator[RolloutChat]) -> Lines:
    """Yield each prompt once. A task that was asked with several libraries has several prompts."""
    seen: set[bytes] = set()
    for one in _conversations(chats):
        key = bytes.fromhex(content_hash(one.prompt))  # there can be as many as rollouts
        if key not in seen:
            seen.add(key)
            yield {"prompt": one.prompt, "answer": one.rollout.expected, "task": one.rollout.task}


def _dpo(chats: Iterator[RolloutChat]) -> Lines:
    """Yield pairs of rollouts. The rollouts of a group must be adjacent."""
    for _, members in groupby(_conversations(chats), key=lambda one: _group(one.rollout)):
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


def _group(rollout: SelectedText) -> tuple[object, ...]:
    return rollout.run, rollout.phase, rollout.batch, rollout.task


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
