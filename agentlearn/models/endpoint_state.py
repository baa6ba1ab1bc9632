"""What all calls to one endpoint share: the limiter, the deadline, the retry policy and the counts.

The limiter bounds the requests in flight. The limit is raised additively and lowered by a factor, round by round. A
round has as many requests as may be in flight and is evaluated when all of them have ended, because refusals arrive
sooner than answers. If clearly more than a quarter of a round is refused with 429, the limit is halved, and no request
is sent before the time that the service named. Fewer refusals are normal at high load: each costs one retry, while
halving would cost half the throughput. If answers have become slow, the limit is lowered by a tenth. After any other
round it is raised by a sixteenth of its maximum.

A kind of call is who asks (rollouts, the reflector, the judge) and the settings that are sent. A service may answer
one kind and refuse another. Calls are counted in the order in which they began, because refusals come faster than
answers.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import sqrt

from agentlearn.errors import AgentlearnError, EndpointError, EndpointGone, NeverAnswered
from agentlearn.models.budget import Budget
from agentlearn.models.endings import FaultCode, ReplyFault, fault_remedy
from agentlearn.models.outage import Outage, RetryPolicy
from agentlearn.models.replicas import Replicas
from agentlearn.models.token_estimate import ObservedPrice, TokenEstimates

REFUSED = 0.25
"""Share of refused requests in a round that, exceeded by three standard errors, halves the limit."""
SLOW = 2.5
"""A round is slow when its mean answer time exceeds the best round's by this factor."""
FORGET = 1.05
"""The best round's time is multiplied by this each round, so that a lasting change becomes the new normal."""
LEAST_ROUND = 8
"""Smallest number of requests in a round, and of answers of one kind that are evaluated."""


@dataclass(slots=True)
class _Times:
    """Answer times of one kind of request."""

    total_s: float = 0.0
    """Sum over the answers of this round."""
    answers: int = 0
    """Answers in this round."""
    best_s: float = float("inf")
    """Mean answer time of the best round."""

    def slow(self) -> bool:
        """End the round and return whether it was slow. Too few answers are carried over to the next round."""
        if self.answers < LEAST_ROUND:
            return False
        mean_s, self.total_s, self.answers = self.total_s / self.answers, 0.0, 0
        slow = mean_s > SLOW * self.best_s
        self.best_s = min(self.best_s * FORGET, mean_s)
        return slow


@dataclass(slots=True, eq=False)
class _Round:
    """Consecutive requests under one limit."""

    size: int
    """Number of requests."""
    lowered: int
    """How often the limit had been lowered when the round started."""
    started: int = 0
    ended: int = 0
    refused: int = 0
    retry_at: float = 0.0
    """Time of the clock before which the service wants no request."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One request in flight."""

    limiter: "Limiter"
    round: _Round

    def answered(self, seconds: float, kind: str = "") -> None:
        """Report an answer and its time. kind: only answers of the same kind are compared."""
        self.limiter.timed(seconds, kind)

    def refused(self, retry_after_s: float | None) -> None:
        """Report a refusal with 429. retry_after_s: the wait that the service asked for."""
        self.round.refused += 1
        self.round.retry_at = max(self.round.retry_at, self.limiter.now() + (retry_after_s or 0.0))


