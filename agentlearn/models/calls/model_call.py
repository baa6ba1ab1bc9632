"""What one call asks: the conversation, the settings that are sent, and the id of its reply in the journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from agentlearn.config.endpoint_address import without_credentials
from agentlearn.errors import StoreError
from agentlearn.models.call_context import CallRecord
from agentlearn.models.call_settings import CallSettings, folded
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.price import cost_usd, price_of
from agentlearn.models.refusal import SYSTEM, TOOLS
from agentlearn.models.token_estimate import BYTES_PER_TOKEN, ExpectedCall, reply_bytes
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.ids import CallId, content_hash, derive_seed
from agentlearn.types.trajectory import Usage

if TYPE_CHECKING:
    from pydantic_ai.models import Model


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


@dataclass(frozen=True, slots=True)
class CallSite:
    """The model, the endpoint and the unit of work of a call."""

    model: "Model"
    state: EndpointState
    unit: WorkUnit

    @property
    def any_answer(self) -> bool:
        """Whether the run has any answer, which a resumed run can use."""
        return bool(self.state.models) or self.unit.call_context.budget.usage.requests > 0

    @property
    def where(self) -> str:
        """Address of the service, without credentials."""
        return without_credentials(self.model.base_url or self.model.system)


_DENSEST = 8
"""A text has at least one token for this many times the size of a usual token."""
_SHORT_BYTES = 256


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """The tokens of one reply."""

    usage: Usage
    estimated: int
    """How many of the tokens are estimated."""
    priced: "ModelResponse"
    """The reply with these tokens, to compute its price from."""


def usage_of(state: "EndpointState", stage: str, response: "ModelResponse", size_bytes: int) -> UsageCounts:
    """Return the tokens of a reply, estimated where its service reports none, or fewer than the text can have.

    size_bytes: of the request.
    """
    given, written = response.usage, reply_bytes(response)
    sure = state.free  # a service of ours counts right, whatever its tokens are
    reported_in = given.input_tokens if sure or _can_hold(given.input_tokens, size_bytes) else 0
    reported_out = given.output_tokens if sure or _can_hold(given.output_tokens, written) else 0
    tokens_in = reported_in or state.tokens.tokens_of_text(stage, size_bytes)
    tokens_out = reported_out or state.tokens.tokens_of_text(stage, written)
    estimated = (0 if reported_in else tokens_in) + (0 if reported_out else tokens_out)
    usage = Usage(requests=1, tokens_in=tokens_in, tokens_cached=given.cache_read_tokens, tokens_out=tokens_out)
    state.without_usage += estimated > 0
    state.tokens.learn(stage, size_bytes, usage, reported=bool(reported_in))
    if not estimated:
        return UsageCounts(usage, estimated, response)
    priced = replace(response, usage=RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out))
    return UsageCounts(usage, estimated, priced)


def _can_hold(tokens: int, size_bytes: int) -> bool:
    """Whether a text of that size can have so few tokens. A short text always can."""
    return size_bytes <= _SHORT_BYTES or tokens * BYTES_PER_TOKEN * _DENSEST >= size_bytes


def expected_call(
    model: "Model",
    state: "EndpointState",
    stage: str,
    messages: "Sequence[ModelMessage]",
    parameters: "ModelRequestParameters",
    sampling: Mapping[str, Any],
) -> ExpectedCall:
    """Return what a call will probably take."""
    call = state.tokens.expected(stage, messages, parameters, sampling.get("max_tokens"))
    call = replace(call, refused_out=state.refused_output)
    if state.free:
        return call
    price = price_of(model.model_name, model.system, model.base_url)
    if price is not None:
        return replace(call, price=(price[0] / 1e6, price[1] / 1e6))
    # Replies can name a model that has a price.
    return replace(call, price=state.price.per_token() if state.answers else None)


CUT_OFF = "cut off at what was left of the limit of the run"
"""Error of a recorded reply that is not used because the budget had cut it off."""


def replay(site: CallSite, call: ModelCall, past: CallRecord) -> ModelResponse:
    """Return the response that an interrupted run recorded."""
    (response,) = ModelMessagesTypeAdapter.validate_json(past.response)
    assert isinstance(response, ModelResponse)
    state, stage = site.state, site.unit.stage
    _count(site, response)
    state.without_usage += not response.usage.input_tokens and not response.usage.output_tokens
    kind, _ = state.first_calls.begin(stage, call.kind)
    kind.answered = True
    state.replayed[stage] += 1
    site.unit.calls.append(past)
    return response


async def record(
    site: CallSite, call: ModelCall, response: ModelResponse, counts: UsageCounts, *, attempts: int, seconds: float
) -> None:
    """Commit a response to the journal and add its cost to the budget. Raises StoreError."""
    _count(site, response)
    written = _record(site, call, response, counts, attempts=attempts, seconds=seconds)
    await _commit(site, written)
    site.unit.calls.append(written)


async def record_unused(
    site: CallSite,
    call: ModelCall,
    response: ModelResponse,
    counts: UsageCounts,
    why: str,
    *,
    attempts: int,
    seconds: float,
) -> None:
    """Commit what a reply took that is not used. No resumed run uses it as a reply. Raises StoreError.

    why: CUT_OFF, or the code of the fault.
    """
    site.state.models[response.model_name or site.model.model_name] += 1
    site.state.answered[site.unit.stage] += 1
    written = _record(site, call, response, counts, attempts=attempts, seconds=seconds)
    identity = CallId(content_hash("unused", call.id, response.usage.output_tokens, attempts))
    await _commit(site, written.model_copy(update={"id": identity, "ok": False, "error": why}))


def answered(site: CallSite, counts: UsageCounts) -> None:
    """Note that the service has answered, and spend what the answer took."""
    state, usage = site.state, counts.usage
    state.failed_in_a_row = state.garbled_in_a_row = 0
    state.outage.end()
    cost = _cost(site, counts)
    if cost is not None:
        state.price.add(usage.tokens_in, usage.tokens_out, cost)
    site.unit.call_context.budget.spend(usage, cost, estimated=counts.estimated)


def _count(site: CallSite, response: ModelResponse) -> None:
    state, stage = site.state, site.unit.stage
    state.models[response.model_name or site.model.model_name] += 1
    state.answered[stage] += 1
    if response.finish_reason == "length":
        state.cut_off[stage] += 1


def _cost(site: CallSite, counts: UsageCounts) -> float | None:
    return 0.0 if site.state.free else cost_usd(counts.priced)


def _record(
    site: CallSite, call: ModelCall, response: ModelResponse, counts: UsageCounts, *, attempts: int, seconds: float
) -> CallRecord:
    unit, usage = site.unit, counts.usage
    return CallRecord(
        id=call.id,
        run=unit.call_context.run,
        stage=unit.stage,
        unit=unit.name,
        ordinal=call.ordinal,
        kind="model",
        name=site.model.model_name,
        ok=True,
        response=ModelMessagesTypeAdapter.dump_json([response]).decode(),
        request_hash=call.hash,
        tokens_in=usage.tokens_in,
        tokens_cached=usage.tokens_cached,
        tokens_out=usage.tokens_out,
        cost_usd=_cost(site, counts),
        attempts=attempts,
        seconds=seconds,
        at=datetime.now(UTC),
    )


async def _commit(site: CallSite, written: CallRecord) -> None:
    context = site.unit.call_context
    try:
        await context.journal.record(written)
    except StoreError as error:
        context.stop(error)  # further responses could not be recorded either
        raise
