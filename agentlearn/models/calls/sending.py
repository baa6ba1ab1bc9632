"""Sends one request: waits for a slot and for room in the budget, keeps the deadline, records the reply."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.settings import ModelSettings

from agentlearn.models.budget import Reservation, may_send
from agentlearn.models.calls.answers import CUT_OFF, answered, record, record_unused
from agentlearn.models.calls.attempts import NotSent
from agentlearn.models.calls.call_site import CallSite
from agentlearn.models.calls.model_call import ModelCall
from agentlearn.models.calls.usage import expected_call, usage_of
from agentlearn.models.endings import ReplyFault, UnusedReply, fault_of, is_at_limit
from agentlearn.models.limiter import Ticket
from agentlearn.models.refusal import is_filtered
from agentlearn.models.reply import ask_once
from agentlearn.models.retry import retry_after_s
from agentlearn.models.token_estimate import ExpectedCall, request_bytes


@dataclass(slots=True)
class Sending:
    """The requests of one call."""

    site: CallSite
    call: ModelCall
    requests: int = 0
    """Requests that were sent."""
    started: float = field(default_factory=time.perf_counter)
    """When the call began."""
    cut_off_at: int = 0
    """Output tokens at which the last reply was cut off because the budget allowed no more; 0: it was not."""
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = request_bytes(self.call.messages, self.call.parameters)

    async def once(self, probing: bool) -> ModelResponse:
        """Return the recorded reply. probing: whether this request asks a silent service again."""
        site = self.site
        async with site.state.limiter.slot() as ticket, self._in_budget() as reserved:
            if site.state.outage.down and not probing:
                raise NotSent  # the service has fallen silent since
            limit = None if reserved is None else reserved.output_limit
            sent_at = time.perf_counter()
            response, limit = await self._reply_within(limit, ticket)
            ticket.answered(time.perf_counter() - sent_at, site.unit.stage)
            await self._keep(response, limit)
        return response

    async def _keep(self, response: ModelResponse, limit: int | None) -> None:
        """Record a reply. Raises NotSent for one that was cut off at a limit which the budget has set, and UnusedReply
        for one that the service did not finish."""
        site, seconds = self.site, time.perf_counter() - self.started
        counts = usage_of(site.state, site.unit.stage, response, self.size_bytes)
        answered(site, counts)
        if limit is not None and is_at_limit(response, limit):
            self.cut_off_at = limit
            await record_unused(site, self.call, response, counts, CUT_OFF, attempts=self.requests, seconds=seconds)
            raise NotSent
        own: int | None = self.call.sampling.get("max_tokens")
        fault = fault_of(response, self.call.parameters, limit=limit or own, whole=site.state.free)
        if fault is None:
            await record(site, self.call, response, counts, attempts=self.requests, seconds=seconds)
            return
        site.state.count_fault(site.unit.stage, fault)
        await record_unused(site, self.call, response, counts, fault.code, attempts=self.requests, seconds=seconds)
        raise UnusedReply(fault)

    @asynccontextmanager
    async def _in_budget(self) -> AsyncGenerator[Reservation | None]:
        """Wait for room in the budget, and hold it for the block."""
        slots, unit = self.site.state.limiter.most, self.site.unit
        async with unit.call_context.one_call(self._expected, slots=slots, while_held=unit.clock_stopped) as reserved:
            yield reserved

    def _expected(self) -> ExpectedCall | None:
        """Return what the call will probably take; None when it is not held back."""
        site, call = self.site, self.call
        if not site.unit.call_context.budget.limits_calls or site.state.takes_all:
            return None
        expected = expected_call(site.model, site.state, site.unit.stage, call.messages, call.parameters, call.sampling)
        return expected.cut_off_at(self.cut_off_at) if self.cut_off_at else expected

    async def _reply_within(self, limit: int | None, ticket: Ticket) -> tuple[ModelResponse, int | None]:
        """Return the reply and the limit on its output that was sent, which is none where the service refuses it."""
        state = self.site.state
        if limit is None or not may_send(limit, state.refused_output):
            return await self._reply(self.call.sampling, ticket), None
        limited = ModelSettings(**self.call.sampling)
        limited["max_tokens"] = limit
        try:
            return await self._reply(limited, ticket), limit
        except ModelHTTPError as error:
            if error.status_code not in {400, 422}:
                raise
        response = await self._reply(self.call.sampling, ticket)
        state.refused_outputs += 1
        state.refused_output = min(limit, state.refused_output or limit)
        return response, None

    async def _reply(self, sampling: ModelSettings, ticket: Ticket) -> ModelResponse:
        """Send the request and return the reply."""
        state, call = self.site.state, self.call
        self.requests += 1
        try:
            async with asyncio.timeout(state.deadline_s):
                return await ask_once(self.site.model, call.messages, sampling, call.parameters, salt=call.id)
        except ModelHTTPError as error:
            if error.status_code == 429:
                ticket.refused(min(retry_after_s(error) or 0.0, state.retry.retry_after_cap_s))
            if is_filtered(error):
                fault = ReplyFault(
                    "filtered", f"refused the request with its content filter (status {error.status_code})"
                )
                state.count_fault(self.site.unit.stage, fault)
                raise UnusedReply(fault) from error
            raise
