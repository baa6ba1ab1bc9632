"""What every request to an endpoint has in common: the settings that are added, those left out, and the system message.

A rollout, a stage of learning and a judge have settings of their own. These come on top, because they depend on what
the service accepts.

A model service has a limit of its own. A model served from local weights writes until its context is full, and small
models often do not stop before: each rollout would take minutes and say nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlearn.config import RequestOptions, is_lab
from agentlearn.config.model_folders import model_path

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class CallSettings:
    """Settings of all requests to one endpoint."""

    added: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Sent with every request, by pydantic-ai's names. A request's own settings win."""
    left_out: frozenset[str] = frozenset()
    """Never sent."""
    fold_system: bool = False
    """Whether the system message becomes the start of the first user message."""

    def applied(self, given: "ModelSettings") -> "ModelSettings":
        """Return what is sent for a request with these settings."""
        merged: Any = {**self.added, **given}
        return {name: value for name, value in merged.items() if name not in self.left_out}  # pyright: ignore[reportReturnType]

    def with_limit(self, tokens: int) -> "CallSettings":
        """Return the same with another limit on the tokens of an answer."""
        return replace(self, added={**self.added, "max_tokens": tokens})


DEFAULT_CALL_SETTINGS = CallSettings()


def never_sent(model: "Model", given: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the settings that the client of this model leaves out of every request.

    given: the settings of all requests; how much a model is told to think decides whether it takes a temperature.
    """
    from pydantic_ai.profiles.anthropic import ANTHROPIC_SAMPLING_PARAMS
    from pydantic_ai.profiles.openai import SAMPLING_PARAMS

    profile: Mapping[str, Any] = model.profile
    left_out = {*model.unsupported_settings, *profile.get("openai_unsupported_model_settings", ())}
    if any(profile.get(f"{client}_disallows_sampling_settings") for client in ("anthropic", "bedrock")):
        left_out.update(ANTHROPIC_SAMPLING_PARAMS)
    if profile.get("openai_supports_reasoning"):
        thinks = profile.get("thinking_enabled_by_default") or "thinking" in given
        if thinks or not profile.get("openai_supports_reasoning_effort_none"):
            left_out.update(SAMPLING_PARAMS)
    return frozenset(left_out)


def call_settings(options: RequestOptions, *, temperature: bool = True) -> CallSettings:
    """Return the settings of an endpoint. temperature: False to leave it out of every request."""
    added: dict[str, Any] = {}
    if options.top_p is not None:
        added["top_p"] = options.top_p
    if options.max_output_tokens is not None:
        added["max_tokens"] = options.max_output_tokens
    if options.reasoning_effort is not None:
        added |= {"thinking": options.reasoning_effort, "openai_reasoning_effort": options.reasoning_effort}
    left_out = {name for name, out in {"seed": options.no_seed, "temperature": not temperature}.items() if out}
    return CallSettings(added, frozenset(left_out), options.fold_system)


def folded(
    messages: "Sequence[ModelMessage]", parameters: "ModelRequestParameters"
) -> "tuple[list[ModelMessage], ModelRequestParameters]":
    """Return the same conversation without a system message: its text is the start of the first user message."""
    from pydantic_ai.messages import ModelRequest, SystemPromptPart, UserPromptPart

    texts = [part.content for part in parameters.instruction_parts or ()]
    requests = [one for one in messages if isinstance(one, ModelRequest)]
    if not texts and requests and requests[-1].instructions:
        texts = [requests[-1].instructions]
    texts = [
        *(part.content for one in requests for part in one.parts if isinstance(part, SystemPromptPart)),
        *texts,
    ]
    system, changed, put = "\n\n".join(texts), list["ModelMessage"](), False
    for message in messages:
        if not isinstance(message, ModelRequest):
            changed.append(message)
            continue
        parts: list[Any] = []
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                continue
            if isinstance(part, UserPromptPart) and not put and system:
                put = True
                content = part.content
                joined = f"{system}\n\n{content}" if isinstance(content, str) else [f"{system}\n\n", *content]
                parts.append(replace(part, content=joined))
            else:
                parts.append(part)
        changed.append(replace(message, parts=parts, instructions=None))
    return changed, replace(parameters, instruction_parts=None)


LEAST = 512
"""Smallest limit that follows from a domain's usual answers."""
_STAGE = 4
"""A stage of learning may write this many times as much as a rollout, where the context is not known."""


@dataclass(frozen=True, slots=True)
class _AnswerLimit:
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


def local_answer_limit(model: str, usual: int) -> _AnswerLimit | None:
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
        return _AnswerLimit(tokens, _STAGE * tokens)
    quarter = max(1, context // 4)
    return _AnswerLimit(min(tokens, quarter), quarter, context)


def context_of(source: str) -> int | None:
    """Return the number of tokens that the model in a folder can hold; None when its config does not say."""

    def read(file: Path) -> dict[str, Any]:
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    folder = model_path(source)
    config = read(folder / "config.json")
    if not config:
        base = read(folder / "adapter_config.json").get("base_model_name_or_path")
        config = read(Path(base).expanduser() / "config.json") if isinstance(base, str) and base else {}
    texts = config.get("text_config")
    for fields in (texts if isinstance(texts, dict) else {}, config):
        for name in ("max_position_embeddings", "n_positions"):
            if isinstance(found := fields.get(name), int) and found > 0:
                return found
    return None
