"""Sends a call again while that may help: after a pause as the retry policy says, or when a silent service is back."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelResponse

from agentlearn.errors import EndpointError, EndpointGone, NeverAnswered
from agentlearn.log import get_log
from agentlearn.models.calls.model_call import CallSite, ModelCall
from agentlearn.models.endings import FAULT_REMEDIES, UnusedReply, fault_remedy
from agentlearn.models.endpoint_state import KindOfCall, unanswered
from agentlearn.models.outage import duration_words, is_garbled, is_silence, is_transient, retry_after_s
from agentlearn.models.refusal import error_code, refused_settings, remedy, service_words
from agentlearn.text import visible

GARBLED = "endpoint_garbled"
"""Error code of a call whose replies cannot be decoded."""


def kind_of_failure(error: Exception) -> str:
    """Return the kind of a failed request, under which it is counted."""
    if isinstance(error, ModelHTTPError):
        return f"status_{error.status_code}"
    if isinstance(error, UnusedReply):
        return error.fault.code
    if is_garbled(error):
        return "no_completion"
    return "timeout" if isinstance(error, TimeoutError) else "connection"


def cause_words(error: Exception) -> str:
    """Return in a few words what a request met instead of an answer."""
    if isinstance(error, ModelHTTPError):
        return f"HTTP {error.status_code}"
    return "no answer in time" if isinstance(error, TimeoutError) else "no connection"


def endpoint_error(
    error: Exception, *, where: str, deadline_s: float, attempts: int, sent: Collection[str]
) -> EndpointError:
    """Return the error of a call that failed in all attempts.

    where: address of the service. deadline_s: time limit of a request. sent: names of what the request has and a
    service may refuse.
    """
    tries = "once" if attempts == 1 else f"{attempts} times"
    if isinstance(error, TimeoutError):
        return EndpointError(f"{where} did not answer within {deadline_s:g} s (asked {tries})", code="endpoint_timeout")
    if isinstance(error, ModelHTTPError):
        refused = refused_settings(error.status_code, error.body, sent)
        step = remedy(error.status_code, error.body, refused)
        failure = EndpointError(
            f"{where} refused with status {error.status_code} (asked {tries}): {service_words(error.body)}"
            f"{f'; {step}' if step else ''}",
            code=error_code(error),
        )
        failure.refused = refused
        return failure
    if isinstance(error, UnusedReply):
        fault = error.fault
        words = f"{where} {fault.words} (asked {tries}); {FAULT_REMEDIES[fault.code]}"
        return EndpointError(words, code=f"endpoint_{fault.code}")
    if is_garbled(error):
        words = _short(error if isinstance(error, UnexpectedModelBehavior) else error.__cause__ or error)
        return EndpointError(f"{where} sent a reply that cannot be read (asked {tries}): {words}", code=GARBLED)
    cause = error.__cause__ or error
    return EndpointError(f"{where} could not be used (asked {tries}): {_short(cause)}", code="endpoint_broken")


def _short(value: object) -> str:
    text = visible(" ".join(str(value).split())) or type(value).__name__
    return text if len(text) <= 300 else text[:297] + "..."


_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_402", "endpoint_403", "endpoint_quota"})
"""Error codes that concern the API key or its account, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""

GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""
GARBLED_GONE_AFTER = 100
"""The same number for calls whose replies cannot be decoded. Such a service is there and may read other requests."""


def failure_of(site: CallSite, error: Exception, attempts: int, sent: frozenset[str]) -> EndpointError:
    """Return the error of a call that failed in all attempts. sent: what the request has and a service may refuse."""
    return endpoint_error(error, where=site.where, deadline_s=site.state.deadline_s, attempts=attempts, sent=sent)


def count_failure(
    site: CallSite, failure: EndpointError, kind: KindOfCall, number: int, *, answers_before: int
) -> None:
    """Count a call that failed in all attempts, and stop the run when the service does not do what the run needs.

    number: of the call among those of its kind. answers_before: answers of the endpoint when the call began.
    """
    unused = fault_remedy(failure.code) is not None
    if site.state.first_calls.fail(kind, number, failure, permanent=bool(failure.refused) or unused):
        site.unit.call_context.stop(unanswered(kind, any_answer=site.any_answer))
    _count_in_a_row(site, failure, in_a_row=site.state.answers == answers_before)


def silent_for_too_long(site: CallSite, error: Exception) -> EndpointGone:
    """Return the error that ends a run whose service has been silent for too long."""
    outage = site.state.outage
    silent, limit = duration_words(outage.silent_s), f"{outage.limit_s / 60:g}"
    return EndpointGone(
        f"{site.where} has not answered for {silent} ({cause_words(error)}), longer than --max-outage-minutes"
        f" {limit} allows: {failure_of(site, error, 1, frozenset()).message}"
    )


def _count_in_a_row(site: CallSite, failure: EndpointError, *, in_a_row: bool) -> None:
    """Count failures without an answer between them. Stop the run after too many, or when the key is refused."""
    state, garbled = site.state, failure.code == GARBLED
    state.garbled_in_a_row += garbled and in_a_row
    state.failed_in_a_row += failure.code not in _REQUEST_REFUSED and in_a_row and not (garbled and site.any_answer)
    gone = state.failed_in_a_row >= GONE_AFTER or state.garbled_in_a_row >= GARBLED_GONE_AFTER
    if gone or (failure.code in _KEY_REFUSED and not state.models):
        failed = max(state.failed_in_a_row, state.garbled_in_a_row if garbled else 0)
        site.unit.call_context.stop(
            EndpointGone(f"none of the last {failed} calls has been answered: {failure.message}")
            if site.any_answer
            else NeverAnswered(f"no call has been answered ({max(failed, 1)} tried): {failure.message}")
        )


