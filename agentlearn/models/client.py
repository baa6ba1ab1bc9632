"""A pydantic-ai model that limits, retries, prices and journals every request.

A `ModelClient` belongs to one unit of work (a rollout, a summary, a comparison); the units of an endpoint share its
limiter. The `seed` of a request is derived from the unit's seed and the request's index, so the answer of a seeded
service depends on nothing else. Each response is committed to the journal before it is used. A resumed run takes the
responses of the interrupted run from the journal.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from agentlearn.config.endpoint_address import without_credentials
from agentlearn.errors import EndpointError, EndpointGone, NeverAnswered, StoreError
from agentlearn.log import get_log
from agentlearn.models.call_errors import GARBLED, cause_words, endpoint_error, kind_of_failure
from agentlearn.models.call_settings import DEFAULT_CALL_SETTINGS, CallSettings, folded
from agentlearn.models.endpoint_state import EndpointState
from agentlearn.models.first_calls import unanswered
from agentlearn.models.journal import CallRecord
from agentlearn.models.limiter import Ticket
from agentlearn.models.outage import duration_words
from agentlearn.models.price import cost_usd
from agentlearn.models.refusal import SYSTEM, TOOLS
from agentlearn.models.reply import ask_once
from agentlearn.models.retry import is_garbled, is_silence, is_transient, retry_after_s
from agentlearn.models.token_estimate import request_bytes
from agentlearn.models.usage import UsageCounts, expected_call, usage_of
from agentlearn.models.work_unit import WorkUnit
from agentlearn.types.ids import CallId, content_hash, derive_seed

_LOG = get_log()

SendOnce = Callable[[bool], Awaitable[ModelResponse]]
"""Sends a request. Called with whether it is the one that asks a silent service again."""

_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_403"})
"""Error codes that concern the API key, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""

GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""
GARBLED_GONE_AFTER = 100
"""The same number for calls whose replies cannot be decoded. Such a service is there and may read other requests."""


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, as the journal identifies it."""

    id: CallId
    ordinal: int
    hash: str
    sent: frozenset[str]
    """Names of the settings and parts that it has and that a service may refuse."""
    kind: str
    """Its sampling settings as text, without the seed."""


class ModelClient(WrapperModel):
    """`model` for one unit of work. Raises EndpointError when the service fails, BudgetExceeded at a limit."""

    def __init__(
        self,
        model: Model,
        endpoint_state: EndpointState,
        unit: WorkUnit,
        call_settings: CallSettings = DEFAULT_CALL_SETTINGS,
    ) -> None:
        super().__init__(model)
        self.call_settings = call_settings
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
        seed = settings["seed"] = derive_seed(unit.seed, ordinal)
        request_hash = _request_hash(messages, settings)
        sampling = self.call_settings.applied(settings)
        request = _Request(
            unit.call_id("model", ordinal, request_hash),
            ordinal,
            request_hash,
            _sent(messages, sampling, model_request_parameters, self.call_settings),
            _kind_of_settings(sampling),
        )
        if (past := unit.recorded(request.id)) is not None:
            return self._replay(past, request)
        if self.call_settings.fold_system:
            messages, model_request_parameters = folded(messages, model_request_parameters)
        started, attempts = time.perf_counter(), 0
        size_bytes = request_bytes(messages, model_request_parameters)

        async def send(probing: bool) -> ModelResponse:
            nonlocal attempts
            state = self.endpoint_state
            expected = None
            if unit.call_context.budget.limits_calls and not state.takes_all:
                expected = expected_call(self.wrapped, state, unit.stage, messages, model_request_parameters, sampling)
            async with state.limiter.slot() as ticket, unit.call_context.one_call(expected):
                if state.outage.down and not probing:
                    raise _StillSilent
                attempts += 1
                sent = time.perf_counter()
                response = await self._answer(messages, sampling, model_request_parameters, ticket)
                ticket.answered(time.perf_counter() - sent, unit.stage)
                usage = usage_of(state, unit.stage, response, size_bytes)
                await self._record(response, usage, request, attempts, time.perf_counter() - started)
            return response

        return await self._send_until_answered(send, Random(seed), request)

    async def _answer(
        self, messages: list[ModelMessage], sampling: ModelSettings, parameters: ModelRequestParameters, ticket: Ticket
    ) -> ModelResponse:
        """Send one request and return the reply."""
        try:
            async with asyncio.timeout(self.endpoint_state.deadline_s):
                return await ask_once(self.wrapped, messages, sampling, parameters)
        except ModelHTTPError as error:
            if error.status_code == 429:
                ticket.refused(min(retry_after_s(error) or 0.0, self.endpoint_state.retry.retry_after_cap_s))
            raise

    def _replay(self, past: CallRecord, request: _Request) -> ModelResponse:
        """Return the response that an interrupted run recorded."""
        (response,) = ModelMessagesTypeAdapter.validate_json(past.response)
        assert isinstance(response, ModelResponse)
        self._count_answer(response)
        self.endpoint_state.without_usage += not response.usage.input_tokens and not response.usage.output_tokens
        kind, _ = self.endpoint_state.first_calls.begin(self.unit.stage, request.kind)
        kind.answered = True
        self.endpoint_state.replayed[self.unit.stage] += 1
        self.unit.calls.append(past)
        return response

    def _count_answer(self, response: ModelResponse) -> None:
        state, stage = self.endpoint_state, self.unit.stage
        state.models[response.model_name or self.wrapped.model_name] += 1
        state.answered[stage] += 1
        if response.finish_reason == "length":
            state.cut_off[stage] += 1
        if response.finish_reason == "content_filter":
            state.filtered[stage] += 1

    async def _record(
        self, response: ModelResponse, counts: UsageCounts, request: _Request, attempts: int, seconds: float
    ) -> None:
        """Commit a response to the journal and add its cost to the budget."""
        unit, state, usage = self.unit, self.endpoint_state, counts.usage
        state.failed_in_a_row = state.garbled_in_a_row = 0
        state.outage.end()
        self._count_answer(response)
        cost = 0.0 if state.free else cost_usd(counts.priced)
        if cost is not None:
            state.priced_usd += cost
            state.priced_tokens += usage.tokens_in + usage.tokens_out
        unit.call_context.budget.spend(usage, cost, estimated=counts.estimated)
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

    async def _send_until_answered(self, send: SendOnce, rng: Random, request: _Request) -> ModelResponse:
        """Send, and retry as the policy says. Raises EndpointError after the last attempt.

        While a service that has answered before is silent, the request waits and no attempt counts.
        """
        policy, state = self.endpoint_state.retry, self.endpoint_state
        answers_before = state.answers
        kind, number = state.first_calls.begin(self.unit.stage, request.kind)
        attempt, sent = 0, state.outage.clock()
        lost_from: float | None = None
        while True:
            counted = not state.outage.down
            try:
                async with self._turn() as probing:
                    sent = state.outage.clock()
                    response = await send(probing)
            except _StillSilent:
                continue
            except (TimeoutError, ModelAPIError, UnexpectedModelBehavior) as error:
                state.failures[kind_of_failure(error)] += 1
                if counted and lost_from is None and is_silence(error):
                    lost_from = sent
                wanted_s = retry_after_s(error)
                refused_wait = not state.outage.down and (wanted_s or 0.0) > policy.retry_after_cap_s
                last = attempt == policy.attempts - 1 or not is_transient(error) or refused_wait
                if not refused_wait and self._waits(error, sent, last=last and state.answers == answers_before):
                    attempt, answers_before = 0, state.answers
                    if lost_from is not None:
                        self.unit.give_back(state.outage.clock() - lost_from)
                    lost_from = None
                    await asyncio.sleep(0)  # another call asks next
                    continue
                if last:
                    failure = self._endpoint_error(error, attempt + 1, request.sent)
                    if state.first_calls.fail(kind, number, failure, permanent=bool(failure.refused)):
                        self.unit.call_context.stop(unanswered(kind, any_answer=self._any_answer))
                    self._count_failure(failure, answers_before)
                    await self.unit.call_context.wait_if_stopped()
                    raise failure from error
                wait_s = policy.wait_s(attempt, wanted_s, rng)
                attempt += 1
                _LOG.info(
                    "call.retried",
                    stage=self.unit.stage,
                    attempt=attempt,
                    wait_s=round(wait_s, 3),
                    cause=kind_of_failure(error),
                )
                await asyncio.sleep(wait_s)
            else:
                kind.answered = True
                return response

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[bool]:
        """Wait while the service is silent, then yield whether the block is the request that asks again.

        Neither the wait nor that request counts against the time limit of the unit of work.
        """
        outage = self.endpoint_state.outage
        with self.unit.clock_stopped() if outage.down else nullcontext():
            probing = await outage.turn()
            try:
                yield probing
            except (TimeoutError, ModelAPIError, UnexpectedModelBehavior) as error:
                if probing:
                    silent = is_silence(error) or is_garbled(error)
                    if not silent:
                        outage.end()
                    if not outage.asked(silence=silent, wanted_s=retry_after_s(error)):
                        self.unit.call_context.stop(self._gone(error))
                raise
            except BaseException:
                if probing:
                    outage.asked(silence=False)
                raise
            if probing:
                outage.asked(silence=False)

    def _waits(self, error: Exception, sent: float, *, last: bool) -> bool:
        """Whether a failed request waits for a silent service to answer again.

        sent: when it was sent. last: whether it was the last attempt of a call during which no other was answered.
        """
        state = self.endpoint_state
        outage = state.outage
        if not is_silence(error) or self.unit.call_context.stopped is not None:
            return outage.down and not outage.given_up and is_garbled(error)
        outage.silence(sent, cause_words(error))
        if outage.down:
            return not outage.given_up
        row = max(state.retry.attempts, state.limiter.in_flight + 1)
        return self._any_answer and (last or outage.in_a_row >= row) and outage.begin()

    def _gone(self, error: Exception) -> EndpointGone:
        """Return the error that ends a run whose service has been silent for too long."""
        outage = self.endpoint_state.outage
        silent, limit = duration_words(outage.silent_s), f"{outage.limit_s / 60:g}"
        return EndpointGone(
            f"{self._where} has not answered for {silent} ({cause_words(error)}), longer than --max-outage-minutes"
            f" {limit} allows: {self._endpoint_error(error, 1, frozenset()).message}"
        )

    def _count_failure(self, failure: EndpointError, answers_before: int) -> None:
        """Count a failed call, and stop the run when the service no longer answers.

        answers_before: number of answers of the endpoint when the call began.
        """
        state, in_a_row = self.endpoint_state, self.endpoint_state.answers == answers_before
        garbled = failure.code == GARBLED
        state.garbled_in_a_row += garbled and in_a_row
        state.failed_in_a_row += (
            failure.code not in _REQUEST_REFUSED and in_a_row and not (garbled and self._any_answer)
        )
        gone = state.failed_in_a_row >= GONE_AFTER or state.garbled_in_a_row >= GARBLED_GONE_AFTER
        if gone or (failure.code in _KEY_REFUSED and not state.models):
            failed = max(state.failed_in_a_row, state.garbled_in_a_row if garbled else 0)
            self.unit.call_context.stop(
                EndpointGone(f"none of the last {failed} calls has been answered: {failure.message}")
                if self._any_answer
                else NeverAnswered(f"no call has been answered ({max(failed, 1)} tried): {failure.message}")
            )

    @property
    def _any_answer(self) -> bool:
        """Whether the run has any answer, which a resumed run can use."""
        return bool(self.endpoint_state.models) or self.unit.call_context.budget.usage.requests > 0

    @property
    def _where(self) -> str:
        return without_credentials(self.wrapped.base_url or self.wrapped.system)

    def _endpoint_error(self, error: Exception, attempts: int, sent: frozenset[str]) -> EndpointError:
        return endpoint_error(
            error, where=self._where, deadline_s=self.endpoint_state.deadline_s, attempts=attempts, sent=sent
        )


class _StillSilent(Exception):
    """Raised by a request that got its slot after the service had fallen silent, so that it was not sent."""


def _sent(
    messages: list[ModelMessage],
    sampling: ModelSettings,
    parameters: ModelRequestParameters,
    call_settings: CallSettings,
) -> frozenset[str]:
    """Return the names of what a request has and a service may refuse."""
    sent = set(sampling)
    if not call_settings.fold_system and (parameters.instruction_parts or any(map(_has_system, messages))):
        sent.add(SYSTEM)
    if parameters.function_tools or parameters.output_tools:
        sent.add(TOOLS)
    return frozenset(sent)


def _has_system(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and (
        bool(message.instructions) or any(part.part_kind == "system-prompt" for part in message.parts)
    )


def _kind_of_settings(sampling: ModelSettings) -> str:
    return repr(sorted((name, str(value)) for name, value in sampling.items() if name != "seed"))


def _request_hash(messages: list[ModelMessage], settings: ModelSettings) -> str:
    """Hash of the newest message and the settings; earlier messages of the unit have records of their own."""
    last = messages[-1]
    instructions = last.instructions if isinstance(last, ModelRequest) else None
    (plain,) = ModelMessagesTypeAdapter.dump_python([last], mode="json")
    parts = [[part["part_kind"], part.get("tool_call_id"), part.get("content")] for part in plain["parts"]]
    return content_hash(len(messages), settings.get("seed"), settings.get("temperature"), instructions, parts)
