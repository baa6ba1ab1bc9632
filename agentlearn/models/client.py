"""A pydantic-ai model that limits, retries, prices and journals every request.

A `ModelClient` belongs to one unit of work (a rollout, a summary, a comparison); the units of an endpoint share its
limiter. The `seed` of a request is derived from the unit's seed and the request's index, so the answer of a seeded
service depends on nothing else. Each response is committed to the journal before it is used. A resumed run takes the
responses of the interrupted run from the journal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agentlearn.errors import EndpointError, EndpointGone, StoreError
from agentlearn.log import get_log
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.journal import CallRecord
from agentlearn.models.price import cost_usd
from agentlearn.models.retry import is_garbled, is_transient, retry_after_s
from agentlearn.models.work_unit import WorkUnit
from agentlearn.text import storable
from agentlearn.types.ids import CallId, content_hash, derive_seed
from agentlearn.types.trajectory import Usage

_LOG = get_log()

SendOnce = Callable[[], Awaitable[ModelResponse]]

_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_403"})
"""Error codes that concern the API key, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""

GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, as the journal identifies it."""

    id: CallId
    ordinal: int
    hash: str


class ModelClient(WrapperModel):
    """`model` for one unit of work. Raises EndpointError when the service fails, BudgetExceeded at a limit."""

    def __init__(self, model: Model, endpoint_state: EndpointState, unit: WorkUnit) -> None:
        super().__init__(model)
        self.endpoint_state = endpoint_state
        self.unit = unit

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the committed response, from the journal or from the service."""
        unit, ordinal = self.unit, self.unit.next_ordinal("model")
        settings = ModelSettings(**(model_settings or {}))
        settings["seed"] = derive_seed(unit.seed, ordinal)
        request_hash = _request_hash(messages, settings)
        request = _Request(unit.call_id("model", ordinal, request_hash), ordinal, request_hash)
        if (past := unit.recorded(request.id)) is not None:
            return self._replay(past)
        started, attempts = time.perf_counter(), 0

        async def send() -> ModelResponse:
            nonlocal attempts
            async with self.endpoint_state.limiter.slot() as ticket, unit.call_context.one_call():
                attempts += 1
                sent = time.perf_counter()
                try:
                    async with asyncio.timeout(self.endpoint_state.deadline_s):
                        given = await self.wrapped.request(messages, settings, model_request_parameters)
                except ModelHTTPError as error:
                    if error.status_code == 429:
                        ticket.refused(retry_after_s(error))
                    raise
                ticket.answered(time.perf_counter() - sent, unit.stage)
                response = _storable(given)
                await self._record(response, request, attempts, time.perf_counter() - started)
            return response

        return await self._send_until_answered(send, Random(settings["seed"]))

    def _replay(self, past: CallRecord) -> ModelResponse:
        """Return the response that an interrupted run recorded."""
        (response,) = ModelMessagesTypeAdapter.validate_json(past.response)
        assert isinstance(response, ModelResponse)
        self._count_answer(response)
        self.endpoint_state.replayed[self.unit.stage] += 1
        self.unit.calls.append(past)
        return response

    def _count_answer(self, response: ModelResponse) -> None:
        self.endpoint_state.models[response.model_name or self.wrapped.model_name] += 1
        self.endpoint_state.answered[self.unit.stage] += 1

    async def _record(self, response: ModelResponse, request: _Request, attempts: int, seconds: float) -> None:
        """Commit a response to the journal and add its cost to the budget."""
        unit = self.unit
        self.endpoint_state.failed_in_a_row = 0
        self._count_answer(response)
        usage, cost = _usage(response), 0.0 if self.endpoint_state.free else cost_usd(response)
        unit.call_context.budget.spend(usage, cost)
        record = CallRecord(
            id=request.id,
            run=unit.call_context.run,
            stage=unit.stage,
            unit=unit.name,
            ordinal=request.ordinal,
            kind="model",
            name=self.wrapped.model_name,
            ok=True,
            response=ModelMessagesTypeAdapter.dump_json([response]).decode(),
            request_hash=request.hash,
            tokens_in=usage.tokens_in,
            tokens_cached=usage.tokens_cached,
            tokens_out=usage.tokens_out,
            cost_usd=cost,
            attempts=attempts,
            seconds=seconds,
            at=datetime.now(UTC),
        )
        try:
            await unit.call_context.journal.record(record)
        except StoreError as error:
            unit.call_context.stop(error)  # further responses could not be recorded either
            raise
        unit.calls.append(record)

    async def _send_until_answered(self, send: SendOnce, rng: Random) -> ModelResponse:
        """Send, and retry as the policy says. Raises EndpointError after the last attempt."""
        policy, answers_before = self.endpoint_state.retry, self.endpoint_state.answers
        for attempt in range(policy.attempts):
            try:
                return await send()
            except (TimeoutError, ModelAPIError, UnexpectedModelBehavior) as error:
                self.endpoint_state.failures[_kind(error)] += 1
                wanted_s = retry_after_s(error)
                last = attempt == policy.attempts - 1
                if last or not is_transient(error) or (wanted_s or 0.0) > policy.retry_after_cap_s:
                    failure = self._endpoint_error(error, attempt + 1)
                    self._count_failure(failure, answers_before)
                    await self.unit.call_context.wait_if_stopped()
                    raise failure from error
                wait_s = policy.wait_s(attempt, wanted_s, rng)
                _LOG.info(
                    "call.retried",
                    stage=self.unit.stage,
                    attempt=attempt + 1,
                    wait_s=round(wait_s, 3),
                    cause=_kind(error),
                )
                await asyncio.sleep(wait_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _count_failure(self, failure: EndpointError, answers_before: int) -> None:
        """Count a failed call, and stop the run when the service no longer answers.

        answers_before: number of answers of the endpoint when the call began.
        """
        state = self.endpoint_state
        state.failed_in_a_row += failure.code not in _REQUEST_REFUSED and state.answers == answers_before
        if state.failed_in_a_row >= GONE_AFTER or (failure.code in _KEY_REFUSED and not state.models):
            calls = f"none of the last {state.failed_in_a_row} calls has" if state.models else "no call has"
            self.unit.call_context.stop(EndpointGone(f"{calls} been answered: {failure.message}"))

    def _endpoint_error(self, error: Exception, attempts: int) -> EndpointError:
        where = self.wrapped.base_url or self.wrapped.system
        tries = "once" if attempts == 1 else f"{attempts} times"
        if isinstance(error, TimeoutError):
            return EndpointError(
                f"{where} did not answer within {self.endpoint_state.deadline_s:g} s (asked {tries})",
                code="endpoint_timeout",
            )
        if isinstance(error, ModelHTTPError):
            return EndpointError(
                f"{where} refused with status {error.status_code} (asked {tries}): {_short(error.body)}",
                code=f"endpoint_{error.status_code}",
            )
        cause = error.__cause__ or error
        return EndpointError(f"{where} could not be used (asked {tries}): {_short(cause)}", code="endpoint_broken")


def _usage(response: ModelResponse) -> Usage:
    """The tokens that the service reports for one response."""
    usage = response.usage
    return Usage(
        requests=1, tokens_in=usage.input_tokens, tokens_cached=usage.cache_read_tokens, tokens_out=usage.output_tokens
    )


def _kind(error: Exception) -> str:
    if isinstance(error, ModelHTTPError):
        return f"status_{error.status_code}"
    if is_garbled(error):
        return "no_completion"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _storable(response: ModelResponse) -> ModelResponse:
    """The response without lone surrogates, which can be neither stored nor sent back."""
    return replace(response, parts=[_storable_part(part) for part in response.parts])


def _storable_part(part: ModelResponsePart) -> ModelResponsePart:
    match part:
        case TextPart() | ThinkingPart():
            return part if storable(part.content) == part.content else replace(part, content=storable(part.content))
        case ToolCallPart(args=str(args)):
            return part if storable(args) == args else replace(part, args=storable(args))
        case _:
            return part


def _short(value: object) -> str:
    text = " ".join(str(value).split()) or type(value).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def _request_hash(messages: list[ModelMessage], settings: ModelSettings) -> str:
    """Hash of the newest message and the settings; earlier messages of the unit have records of their own."""
    last = messages[-1]
    instructions = last.instructions if isinstance(last, ModelRequest) else None
    (plain,) = ModelMessagesTypeAdapter.dump_python([last], mode="json")
    parts = [[part["part_kind"], part.get("tool_call_id"), part.get("content")] for part in plain["parts"]]
    return content_hash(len(messages), settings.get("seed"), settings.get("temperature"), instructions, parts)
