"""Sends one request: waits for a slot and for room in the budget, keeps the deadline, records the reply."""

import asyncio
import time
from dataclasses import dataclass, field

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse

from agentlearn.models.calls.answers import answered, record
from agentlearn.models.calls.attempts import NotSent
from agentlearn.models.calls.call_site import CallSite
from agentlearn.models.calls.model_call import ModelCall
from agentlearn.models.calls.usage import expected_call, usage_of
from agentlearn.models.limiter import Ticket
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
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = request_bytes(self.call.messages, self.call.parameters)

    async def once(self, probing: bool) -> ModelResponse:
        """Return the recorded reply. probing: whether this request asks a silent service again."""
        site = self.site
        async with site.state.limiter.slot() as ticket, site.unit.call_context.one_call(self._expected()):
            if site.state.outage.down and not probing:
                raise NotSent  # the service has fallen silent since
            self.requests += 1
            sent_at = time.perf_counter()
            response = await self._reply(ticket)
            ticket.answered(time.perf_counter() - sent_at, site.unit.stage)
            counts = usage_of(site.state, site.unit.stage, response, self.size_bytes)
            answered(site, counts)
            seconds = time.perf_counter() - self.started
            await record(site, self.call, response, counts, attempts=self.requests, seconds=seconds)
        return response

    def _expected(self) -> ExpectedCall | None:
        """Return what the call will probably take; None when it is not held back."""
        site, call = self.site, self.call
        if not site.unit.call_context.budget.limits_calls or site.state.takes_all:
            return None
        return expected_call(site.model, site.state, site.unit.stage, call.messages, call.parameters, call.sampling)

    async def _reply(self, ticket: Ticket) -> ModelResponse:
        """Send the request and return the reply."""
        state, call = self.site.state, self.call
        try:
            async with asyncio.timeout(state.deadline_s):
                return await ask_once(self.site.model, call.messages, call.sampling, call.parameters)
        except ModelHTTPError as error:
            if error.status_code == 429:
                ticket.refused(min(retry_after_s(error) or 0.0, state.retry.retry_after_cap_s))
            raise
