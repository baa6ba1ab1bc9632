"""How many requests an endpoint is given at once: as many as it takes, found by trying.

Additive increase, multiplicative decrease, round by round; a round is as many requests as may be in flight, looked at
when all of them have ended, since refusals come sooner than answers. Clearly more than a quarter of it refused as too
many halves the limit, and nobody asks before the time that the service named. Fewer refusals are the noise of a service
that is well used: they cost a retry each, halving would cost half the speed. Answers that have become slow lower the
limit by a tenth; any other round raises it by a sixteenth of the most.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import sqrt

REFUSED = 0.25
"""Share of a round above which, by three standard errors, refusals mean that the limit is too high."""
SLOW = 2.5
"""A round whose mean time is so many times the best round's is slow."""
FORGET = 1.05
"""The best round's time grows by this with each round, so that a lasting change is taken as it is."""
LEAST_ROUND = 8
"""Requests in a round, and answers of a kind, at least; fewer say little."""


@dataclass(slots=True)
class _Times:
    """How long answers of one kind took in this round, and in the best round so far."""

    total_s: float = 0.0
    answers: int = 0
    best_s: float = float("inf")

    def slow(self) -> bool:
        """Close the round: whether it was slow. Too few answers are left to the next round."""
        if self.answers < LEAST_ROUND:
            return False
        mean_s, self.total_s, self.answers = self.total_s / self.answers, 0.0, 0
        slow = mean_s > SLOW * self.best_s
        self.best_s = min(self.best_s * FORGET, mean_s)
        return slow


@dataclass(slots=True, eq=False)
class _Round:
    """Requests that began one after another under one limit."""

    size: int
    lowered: int
    """How often the limit had been lowered when it began."""
    begun: int = 0
    ended: int = 0
    refused: int = 0
    retry_at: float = 0.0


@dataclass(slots=True, eq=False)
class Ticket:
    """One request in flight, and what became of it."""

    limiter: "Limiter"
    round: _Round

    def answered(self, seconds: float, kind: str = "") -> None:
        """An answer came after so many seconds. kind: answers of different kinds are not compared in time."""
        self.limiter.timed(seconds, kind)

    def refused(self, retry_after_s: float | None) -> None:
        """It was refused as one too many. retry_after_s: when the service wants to hear from us again."""
        self.round.refused += 1
        self.round.retry_at = max(self.round.retry_at, self.limiter.now() + (retry_after_s or 0.0))


class Limiter:
    """Places for requests, in the order in which they were asked for. Belongs to one event loop."""

    def __init__(self, most: int, *, adaptive: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        """adaptive: False for a service of this process, which queues by itself: the limit then stays."""
        self.adaptive = adaptive
        self.most = most
        """Requests in flight at once, whatever the endpoint would take."""
        self.limit = float(most)
        """Requests in flight at once, as the endpoint is being used now; 1..most."""
        self.in_flight = 0
        self.lowest = float(most)
        """The lowest that `limit` has been."""
        self.refused_rounds = 0
        """How often the limit was lowered because requests were refused as too many."""
        self.slow_rounds = 0
        """How often because answers had become slow."""
        self.now = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed_until = 0.0
        self._times: dict[str, _Times] = {}
        self._round = self._next_round()

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[Ticket]:
        """A place among the requests in flight."""
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
        """Count an answer's time."""
        times = self._times.setdefault(kind, _Times())
        times.total_s, times.answers = times.total_s + seconds, times.answers + 1

    @property
    def lowered(self) -> int:
        """How often the limit was lowered."""
        return self.refused_rounds + self.slow_rounds

    def _next_round(self) -> _Round:
        return _Round(max(LEAST_ROUND, int(self.limit)), self.lowered)

    def _ticket(self) -> Ticket:
        if self._round.begun >= self._round.size:
            self._round = self._next_round()
        self._round.begun += 1
        return Ticket(self, self._round)

    def _end(self, of: _Round) -> None:
        """One more request of a round has ended; after the last one the limit is set anew."""
        of.ended += 1
        if (
            not self.adaptive or of.ended < of.size or of.lowered != self.lowered
        ):  # one burst of refusals lowers the limit once
            return
        if of.refused > REFUSED * of.size + 3 * sqrt(REFUSED * (1 - REFUSED) * of.size):
            self.refused_rounds += 1
            self._lower(0.5)
            self._closed_until = of.retry_at
        elif sum(times.slow() for times in self._times.values()):  # a sum: every kind's time begins anew
            self.slow_rounds += 1
            self._lower(0.9)
        else:
            self.limit = min(float(self.most), self.limit + max(1, self.most // 16))
        self._admit()

    async def _until_open(self) -> None:
        """Wait until the service wants to hear from us again."""
        if (pause_s := self._closed_until - self.now()) > 0:
            await asyncio.sleep(pause_s)
            await self._until_open()  # it may have been closed for longer meanwhile

    async def _turn(self) -> None:
        """Wait for a place; whoever frees it counts us in."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # a place was given to us in the moment in which we left
                self.in_flight -= 1
                self._admit()
            raise

    def _lower(self, factor: float) -> None:
        self.limit = max(1.0, self.limit * factor)
        self.lowest = min(self.lowest, self.limit)

    def _admit(self) -> None:
        """Give free places to those who wait."""
        while self._waiting and self.in_flight < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():  # else its owner has left
                self.in_flight += 1
                turn.set_result(None)
