"""One call of a model: what it asks, its requests until one is answered, and what is recorded of the reply.

A request is sent again while that may help: after a pause as the retry policy says, or when a silent service is back.
While a service that has answered before is silent, no attempt counts. Each reply is committed to the journal before it
is used.
"""

import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from agentlearn.config.endpoint_address import without_credentials
from agentlearn.errors import EndpointError, EndpointGone, StoreError
from agentlearn.models.budget import may_send
from agentlearn.models.call_context import CallRecord, WorkUnit
from agentlearn.models.call_settings import CallSettings, folded
from agentlearn.models.chat_reply import STREAMED, ask_once
from agentlearn.models.endings import FAULT_REMEDIES, ReplyFault, UnusedReply, fault_of, is_at_limit
from agentlearn.models.endpoint_state import GARBLED, EndpointState, Ticket
from agentlearn.models.outage import duration_words, is_garbled, is_silence, is_transient, retry_after_s
from agentlearn.models.refusal import SYSTEM, TOOLS, RefusedRequest
from agentlearn.models.replicas import Replica, is_of_endpoint
from agentlearn.models.token_estimate import (
    BYTES_PER_TOKEN,
    ExpectedCall,
    cost_usd,
    price_of,
    reply_bytes,
    request_bytes,
)
from agentlearn.text import visible
from agentlearn.text.log import get_log
from agentlearn.types.ids import CallId, content_hash, derive_seed
from agentlearn.types.trajectory import Usage

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_LOG = get_log()
_FAILURES = (TimeoutError, ModelAPIError, UnexpectedModelBehavior, UnusedReply)
"""What a request raises that got no usable reply."""
_UNUSED = 3
"""Largest number of requests of a call whose replies are not used."""
_ALONE = 5
"""How often one of the last calls left asks a service that answers it with status 500, before it fails."""
_CUT_OFF = "cut off at what was left of the limit of the run"
"""Error of a recorded reply that is not used because the budget had cut it off."""
_DENSEST = 8
"""A text has at least one token for this many times the size of a usual token."""
_LEARNING = frozenset({"summarise", "compare", "consolidate"})
"""Stages whose requests are stored; those of others are in the messages of their rollouts."""
_SHORT_BYTES = 256
"""A text of this size can have any number of tokens."""


_LOOK_S = 0.25
"""Seconds between two looks at whether an endpoint of several is silent."""


class _Sent(NamedTuple):
    """A request to one of several endpoints, and when it was sent."""

    replica: Replica
    at: float


class _NotSent(Exception):
    """Raised by a request that was not sent, or whose reply does not count. It is sent again, as the same attempt."""


@dataclass(frozen=True, slots=True)
class _Served:
    """What a reply took."""

    usage: Usage
    estimated: int
    """How many of its tokens are estimated."""
    cost_usd: float | None
    """None when the price is unknown."""