class Limiter:
    """Slots for requests, given in the order in which they are asked for. It belongs to one event loop."""

    def __init__(self, most: int, *, adaptive: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        """most: largest number of requests in flight. adaptive: False keeps the limit at `most`."""
        self.adaptive = adaptive
        self.most = most
        """Largest number of requests in flight."""
        self.limit = float(most)
        """Present limit on requests in flight, from 1 to `most`."""
        self.in_flight = 0
        self.lowest = float(most)
        """Lowest value that `limit` has had."""
        self.refused_rounds = 0
        """How often the limit was lowered because of refusals."""
        self.slow_rounds = 0
        """How often the limit was lowered because answers became slow."""
        self.now = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed_until = 0.0
        self._times: dict[str, _Times] = {}
        self._round = self._next_round()

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[Ticket]:
        """Wait for a slot and hold it for the block."""
        if self._waiting or self.in_flight >= int(self.limit):
            await self._turn()
        else:
            self.in_flight += 1
        try:
            await self._until_open()
            ticket = self._ticket()
            try:
                yield ticket
            finally:
                self._end(ticket.round)
        finally:
            self.in_flight -= 1
            self._admit()

    def timed(self, seconds: float, kind: str) -> None:
        """Add an answer's time."""
        times = self._times.setdefault(kind, _Times())
        times.total_s, times.answers = times.total_s + seconds, times.answers + 1

    @property
    def lowered(self) -> int:
        """How often the limit was lowered."""
        return self.refused_rounds + self.slow_rounds

    def _next_round(self) -> _Round:
        return _Round(max(LEAST_ROUND, int(self.limit)), self.lowered)

    def _ticket(self) -> Ticket:
        if self._round.started >= self._round.size:
            self._round = self._next_round()
        self._round.started += 1
        return Ticket(self, self._round)

    def _end(self, of: _Round) -> None:
        """Count the end of a request. After the last of a round, set the new limit."""
        of.ended += 1
        # a round that started before the limit was lowered is ignored, so that one burst of refusals lowers it once
        if not self.adaptive or of.ended < of.size or of.lowered != self.lowered:
            return
        if of.refused > REFUSED * of.size + 3 * sqrt(REFUSED * (1 - REFUSED) * of.size):
            self.refused_rounds += 1
            self._lower(0.5)
            self._closed_until = of.retry_at
        elif sum(times.slow() for times in self._times.values()):  # sum, not any: it ends the round of every kind
            self.slow_rounds += 1
            self._lower(0.9)
        else:
            self.limit = min(float(self.most), self.limit + max(1, self.most // 16))
        self._admit()

    async def _until_open(self) -> None:
        """Wait until the service accepts requests again."""
        if (pause_s := self._closed_until - self.now()) > 0:
            await asyncio.sleep(pause_s)
            await self._until_open()  # the wait may have been extended

    async def _turn(self) -> None:
        """Wait for a slot; the one who frees it adds us to `in_flight`."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the slot was given to us while we were cancelled
                self.in_flight -= 1
                self._admit()
            raise

    def _lower(self, factor: float) -> None:
        self.limit = max(1.0, self.limit * factor)
        self.lowest = min(self.lowest, self.limit)

    def _admit(self) -> None:
        """Give free slots to those who wait."""
        while self._waiting and self.in_flight < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise its owner was cancelled
                self.in_flight += 1
                turn.set_result(None)


FIRST = 8
"""Number of calls, the first of their kind, that all fail before the run is stopped."""
GARBLED = "endpoint_garbled"
"""Error code of a call whose replies cannot be decoded."""
_GONE_AFTER = 3
"""Number of failed calls after which the service counts as gone.

Only calls during which no other call was answered count. Where many requests fail, the calls that fail in all attempts
take the longest and so end last and together, although others were answered in the meantime.
"""
_GARBLED_GONE_AFTER = 100
"""The same number for calls whose replies cannot be decoded. Such a service is there and may read other requests."""
_KEY_REFUSED = frozenset({"endpoint_401", "endpoint_402", "endpoint_403", "endpoint_quota"})
"""Error codes that concern the API key or its account, so every request would be refused."""
_REQUEST_REFUSED = frozenset({"endpoint_400", "endpoint_413", "endpoint_422"})
"""Error codes that concern one request, such as a prompt that is too long. They say nothing about the service."""
_ROLES = {"rollout": "the rollouts", "judge": "the judge", "user": "the user of a task", "probe": "the probe"}


@dataclass(slots=True)
class _KindOfCall:
    """The calls of one kind, until one is answered."""

    role: str
    begun: int = 0
    failed: int = 0
    failed_first: int = 0
    """Failed calls among the first."""
    answered: bool = False
    failure: EndpointError | None = None
    """The first failure."""
    permanent: bool = False
    """Whether the same request will be refused again, because a setting is refused."""

    def unanswered(self, *, any_answer: bool) -> AgentlearnError:
        """Return the error that ends a run in which no call of this kind was answered.

        any_answer: whether the run has other answers, which a resumed run can use.
        """
        whose = f" of {self.role}" if any_answer or self.role != _ROLES["rollout"] else ""
        unused = self.failure is not None and fault_remedy(self.failure.code) is not None
        got = "got a reply that can be used" if unused else "been answered"
        words = f"no call{whose} has {got} ({self.failed} tried): {self.failure}"
        return EndpointGone(words) if any_answer and not self.permanent else NeverAnswered(words)


@dataclass(slots=True)
class EndpointState:
    """State of one open endpoint, shared by its units of work."""

    limiter: Limiter
    deadline_s: float = 120.0
    """Seconds before one request is abandoned."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    free: bool = False
    """Whether answers cost nothing, as those of a simulated or a local model do."""
    failures: Counter[str] = field(default_factory=Counter[str])
    """Requests that got no answer, by kind of failure. Requests that a retry saved are included."""
    models: Counter[str] = field(default_factory=Counter[str])
    """Answers by the model name that the service reported."""
    answered: Counter[str] = field(default_factory=Counter[str])
    """Answers by stage, including those replayed from the journal of an interrupted run."""
    replayed: Counter[str] = field(default_factory=Counter[str])
    """Answers by stage that were taken from the journal of an interrupted run."""
    failed_in_a_row: int = 0
    """Calls that began after the last answer and failed in all attempts."""
    kinds: dict[str, _KindOfCall] = field(default_factory=dict[str, _KindOfCall])
    """The kinds of calls, and which of them have been answered."""
    name: str = "the service"
    """Endpoint, as the user named it."""
    outage: Outage = field(default_factory=Outage)
    """Whether the service is silent, and the calls that wait for it."""
    tokens: TokenEstimates = field(default_factory=TokenEstimates)
    """Estimates of what a call takes."""
    cut_off: Counter[str] = field(default_factory=Counter[str])
    """Replies by stage that ended at the limit of their request on output tokens."""
    faults: dict[FaultCode, Counter[str]] = field(default_factory=dict[FaultCode, Counter[str]])
    """Replies that were not used, by fault and by stage."""
    fault_words: dict[FaultCode, str] = field(default_factory=dict[FaultCode, str])
    """The first fault of each kind in words. The service is their subject."""
    without_usage: int = 0
    """Replies without believable numbers of tokens."""
    streamed: int = 0
    """Replies that came as a stream although none was asked for."""
    price: ObservedPrice = field(default_factory=ObservedPrice)
    """Prices that the replies with a known cost show."""
    refused_output: int | None = None
    """Smallest limit on the output, set by the budget, that the service has refused; None when it refused none."""
    refused_outputs: int = 0
    """Requests that were sent again without such a limit."""
    garbled_in_a_row: int = 0
    """Calls that began after the last answer and got only replies that cannot be decoded."""
    replicas: Replicas | None = None
    """The endpoints of a model that has several; None: it has one."""

    @property
    def takes_all(self) -> bool:
        """Whether the service waits for a fixed number of calls, so that none may be held back."""
        return not self.limiter.adaptive

    @property
    def answers(self) -> int:
        """Number of answers so far."""
        return self.models.total()

    def begin(self, stage: str, settings: str) -> tuple[_KindOfCall, int]:
        """Count a call that begins. Return its kind, and its number among those of its kind, from 0."""
        role = _ROLES.get(stage, "the model that writes the lessons")
        kind = self.kinds.setdefault(f"{role} {settings}", _KindOfCall(role))
        kind.begun += 1
        return kind, kind.begun - 1

    def failed(
        self, kind: _KindOfCall, number: int, failure: EndpointError, *, any_answer: bool, in_a_row: bool
    ) -> AgentlearnError | None:
        """Count a call that failed in all attempts. Return why the run must stop; None when it need not.

        number: of the call among those of its kind. any_answer: whether the run has any answer. in_a_row: whether no
        call was answered meanwhile.
        """
        kind.failed += 1
        kind.failed_first += number < FIRST
        kind.failure = kind.failure or failure
        kind.permanent = kind.permanent or bool(failure.refused) or fault_remedy(failure.code) is not None
        garbled = failure.code == GARBLED
        self.garbled_in_a_row += garbled and in_a_row
        self.failed_in_a_row += failure.code not in _REQUEST_REFUSED and in_a_row and not (garbled and any_answer)
        if not kind.answered and kind.failed_first >= FIRST:
            return kind.unanswered(any_answer=any_answer)
        gone = self.failed_in_a_row >= _GONE_AFTER or self.garbled_in_a_row >= _GARBLED_GONE_AFTER
        if not gone and (failure.code not in _KEY_REFUSED or self.models):
            return None
        failed = max(self.failed_in_a_row, self.garbled_in_a_row if garbled else 0)
        if any_answer:
            return EndpointGone(f"none of the last {failed} calls has been answered: {failure.message}")
        return NeverAnswered(f"no call has been answered ({max(failed, 1)} tried): {failure.message}")

    def count_fault(self, stage: str, fault: ReplyFault) -> None:
        """Count a reply that is not used."""
        self.faults.setdefault(fault.code, Counter())[stage] += 1
        self.fault_words.setdefault(fault.code, fault.words)

    def refuse_silence(self, budget: Budget) -> None:
        """Raise an error when all calls of one kind have failed. Call it when no call is in flight.

        budget: of the run; it knows whether the run has paid for any answer.
        """
        if (kind := next((one for one in self.kinds.values() if one.failed and not one.answered), None)) is not None:
            raise kind.unanswered(any_answer=budget.usage.requests > 0)
