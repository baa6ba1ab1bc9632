"""Stored rollouts in ATIF, the Agent Trajectory Interchange Format. `session_files` reads it.

One JSON document per rollout. A step of the agent holds its calls of tools and their results.
"""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ThinkingPart, ToolReturnPart

from agentlearn.errors import DataError
from agentlearn.formats.openai_chat import assistant_message, request_message
from agentlearn.formats.session_files import OWN_AGENT, UNPARSED
from agentlearn.plugins.installed import version
from agentlearn.store import Selection, StoreReader
from agentlearn.store.queries import SelectedText
from agentlearn.text.files import sync
from agentlearn.types.trajectory import STATUS

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
