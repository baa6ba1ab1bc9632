"""Export of stored rollouts as JSON lines: OpenAI chat, and the formats of TRL's trainers for GRPO, SFT and DPO."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Literal

from agentlearn.errors import DataError
from agentlearn.formats.openai_chat import Chat, to_chat
from agentlearn.store import Selection, StoreReader
from agentlearn.store.queries import SelectedText
from agentlearn.text.files import put
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
            count = 0
            for line in _lines(texts, form):
                stream.write(json.dumps(line, allow_nan=False) + "\n")
                count += 1
            if not count:
                why = "the model said nothing in any of them"
                if form == "trl-dpo":
                    why = "no group among them has two rewards"
                raise DataError(
                    f"{texts.count} rollouts were selected, but {why}, so there is nothing to write as {form}; select"
                    " others"
                )
        put(draft, out)
    except OSError as error:
        raise DataError(f"{str(out)!r} cannot be written: {error}; give another --out", code="not_written") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


_COLUMNS = ("run", "phase", "task", "model", "library", "arm", "weights_step")
"""Fields of a rollout that a line of `openai-jsonl` has too."""


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


def _lines(texts: Iterable[SelectedText], form: LineFormat) -> Iterator[Mapping[str, Any]]:
    if form == "openai-jsonl":
        for rollout, chat in _chats(texts):
            columns = {name: getattr(rollout, name) for name in _COLUMNS}
            yield {
                "messages": chat,
                "reward": rollout.reward,
                "answer": rollout.answer,
                "rollout": rollout.id,
                **columns,
            }
        return
    conversations = _conversations(texts)
    if form == "trl-dpo":
        yield from _pairs(conversations)
        return
    seen: set[bytes] = set()
    for one in conversations:
        match form:
            case "trl-jsonl":
                yield {"prompt": one.prompt, "completion": one.completion, "reward": one.reward}
            case "trl-sft":
                yield {"prompt": one.prompt, "completion": one.completion}
            case "trl-grpo":  # each prompt once; a task that was asked with several libraries has several
                key = bytes.fromhex(content_hash(one.prompt))  # there can be as many as rollouts
                if key not in seen:
                    seen.add(key)
                    yield {"prompt": one.prompt, "answer": one.rollout.expected, "task": one.rollout.task}


def _chats(texts: Iterable[SelectedText]) -> Iterator[tuple[SelectedText, Chat]]:
    """Yield the rollouts with their chat."""
    for one in texts:
        try:
            yield one, to_chat(one.messages)
        except DataError as error:
            raise DataError(f"rollout {one.id}: {error}", code=error.code) from error


def _conversations(texts: Iterable[SelectedText]) -> Iterator[_Conversation]:
    """Yield the rollouts in which the model said something.

    The arguments of tool calls are objects, as chat templates of open models expect.
    """
    for rollout, chat in _chats(texts):
        prompt = list(takewhile(lambda message: message["role"] != "assistant", chat))
        completion = chat[len(prompt) :]
        for call in (call for message in completion for call in message.get("tool_calls", ())):
            with suppress(ValueError):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if completion:
            yield _Conversation(rollout, prompt, completion)


def _pairs(conversations: Iterable[_Conversation]) -> Iterator[Mapping[str, Any]]:
    """Yield pairs of rollouts. The rollouts of a group must be adjacent."""

    def group(one: _Conversation) -> tuple[object, ...]:
        return one.rollout.run, one.rollout.phase, one.rollout.batch, one.rollout.task

    for _, members in groupby(conversations, key=group):
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