_LOG = get_log()

SendOnce = Callable[[bool], Awaitable[ModelResponse]]
"""Sends a request. Called with whether it is the one that asks a silent service again."""
_FAILURES = (TimeoutError, ModelAPIError, UnexpectedModelBehavior, UnusedReply)
"""What a request raises that got no usable reply."""
_UNUSED = 3
"""Largest number of requests of a call whose replies are not used."""
_ALONE = 5
"""How often one of the last calls left asks a service that answers it with status 500, before it fails."""


class NotSent(Exception):
    """Raised by a request that was not sent, or whose reply does not count. It is sent again, as the same attempt."""


@dataclass(slots=True)
class Attempts:
    """The attempts of one call. While a service that has answered before is silent, no attempt counts."""

    site: CallSite
    call: ModelCall
    attempt: int = 0
    """Number of failed attempts that count."""
    lost_from: float | None = None
    """When the first attempt was sent that met silence."""
    asked_alone: int = 0
    """How often it asked again while no other request was in flight, and met status 500."""
    refused_alone: bool = False
    """Whether the service may refuse this call only, so that it fails."""
    answers_before: int = field(init=False)
    """Answers of the endpoint when the attempts began."""
    rng: Random = field(init=False)

    def __post_init__(self) -> None:
        self.answers_before, self.rng = self.site.state.answers, Random(self.call.seed)

    async def until_answered(self, send: SendOnce) -> ModelResponse:
        """Return the reply. Raises EndpointError after the last attempt."""
        state = self.site.state
        kind, number = state.first_calls.begin(self.site.unit.stage, self.call.kind)
        sent_at = state.outage.clock()
        while True:
            counted = not state.outage.down
            try:
                async with self._turn() as probing:
                    sent_at = state.outage.clock()
                    response = await send(probing)
            except NotSent:
                continue
            except _FAILURES as error:
                if not await self._goes_on(error, sent_at, counted=counted):
                    failure = failure_of(self.site, error, self.attempt + 1, self.call.sent)
                    answers_before = -1 if self.refused_alone else self.answers_before
                    count_failure(self.site, failure, kind, number, answers_before=answers_before)
                    await self.site.unit.call_context.wait_if_stopped()
                    raise failure from error
            else:
                kind.answered = True
                return response

    async def _goes_on(self, error: Exception, sent_at: float, *, counted: bool) -> bool:
        """Wait until the request may be sent again. Return False when it may not.

        sent_at: when it was sent. counted: whether the service was there then.
        """
        policy, state = self.site.state.retry, self.site.state
        state.failures[kind_of_failure(error)] += 1
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
            self._begin_again()
            await asyncio.sleep(0)  # another call asks next
            return True
        if last:
            return False
        await self._pause(error, wanted_s)
        return True

    def _begin_again(self) -> None:
        """Count from the first attempt again, and give the unit of work the time that it lost."""
        state = self.site.state
        self.attempt, self.answers_before = 0, state.answers
        if self.lost_from is not None:
            self.site.unit.give_back(state.outage.clock() - self.lost_from)
        self.lost_from = None

    async def _pause(self, error: Exception, wanted_s: float | None) -> None:
        """Wait before the next attempt. wanted_s: the wait that the service asked for."""
        wait_s = self.site.state.retry.wait_s(self.attempt, wanted_s, self.rng)
        self.attempt += 1
        _LOG.info(
            "call.retried",
            stage=self.site.unit.stage,
            attempt=self.attempt,
            wait_s=round(wait_s, 3),
            cause=kind_of_failure(error),
        )
        await asyncio.sleep(wait_s)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[bool]:
        """Wait while the service is silent, then yield whether the block is the request that asks again.

        Neither the wait nor that request counts against the time limit of the unit of work.
        """
        outage = self.site.state.outage
        with self.site.unit.clock_stopped() if outage.down else nullcontext():
            with self.site.unit.call_context.waiting_for_service() if outage.down else nullcontext():
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
        outage = self.site.state.outage
        silent = is_silence(error) or is_garbled(error)
        self.asked_alone += kind_of_failure(error) == "status_500" and self.site.state.limiter.in_flight <= 1
        if self.asked_alone >= _ALONE:
            self.refused_alone = outage.let_one_fail(max(2, int(self.site.state.limiter.limit) // 4))
        if not silent:
            outage.end()
        if not outage.asked(silence=silent, wanted_s=retry_after_s(error)):
            self.site.unit.call_context.stop(silent_for_too_long(self.site, error))

    def _waits_for_service(self, error: Exception, sent_at: float, *, last: bool) -> bool:
        """Whether a failed request waits for a silent service to answer again.

        sent_at: when it was sent. last: whether it was the last attempt of a call during which no other was answered.
        """
        state = self.site.state
        outage = state.outage
        if not is_silence(error) or self.site.unit.call_context.stopped is not None:
            return outage.down and not outage.given_up and is_garbled(error)
        outage.silence(sent_at, cause_words(error))
        if outage.down:
            return not outage.given_up
        row = max(state.retry.attempts, state.limiter.in_flight + 1)
        return self.site.any_answer and (last or outage.in_a_row >= row) and outage.begin()
