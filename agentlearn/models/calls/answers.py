"""What is done with a reply: it is counted, paid for and committed to the journal, or taken from the journal."""

from datetime import UTC, datetime

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse

from agentlearn.errors import StoreError
from agentlearn.models.calls.call_site import CallSite
from agentlearn.models.calls.model_call import ModelCall
from agentlearn.models.calls.usage import UsageCounts
from agentlearn.models.journal import CallRecord
from agentlearn.models.price import cost_usd
from agentlearn.types.ids import CallId, content_hash

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