@dataclass(slots=True, kw_only=True)
class ModelCall:
    """One call of a unit of work."""

    model: "Model"
    state: EndpointState
    unit: WorkUnit
    id: CallId
    """Its id in the journal; a resumed run gets the same id for the same call."""
    ordinal: int
    """Index among the model calls of its unit of work, from 0."""
    hash: str
    """Hash of the request; part of the id."""
    messages: Sequence[ModelMessage]
    sampling: ModelSettings
    """The settings that are sent."""
    parameters: ModelRequestParameters
    sent: frozenset[str]
    """Names of the settings and parts that it has and that a service may refuse."""
    rng: Random
    """Draws the pauses between attempts."""
    requests: int = 0
    """Requests that were sent."""
    attempt: int = 0
    """Failed attempts that count."""
    started: float = field(default_factory=time.perf_counter)
    """When the call began."""
    lost_from: float | None = None
    """When the first attempt was sent that met silence."""
    asked_alone: int = 0
    """How often it asked again while no other request was in flight, and met status 500."""
    refused_alone: bool = False
    """Whether the service may refuse this call only, so that it fails."""
    cut_off_at: int = 0
    """Output tokens at which the last reply was cut off because the budget allowed no more; 0: it was not."""
    asked: "Model | None" = None
    """The endpoint of the last request; None: nothing was sent."""
    written: tuple[ModelResponse, bytes] | None = None
    """The last reply and its JSON."""
    answers_before: int = field(init=False)
    """Answers of the endpoint when the attempts began."""

    def __post_init__(self) -> None:
        self.answers_before = self.state.answers

    @classmethod
    def following(
        cls,
        model: "Model",
        state: EndpointState,
        unit: WorkUnit,
        given: CallSettings,
        messages: Sequence[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
    ) -> "ModelCall":
        """Return the next call of a unit of work. given: what all requests to the endpoint have in common.

        The seed of the request is derived from the unit's seed and the index of the call.
        """
        ordinal = unit.next_ordinal("model")
        seed = derive_seed(unit.seed, ordinal)
        own = ModelSettings(**(settings or {}))
        own["seed"] = seed
        last = messages[-1]
        instructions = last.instructions if isinstance(last, ModelRequest) else None
        # The newest message and the settings; earlier messages of the unit have records of their own.
        parts = _asked_parts(last)
        request_hash = content_hash(len(messages), seed, own.get("temperature"), instructions, parts)
        sampling = given.applied(own)
        sent = set[str](sampling)
        if given.fold_system:
            messages, parameters = folded(messages, parameters)
        elif parameters.instruction_parts or any(
            one.instructions or any(part.part_kind == "system-prompt" for part in one.parts)
            for one in messages
            if isinstance(one, ModelRequest)
        ):
            sent.add(SYSTEM)
        if parameters.function_tools or parameters.output_tools:
            sent.add(TOOLS)
        return cls(
            model=model,
            state=state,
            unit=unit,
            id=unit.call_id("model", ordinal, request_hash),
            ordinal=ordinal,
            hash=request_hash,
            messages=messages,
            sampling=sampling,
            parameters=parameters,
            sent=frozenset(sent),
            rng=Random(seed),
        )

    async def answer(self) -> ModelResponse:
        """Return the committed reply, from the journal or the service. Raises EndpointError after the last attempt."""
        state = self.state
        settings = repr(sorted((name, str(value)) for name, value in self.sampling.items() if name != "seed"))
        if (past := await self.unit.recorded(self.id)) is not None:
            return self._replayed(past, settings)
        kind, number = state.begin(self.unit.stage, settings)
        sent_at = state.outage.clock()
        while True:
            counted = not state.outage.down
            try:
                async with self._turn() as probing:
                    sent_at = state.outage.clock()
                    response = await self._sent_once(probing)
            except _NotSent:
                continue
            except _FAILURES as error:
                if not await self._goes_on(error, sent_at, counted=counted):
                    failure = self._failure(error, self.attempt + 1, self.sent)
                    in_a_row = not self.refused_alone and state.answers == self.answers_before
                    stop = state.failed(kind, number, failure, any_answer=self._any_answer, in_a_row=in_a_row)
                    if stop is not None:
                        self.unit.call_context.stop(stop)
                    await self.unit.call_context.wait_if_stopped()
                    raise failure from error
            else:
                kind.answered = True
                return response

    # Sending again

    async def _goes_on(self, error: Exception, sent_at: float, *, counted: bool) -> bool:
        """Wait until the request may be sent again. Return False when it may not.

        sent_at: when it was sent. counted: whether the service was there then.
        """
        policy, state = self.state.retry, self.state
        state.failures[_kind_of_failure(error)] += 1
        if self.refused_alone:
            return False
        if counted and self.lost_from is None and is_silence(error):
            self.lost_from = sent_at
        wanted_s = retry_after_s(error)
        refused_wait = not state.outage.down and (wanted_s or 0.0) > policy.retry_after_cap_s
        most = min(policy.attempts, _UNUSED) if isinstance(error, UnusedReply) else policy.attempts
        last = self.attempt >= most - 1 or not is_transient(error) or refused_wait
        alone = last and state.answers == self.answers_before
        if not refused_wait and self._waits_for_service(error, sent_at, last=alone):
            self.attempt, self.answers_before = 0, state.answers  # it counts from the first attempt again
            if self.lost_from is not None:
                self.unit.give_back(state.outage.clock() - self.lost_from)
            self.lost_from = None
            await asyncio.sleep(0)  # another call asks next
            return True
        if last:
            return False
        wait_s = policy.wait_s(self.attempt, wanted_s, self.rng)
        self.attempt += 1
        _LOG.info(
            "call.retried",
            stage=self.unit.stage,
            attempt=self.attempt,
            wait_s=round(wait_s, 3),
            cause=_kind_of_failure(error),
        )
        await asyncio.sleep(wait_s)
        return True

    def _waits_for_service(self, error: Exception, sent_at: float, *, last: bool) -> bool:
        """Whether a failed request waits for a silent service to answer again.

        sent_at: when it was sent. last: whether it was the last attempt of a call during which no other was answered.
        """
        state, outage = self.state, self.state.outage
        if not is_silence(error) or self.unit.call_context.stopped is not None:
            return outage.down and not outage.given_up and is_garbled(error)
        outage.silence(sent_at, _cause_words(error))
        if outage.down:
            return not outage.given_up
        row = max(state.retry.attempts, state.limiter.in_flight + 1)
        return self._any_answer and (last or outage.in_a_row >= row) and outage.begin()

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[bool]:
        """Wait while the service is silent, then yield whether the block is the request that asks again.

        Neither the wait nor that request counts against the time limit of the unit of work.
        """
        outage = self.state.outage
        with self.unit.clock_stopped() if outage.down else nullcontext():
            with self.unit.call_context.waiting_for_service() if outage.down else nullcontext():
                probing = await outage.turn()
            try:
                yield probing
            except _FAILURES as error:
                if probing:
                    self._asked_in_vain(error)
                raise
            except BaseException:
                if probing:
                    outage.asked(silence=False)
                raise
            if probing:
                outage.asked(silence=False)

    def _asked_in_vain(self, error: Exception) -> None:
        """End the turn of a request that asked again. Stop the run when the service has been silent for too long."""
        outage, limiter = self.state.outage, self.state.limiter
        silent = is_silence(error) or is_garbled(error)
        self.asked_alone += _kind_of_failure(error) == "status_500" and limiter.in_flight <= 1
        if self.asked_alone >= _ALONE:
            self.refused_alone = outage.let_one_fail(max(2, int(limiter.limit) // 4))
        if not silent:
            outage.end()
        if not outage.asked(silence=silent, wanted_s=retry_after_s(error)):
            self.unit.call_context.stop(
                EndpointGone(
                    f"{self._where} has not answered for {duration_words(outage.silent_s)} ({_cause_words(error)}),"
                    f" longer than --max-outage-minutes {outage.limit_s / 60:g} allows:"
                    f" {self._failure(error, 1, frozenset()).message}"
                )
            )

    # One request

    async def _sent_once(self, probing: bool) -> ModelResponse:
        """Return the recorded reply to one request. probing: whether it asks a silent service again.

        Raises _NotSent for a reply that was cut off at a limit which the budget has set, and UnusedReply for one that
        the service did not finish.
        """
        state, unit = self.state, self.unit
        async with (
            state.limiter.slot() as ticket,
            unit.call_context.one_call(
                self._expected, slots=state.limiter.most, while_held=unit.clock_stopped
            ) as reserved,
        ):
            if state.outage.down and not probing:
                raise _NotSent  # the service has fallen silent since
            limit = None if reserved is None else reserved.output_limit
            sent_at = time.perf_counter()
            response, limit = await self._reply_within(limit, ticket)
            ticket.answered(time.perf_counter() - sent_at, unit.stage)
            served = self._spent(response)
            if limit is not None and is_at_limit(response, limit):
                self.cut_off_at = limit
                await self._record(response, served, unused=_CUT_OFF)
                raise _NotSent
            own: int | None = self.sampling.get("max_tokens")
            fault = fault_of(response, self.parameters, limit=limit or own, whole=state.free)
            if fault is not None:
                state.count_fault(unit.stage, fault)
                await self._record(response, served, unused=fault.code)
                raise UnusedReply(fault)
            await self._record(response, served)
        return response

    def _expected(self) -> ExpectedCall | None:
        """Return what the call will probably take; None when it is not held back."""
        state, model = self.state, self.model
        if not self.unit.call_context.budget.limits_calls or state.takes_all:
            return None
        most_out: int | None = self.sampling.get("max_tokens")
        call = state.tokens.expected(self.unit.stage, self.messages, self.parameters, most_out)
        call = replace(call, refused_out=state.refused_output)
        if not state.free:
            size = math.ceil(call.tokens_in / 1_000) * 1_000  # few sizes, because each takes a look at the price list
            price = price_of(model.model_name, model.system, model.base_url, size)
            # Replies can name a model that has a price.
            known = state.price.per_token() if state.answers else None
            call = replace(call, price=known if price is None else (price.read / 1e6, price.written / 1e6))
        return call.cut_off_at(self.cut_off_at) if self.cut_off_at else call

    async def _reply_within(self, limit: int | None, ticket: Ticket) -> tuple[ModelResponse, int | None]:
        """Return the reply and the limit on its output that was sent, which is none where the service refuses it."""
        state = self.state
        if limit is None or not may_send(limit, state.refused_output):
            return await self._reply(self.sampling, ticket), None
        limited = ModelSettings(**self.sampling)
        limited["max_tokens"] = limit
        try:
            return await self._reply(limited, ticket), limit
        except ModelHTTPError as error:
            if error.status_code not in {400, 422}:
                raise
        response = await self._reply(self.sampling, ticket)
        state.refused_outputs += 1
        state.refused_output = min(limit, state.refused_output or limit)
        return response, None

    async def _reply(self, sampling: ModelSettings, ticket: Ticket) -> ModelResponse:
        """Return the reply of the first endpoint of the model that answers."""
        replicas = self.state.replicas
        if replicas is None:
            self.written = await self._reply_of(self.model, sampling, ticket)
            return self.written[0]
        turns, asked = replicas.turns(self.unit.replica), dict[asyncio.Task[tuple[ModelResponse, bytes]], _Sent]()

        def ask_next() -> bool:
            """Send the request to the next endpoint. Return False when there is none."""
            if (replica := next(turns, None)) is None:
                return False
            replica.begin(request := asyncio.create_task(self._reply_at(replica, sampling, ticket)))
            asked[request] = _Sent(replica, replica.clock())
            return True

        ask_next()
        more = True
        try:
            while True:
                done, _ = await asyncio.wait(
                    asked, timeout=_LOOK_S if more else None, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    patience_s = replicas.patience_s(self.unit.stage)
                    if patience_s is not None and all(
                        one.replica.silent_s(one.at) > patience_s for one in asked.values()
                    ):
                        more = ask_next()
                    continue
                task = done.pop()
                replica, sent_at = asked.pop(task)
                try:
                    self.written = await task
                except _FAILURES as error:
                    if not is_of_endpoint(error):
                        raise
                    if not asked and not ask_next():
                        raise
                    self._lost_to(_kind_of_failure(error), replica, sent_at)
                    continue
                self.unit.replica = replica
                replicas.answered(self.unit.stage, replica.clock() - sent_at)
                for slow, slow_at in asked.values():
                    slow.failed("silent", slow_at)
                    self._lost_to("silent", slow, slow_at)
                return self.written[0]
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def _lost_to(self, kind: str, replica: Replica, sent_at: float) -> None:
        """Count a request in vain to an endpoint. Its time is not the rollout's."""
        self.state.failures[kind] += 1
        self.unit.give_back(replica.clock() - sent_at)

    async def _reply_at(self, replica: Replica, sampling: ModelSettings, ticket: Ticket) -> tuple[ModelResponse, bytes]:
        sent_at = replica.clock()
        try:
            with replica.request():
                return await self._reply_of(replica.model, sampling, ticket)
        except _FAILURES as error:
            if is_of_endpoint(error):
                wanted_s = min(retry_after_s(error) or 0.0, self.state.retry.retry_after_cap_s)
                replica.failed(_kind_of_failure(error), sent_at, wanted_s=wanted_s)
            raise

    async def _reply_of(self, model: "Model", sampling: ModelSettings, ticket: Ticket) -> tuple[ModelResponse, bytes]:
        """Send the request to one endpoint and return its reply, and that as JSON."""
        state = self.state
        self.requests += 1
        self.asked = model
        try:
            async with asyncio.timeout(state.deadline_s):
                return await ask_once(model, self.messages, sampling, self.parameters, salt=self.id)
        except ModelHTTPError as error:
            if error.status_code == 429:
                ticket.refused(min(retry_after_s(error) or 0.0, state.retry.retry_after_cap_s))
            if RefusedRequest.of(error).is_filtered:
                words = f"refused the request with its content filter (status {error.status_code})"
                fault = ReplyFault("filtered", words)
                state.count_fault(self.unit.stage, fault)
                raise UnusedReply(fault) from error
            raise

    # What is kept

    def _spent(self, response: ModelResponse) -> _Served:
        """Note that the service has answered, and spend what the answer took.

        Its tokens are estimated where the service reports none, or fewer than the text can have.
        """
        state, stage = self.state, self.unit.stage
        given, asked, written = response.usage, request_bytes(self.messages, self.parameters), reply_bytes(response)

        def believed(tokens: int, size_bytes: int) -> int:
            enough = tokens * BYTES_PER_TOKEN * _DENSEST >= size_bytes
            # a service of ours counts right, whatever its tokens are
            return tokens if state.free or size_bytes <= _SHORT_BYTES or enough else 0

        reported_in, reported_out = (believed(given.input_tokens, asked), believed(given.output_tokens, written))
        tokens_in = reported_in or state.tokens.tokens_of_text(stage, asked)
        tokens_out = reported_out or state.tokens.tokens_of_text(stage, written)
        estimated = (0 if reported_in else tokens_in) + (0 if reported_out else tokens_out)
        usage = Usage(requests=1, tokens_in=tokens_in, tokens_cached=given.cache_read_tokens, tokens_out=tokens_out)
        state.without_usage += estimated > 0
        state.streamed += STREAMED in (response.provider_details or {})
        state.tokens.learn(stage, asked, usage, reported=bool(reported_in))
        if estimated:
            response = replace(response, usage=RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out))
        cost = 0.0 if state.free else cost_usd(response)
        state.failed_in_a_row = state.garbled_in_a_row = 0
        state.outage.end()
        if cost is not None:
            state.price.add(tokens_in, tokens_out, cost)
        self.unit.call_context.budget.spend(usage, cost, estimated=estimated)
        return _Served(usage, estimated, cost)

    def _replayed(self, past: CallRecord, settings: str) -> ModelResponse:
        """Return the response that an interrupted run recorded."""
        (response,) = ModelMessagesTypeAdapter.validate_json(past.response)
        assert isinstance(response, ModelResponse)
        state, stage = self.state, self.unit.stage
        self._count(response)
        state.without_usage += not response.usage.input_tokens and not response.usage.output_tokens
        kind, _ = state.begin(stage, settings)
        kind.answered = True
        state.replayed[stage] += 1
        self.unit.calls.append(past)
        return response

    def _count(self, response: ModelResponse, *, used: bool = True) -> None:
        state, stage = self.state, self.unit.stage
        state.models[response.model_name or self.model.model_name] += 1
        state.answered[stage] += 1
        if used and response.finish_reason == "length":
            state.cut_off[stage] += 1

    async def _record(self, response: ModelResponse, served: _Served, *, unused: str = "") -> None:
        """Commit a reply to the journal. Raises StoreError.

        unused: why it is not used; no resumed run takes it as a reply. Empty: it is used.
        """
        self._count(response, used=not unused)
        unit, usage, identity = self.unit, served.usage, self.id
        if unused:
            identity = CallId(content_hash("unused", self.id, response.usage.output_tokens, self.requests))
        of, as_json = self.written or (None, b"")
        if response is not of:  # its usage was estimated
            as_json = ModelMessagesTypeAdapter.dump_json([response])
        learns = unit.stage in _LEARNING
        messages = ModelMessagesTypeAdapter.dump_python(list(self.messages), mode="json") if learns else None
        written = CallRecord(
            id=identity,
            run=unit.call_context.run,
            stage=unit.stage,
            unit=unit.name,
            ordinal=self.ordinal,
            kind="model",
            name=self.model.model_name,
            ok=not unused,
            error=unused,
            response=as_json.decode(),
            request_hash=self.hash,
            asked=json.dumps(messages) if messages else "",
            tokens_in=usage.tokens_in,
            tokens_cached=usage.tokens_cached,
            tokens_out=usage.tokens_out,
            cost_usd=served.cost_usd,
            attempts=self.requests,
            seconds=time.perf_counter() - self.started,
            at=datetime.now(UTC),
        )
        try:
            await unit.journal.record(written)
        except StoreError as error:
            unit.call_context.stop(error)  # further responses could not be recorded either
            raise
        if not unused:
            unit.calls.append(written)

    # What is said of a failure

    @property
    def _any_answer(self) -> bool:
        """Whether the run has any answer, which a resumed run can use."""
        return bool(self.state.models) or self.unit.call_context.budget.usage.requests > 0

    @property
    def _where(self) -> str:
        """Address of the service, without credentials."""
        model = self.asked or self.model
        return without_credentials(model.base_url or model.system)

    def _failure(self, error: Exception, attempts: int, sent: frozenset[str]) -> EndpointError:
        """Return the error of a call that failed in all attempts. sent: what it has and a service may refuse."""
        where, tries = self._where, "once" if attempts == 1 else f"{attempts} times"
        if isinstance(error, TimeoutError):
            words = f"{where} did not answer within {self.state.deadline_s:g} s (asked {tries})"
            return EndpointError(words, code="endpoint_timeout")
        if isinstance(error, ModelHTTPError):
            refusal = RefusedRequest.of(error)
            refused = refusal.settings(sent)
            step = refusal.remedy(refused)
            words = f"{where} refused with status {error.status_code} (asked {tries}): {refusal.words}"
            failure = EndpointError(f"{words}{f'; {step}' if step else ''}", code=refusal.code)
            failure.refused = refused
            return failure
        if isinstance(error, UnusedReply):
            fault = error.fault
            words = f"{where} {fault.words} (asked {tries}); {FAULT_REMEDIES[fault.code]}"
            return EndpointError(words, code=f"endpoint_{fault.code}")
        garbled = is_garbled(error)
        cause = error if isinstance(error, UnexpectedModelBehavior) else error.__cause__ or error
        short = visible(" ".join(str(cause).split())) or type(cause).__name__
        words = f"(asked {tries}): {short if len(short) <= 300 else short[:297] + '...'}"
        if garbled:
            return EndpointError(f"{where} sent a reply that cannot be read {words}", code=GARBLED)
        return EndpointError(f"{where} could not be used {words}", code="endpoint_broken")


def _asked_parts(message: ModelMessage) -> list[list[Any]]:
    """Return kind, tool call id and content of each part, as JSON values."""
    found = [
        [one.part_kind, getattr(one, "tool_call_id", None), getattr(one, "content", None)] for one in message.parts
    ]
    if all(content is None or isinstance(content, str) for _, _, content in found):
        return found
    (plain,) = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    return [[part["part_kind"], part.get("tool_call_id"), part.get("content")] for part in plain["parts"]]


def _kind_of_failure(error: Exception) -> str:
    """Return the kind of a failed request, under which it is counted."""
    if isinstance(error, ModelHTTPError):
        return f"status_{error.status_code}"
    if isinstance(error, UnusedReply):
        return error.fault.code
    if is_garbled(error):
        return "no_completion"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def _cause_words(error: Exception) -> str:
    """Return in a few words what a request met instead of an answer."""
    if isinstance(error, ModelHTTPError):
        return f"HTTP {error.status_code}"
    return "no answer in time" if isinstance(error, TimeoutError) else "no connection"
