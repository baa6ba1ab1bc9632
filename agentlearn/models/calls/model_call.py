"""What one call asks: the conversation, the settings that are sent, and the id of its reply in the journal."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from agentlearn.models.call_settings import CallSettings, folded
from agentlearn.models.refusal import SYSTEM, TOOLS
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.ids import CallId, content_hash, derive_seed


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call, as it is sent and as the journal identifies it."""

    id: CallId
    ordinal: int
    """Index among the model calls of its unit of work, from 0."""
    hash: str
    """Hash of the request; part of the id."""
    seed: int
    messages: Sequence[ModelMessage]
    sampling: ModelSettings
    """The settings that are sent."""
    parameters: ModelRequestParameters
    sent: frozenset[str]
    """Names of the settings and parts that it has and that a service may refuse."""
    kind: str
    """Its sampling settings as text, without the seed."""


def next_call(
    unit: WorkUnit,
    given: CallSettings,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> ModelCall:
    """Return the next call of a unit of work. given: what all requests to the endpoint have in common."""
    ordinal = unit.next_ordinal("model")
    seed = derive_seed(unit.seed, ordinal)
    own = ModelSettings(**(settings or {}))
    own["seed"] = seed
    request_hash = _request_hash(messages, own)
    sampling = given.applied(own)
    sent = _sent(messages, sampling, parameters, given)
    if given.fold_system:
        messages, parameters = folded(messages, parameters)
    return ModelCall(
        id=unit.call_id("model", ordinal, request_hash),
        ordinal=ordinal,
        hash=request_hash,
        seed=seed,
        messages=messages,
        sampling=sampling,
        parameters=parameters,
        sent=sent,
        kind=repr(sorted((name, str(value)) for name, value in sampling.items() if name != "seed")),
    )


def _sent(
    messages: Sequence[ModelMessage], sampling: ModelSettings, parameters: ModelRequestParameters, given: CallSettings
) -> frozenset[str]:
    """Return the names of what a request has and a service may refuse."""
    sent = set(sampling)
    if not given.fold_system and (parameters.instruction_parts or any(map(_has_system, messages))):
        sent.add(SYSTEM)
    if parameters.function_tools or parameters.output_tools:
        sent.add(TOOLS)
    return frozenset(sent)


def _has_system(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and (
        bool(message.instructions) or any(part.part_kind == "system-prompt" for part in message.parts)
    )


def _request_hash(messages: Sequence[ModelMessage], settings: ModelSettings) -> str:
    """Hash of the newest message and the settings; earlier messages of the unit have records of their own."""
    last = messages[-1]
    instructions = last.instructions if isinstance(last, ModelRequest) else None
    (plain,) = ModelMessagesTypeAdapter.dump_python([last], mode="json")
    parts = [[part["part_kind"], part.get("tool_call_id"), part.get("content")] for part in plain["parts"]]
    return content_hash(len(messages), settings.get("seed"), settings.get("temperature"), instructions, parts)
