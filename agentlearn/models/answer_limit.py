"""A limit on the tokens of an answer, for models on this machine, which nothing else limits.

A model service has a limit of its own. A model served from local weights writes until its context is full, and small
models often do not stop before: each rollout would take minutes and say nothing.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlearn.config import is_lab
from agentlearn.config.model_folders import model_path
from agentlearn.models.call_settings import CallSettings

LEAST = 512
"""Smallest limit that follows from a domain's usual answers."""
_STAGE = 4
"""A stage of learning may write this many times as much as a rollout, where the context is not known."""


@dataclass(frozen=True, slots=True)
class AnswerLimit:
    """The limit of a local model's answers when the user sets none."""

    tokens: int
    """Largest number of tokens in one answer of a rollout."""
    stage_tokens: int
    """Largest number of tokens in one answer of a stage of learning."""
    context: int | None = None
    """Number of tokens that the model can hold; None when it is not known."""

    def applied(self, settings: CallSettings, *, stage: bool = False) -> CallSettings:
        """Return the settings with this limit. stage: for the stages of learning."""
        return settings.with_limit(self.stage_tokens if stage else self.tokens)


def local_answer_limit(model: str, usual: int) -> AnswerLimit | None:
    """Return the default limit for `local:` and `vllm:` models; None for all others.

    usual: tokens of a usual answer in the domain. The limit is a power of two with a third more room than that, and at
    most a quarter of the model's context. Reads the model's config.
    """
    prefix, _, source = model.partition(":")
    if prefix not in {"local", "vllm"} or is_lab(model):
        return None
    tokens = max(LEAST, 1 << (usual * 4 // 3 - 1).bit_length())
    context = context_of(source)
    if context is None:
        return AnswerLimit(tokens, _STAGE * tokens)
    quarter = max(1, context // 4)
    return AnswerLimit(min(tokens, quarter), quarter, context)


def context_of(source: str) -> int | None:
    """Return the number of tokens that the model in a folder can hold; None when its config does not say."""
    folder = model_path(source)
    config = _json_of(folder / "config.json")
    if config is None:
        base = (_json_of(folder / "adapter_config.json") or {}).get("base_model_name_or_path")
        config = _json_of(Path(base).expanduser() / "config.json") if isinstance(base, str) and base else None
    texts = (config or {}).get("text_config")
    for fields in (texts if isinstance(texts, dict) else {}, config or {}):
        for name in ("max_position_embeddings", "n_positions"):
            if isinstance(found := fields.get(name), int) and found > 0:
                return found
    return None


def _json_of(file: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None when there is none."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
