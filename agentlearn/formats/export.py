"""Stored rollouts as lines for other trainers: OpenAI chat, and what TRL's trainers for GRPO, SFT and DPO load."""

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
"""Rollouts read at once."""


def export_lines(reader: StoreReader, selection: Selection, out: Path, form: LineFormat) -> int:
    """Write the selected rollouts to a file, in place of an older one; how many lines.

    openai-jsonl: `messages`, `reward` (null where there is none), and where the rollout comes from.
    trl-jsonl: `prompt` (up to the first answer), `completion` (all after it), `reward`.
    trl-sft: `prompt` and `completion` alone, as SFTTrainer loads them.
    trl-grpo: each `prompt` once, with the task's expected `answer`, as GRPOTrainer and its reward functions take them.
    trl-dpo: `prompt`, `chosen`, `rejected`: two rollouts of a group with one prompt, the first with more reward; each
    rollout is in one pair at the most.

    In TRL's forms arguments of tool calls are objects, and rollouts without a message of the model are left out.

    Raises DataError where nothing is selected, a rollout holds what chat has no form for, or the file cannot be
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
            raise nothing_selected() if not rollouts else _nothing_to_say(form, len(rollouts))
        put(draft, out)
    except OSError as error:
        raise DataError(f"{str(out)!r} cannot be written: {error}; give another --out", code="bad_out") from error
    finally:
        draft.unlink(missing_ok=True)
    return count


def _nothing_to_say(form: LineFormat, rollouts: int) -> DataError:
    why = "no group among them has two rewards" if form == "trl-dpo" else "in none of them did the model say anything"
    return DataError(f"{rollouts} rollouts were selected, but {why}, so {form} has no line", code="nothing_to_export")


Told = tuple[WholeRollout, Chat]
Lines = Iterator[Mapping[str, Any]]


def _lines(reader: StoreReader, rollouts: Sequence[RolloutId], form: LineFormat) -> Lines:
    told = _told(reader, rollouts)
    match form:
        case "openai-jsonl":
            return _all_openai(told)
        case "trl-jsonl":
            return _trl(told)
        case "trl-sft":
            return _sft(told)
        case "trl-grpo":
            return _grpo(told, reader)
        case "trl-dpo":
            return _dpo(told)


def _told(reader: StoreReader, rollouts: Sequence[RolloutId]) -> Iterator[Told]:
    """The rollouts with their chat, a page at a time."""
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
class _Spoken:
    """A rollout in TRL's conversational form."""

    rollout: WholeRollout
    prompt: Chat
    """Up to the first answer."""
    completion: Chat

    @property
    def reward(self) -> float | None:
        return self.rollout.trajectory.reward


def _spoken(told: Iterable[Told]) -> Iterator[_Spoken]:
    """Those in which the model said something."""
    for rollout, chat in told:
        prompt = list(takewhile(lambda message: message["role"] != "assistant", chat))
        if completion := [_with_objects(message) for message in chat[len(prompt) :]]:
            yield _Spoken(rollout, prompt, completion)


def _all_openai(told: Iterator[Told]) -> Lines:
    return (_openai(rollout, chat) for rollout, chat in told)


def _trl(told: Iterator[Told]) -> Lines:
    return ({"prompt": one.prompt, "completion": one.completion, "reward": one.reward} for one in _spoken(told))


def _sft(told: Iterator[Told]) -> Lines:
    return ({"prompt": one.prompt, "completion": one.completion} for one in _spoken(told))


def _grpo(told: Iterator[Told], reader: StoreReader) -> Lines:
    """Lessons are part of a prompt: a task that was asked with several libraries gives several prompts."""
    seen: set[str] = set()
    for one in _spoken(told):
        trajectory, key = one.rollout.trajectory, content_hash(one.prompt)
        if key not in seen:
            seen.add(key)
            yield {"prompt": one.prompt, "answer": reader.task(trajectory.task).answer, "task": trajectory.task}


def _dpo(told: Iterator[Told]) -> Lines:
    """Rollouts of a group come one after another."""
    for _, members in groupby(_spoken(told), key=lambda one: _group(one.rollout.trajectory)):
        by_prompt: dict[str, list[_Spoken]] = {}
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
