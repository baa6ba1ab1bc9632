"""Export of stored rollouts: OpenAI chat, the formats of TRL's trainers for GRPO, SFT and DPO, and ATIF.

The first four are JSON lines. ATIF, the Agent Trajectory Interchange Format, is one JSON document per rollout, in which
a step of the agent holds its calls of tools and their results; `session_files` reads it.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, Literal

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ThinkingPart, ToolReturnPart

from agentlearn.errors import DataError
from agentlearn.formats.openai_chat import Chat, assistant_message, request_message, to_chat
from agentlearn.formats.session_files import OWN_AGENT, UNPARSED
from agentlearn.plugins import version
from agentlearn.store import Selection, StoreReader
from agentlearn.store.queries import SelectedText
from agentlearn.text.files import put, sync
from agentlearn.types.ids import content_hash
from agentlearn.types.trajectory import STATUS

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
        with reader.texts(selection, out.parent) as texts, draft.open("w", 2**20, "ascii") as stream:
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


_ATIF_VERSION = "ATIF-v1.7"
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_ABOUT = ("run", "phase", "task", "library", "arm", "weights_step", "reward", "answer", "expected")
"""Fields of a rollout that stand in `extra`."""


def to_atif(rollout: SelectedText) -> dict[str, Any]:
    """The rollout as a JSON value. Raises DataError when it has no messages, or one that chat cannot express."""
    steps: list[dict[str, Any]] = []
    answered_in: dict[str, dict[str, Any]] = {}
    instructions: str | None = None
    totals = Counter({f"total_{name}": 0 for name in _COUNTS})
    for message in ModelMessagesTypeAdapter.validate_json(rollout.messages):
        if isinstance(message, ModelResponse):
            step = _agent_step(message)
            steps.append(step)
            answered_in |= {call["tool_call_id"]: step for call in step.get("tool_calls", ())}
            for name, count in step.get("metrics", {}).items():
                totals[f"total_{name}"] += count
            continue
        if message.instructions and message.instructions != instructions:
            instructions = message.instructions
            steps.append({"source": "system", "message": instructions})
        for part in message.parts:
            chat = request_message(part)
            if chat["role"] != "tool":
                steps.append({"source": chat["role"], "message": _content(chat["content"])})
                continue
            step = answered_in.get(chat["tool_call_id"])
            result = {"content": chat["content"]}
            if step is None:  # it answers no call of this rollout
                steps.append(step := {"source": "system", "message": ""})
            else:
                result = {"source_call_id": chat["tool_call_id"], **result}
            if isinstance(part, ToolReturnPart) and _failed(part):
                result["extra"] = {"is_error": True}
            step.setdefault("observation", {"results": []})["results"].append(result)
    if not steps:
        raise DataError(f"rollout {rollout.id}: no messages of it are stored")
    return {
        "schema_version": _ATIF_VERSION,
        "session_id": rollout.id,
        "agent": {"name": OWN_AGENT, "version": version(), "model_name": rollout.model},
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        "final_metrics": {**totals, "total_steps": len(steps)},
        "extra": {name: getattr(rollout, name) for name in _ABOUT},
    }


def _agent_step(response: ModelResponse) -> dict[str, Any]:
    chat, usage = assistant_message(response), response.usage
    step: dict[str, Any] = {"timestamp": response.timestamp.isoformat(), "source": "agent"}
    step |= {"model_name": response.model_name} if response.model_name else {}
    step["message"] = chat["content"] or ""
    if thoughts := "\n".join(part.content for part in response.parts if isinstance(part, ThinkingPart)):
        step["reasoning_content"] = thoughts
    if calls := chat.get("tool_calls"):
        step["tool_calls"] = [
            {
                "tool_call_id": call["id"],
                "function_name": call["function"]["name"],
                "arguments": _arguments(call["function"]["arguments"]),
            }
            for call in calls
        ]
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    if any(counts):  # else nobody counted
        step["metrics"] = dict(zip(_COUNTS, counts, strict=True))
    return step


def _arguments(text: str) -> Mapping[str, Any]:
    with suppress(ValueError, RecursionError):
        if isinstance(value := json.loads(text), dict):
            return value
    return {UNPARSED: text}


def _content(content: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A message of the chat format as a message of ATIF, in which pictures name their media type."""
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for one in content:
        if one["type"] == "text":
            parts.append(one)
            continue
        address = str(one["image_url"]["url"])
        head = address.partition(";")[0]
        media = head.removeprefix("data:") if head.startswith("data:") else "image/png"
        parts.append({"type": "image", "source": {"media_type": media, "path": address}})
    return parts


def _failed(part: ToolReturnPart) -> bool:
    return isinstance(part.metadata, Mapping) and part.metadata.get(STATUS, "ok") != "ok"


def export_atif(reader: StoreReader, selection: Selection, out: Path) -> int:
    """Write each selected rollout to a file of its own in the new or empty folder `out`; return how many were written.

    Rollouts without messages are left out: no model answered in them. Memory does not grow with their number.

    Raises DataError when nothing is selected or written, when a rollout has a message that chat cannot express, or when
    `out` cannot be written; StoreError.
    """
    count = 0
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise DataError(f"--out {str(out)!r} is there already; name a new or an empty folder", code="not_written")
        out.mkdir(parents=True, exist_ok=True)
        with reader.texts(selection, out) as texts:
            for one in texts:
                if one.messages.strip() in {b"", b"[]"}:
                    continue
                content = json.dumps(to_atif(one), ensure_ascii=False, allow_nan=False)
                (out / f"{one.id}.atif.json").write_bytes(content.encode("utf-8", "replace"))  # a sync takes 10 ms
                count += 1
            if not count:
                raise DataError(
                    f"{texts.count} rollouts were selected, but none has messages, so there is nothing to write as"
                    " atif; select others"
                )
        sync(out)
    except OSError as error:
        raise DataError(f"{str(out)!r} cannot be written: {error}; give another --out", code="not_written") from error
    return count
