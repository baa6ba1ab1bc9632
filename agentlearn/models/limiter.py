"""Limits the requests in flight to an endpoint, and adapts the limit to what the endpoint accepts.

The limit is raised additively and lowered by a factor, round by round. A round has as many requests as may be in flight
and is evaluated when all of them have ended, because refusals arrive sooner than answers. If clearly more than a
quarter of a round is refused with 429, the limit is halved, and no request is sent before the time that the service
named. Fewer refusals are normal at high load: each costs one retry, while halving would cost half the throughput. If
answers have become slow, the limit is lowered by a tenth. After any other round it is raised by a sixteenth of its
maximum.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import sqrt

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
