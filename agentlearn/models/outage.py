"""What calls do while a service does not answer: they wait, and one of them asks again from time to time.

Silence is a refused or reset connection, a timeout, or a status that says "later". A service that answers anything else
is there. An outage begins when all attempts of a call, or as many requests in a row as were in flight, met silence. It
ends with the first answer. Silence is counted from the first request that met it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite
from random import Random

from pydantic import Field

from agentlearn.models.refusal import RefusedRequest
from agentlearn.text.log import get_log
from agentlearn.types.value import Value

_LOG = get_log()

FIRST_WAIT_S = 0.5
"""Seconds before a silent service is asked again for the first time; each further wait is twice as long."""
LONGEST_WAIT_S = 15.0
"""Longest wait between two requests to a silent service, unless it asks for a longer one."""
TOLD_AFTER_S = 3.0
"""Seconds of silence after which an outage is reported."""


@dataclass(slots=True)
class Outage:
    """Whether one endpoint is silent, and the calls that wait for it. It belongs to one event loop."""

    limit_s: float = 0.0
    """Longest silence that is waited for; 0: do not wait."""
    name: str = "the service"
    """Name of the endpoint, for messages."""
    clock: Callable[[], float] = time.monotonic
    tell: "Callable[[str, bool], None] | None" = None
    """Called with a sentence when an outage is reported and when it is over, and with whether it goes on. None: the
    sentence is logged."""
    down: bool = False
    """Whether calls wait."""
    given_up: bool = False
    """Whether the limit has passed, so that nobody waits any longer."""
    cause: str = ""
    """What the last request met, in words."""
    in_a_row: int = 0
    """Requests since the last answer that met silence."""
    count: int = 0
    """Outages that were reported."""
    waited_s: float = 0.0
    """How long the reported outages took, those that are over."""
    let_fail: int = 0
    """Calls that were let fail since the last answer, because the service may refuse only them."""
    _since: float | None = None
    """When the first request that met silence was sent."""
    _told: bool = False
    _asking: bool = False
    """Whether a call has been let through to ask again."""
    _asked: int = 0
    """How often the service has been asked in this outage."""
    _next_at: float = 0.0
    """When to ask again."""
    _waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque["asyncio.Future[None]"])

    @property
    def silent_s(self) -> float:
        """Seconds since the first request that met silence; 0 when the service answers."""
        return 0.0 if self._since is None else self.clock() - self._since

    @property
    def total_s(self) -> float:
        """How long the reported outages have taken."""
        return self.waited_s + (self.silent_s if self._told else 0.0)

    def silence(self, sent_at: float, cause: str) -> None:
        """Count a request that met silence. sent_at: when it was sent."""
        self.in_a_row += 1
        self.cause = cause
        if self._since is None or sent_at < self._since:
            self._since = sent_at

    def begin(self) -> bool:
        """Let calls wait from now on. Return False when the silence has already lasted too long."""
        if not self.down and not self.given_up and self.silent_s < self.limit_s:
            self.down, self._asked = True, 0
            self._next_at = self.clock() + FIRST_WAIT_S
        return self.down

    def end(self) -> None:
        """The service has answered: let all calls go on."""
        if self._told:
            self.count += 1
            self.waited_s += self.silent_s
            self._say(f"{self.name} answers again after {duration_words(self.silent_s)}; the run goes on", silent=False)
        self.down, self._told, self._since, self.in_a_row, self.let_fail = False, False, None, 0, 0
        self._wake(len(self._waiting))

    def let_one_fail(self, few: int) -> bool:
        """Let a call fail that asked again and again. Return False when many wait, or many have failed since an answer.

        few: this many calls that are left may all be refused for what they ask. More are not.
        """
        if self.let_fail + len(self._waiting) >= few:
            return False
        self.down, self.let_fail = False, self.let_fail + 1
        self._wake(len(self._waiting))
        return True

    async def turn(self) -> bool:
        """Wait while the service is silent. Return whether this call is the one that asks again."""
        while self.down and not self.given_up:
            if self._asking:
                await self._wait()
                continue
            self._asking = True
            try:
                await self._until_next()
            except BaseException:
                self._asking = False
                self._wake(1)
                raise
            if self.down:
                return True
            self._asking = False
        return False

    def asked(self, *, silence: bool, wanted_s: float | None = None) -> bool:
        """End the request of the call that asked again. Return whether there is still time to wait.

        wanted_s: the wait that the service asked for.
        """
        self._asking = False
        if not silence or not self.down:
            self._wake(1)
            return True
        self._asked += 1
        left_s = self.limit_s - self.silent_s
        if left_s <= 0:
            self.given_up = True
            self._wake(len(self._waiting))
            return False
        wait_s = max(min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**self._asked), wanted_s or 0.0)
        self._next_at = self.clock() + min(wait_s, left_s)
        if not self._told and self.silent_s >= min(TOLD_AFTER_S, self.limit_s / 2):
            self._told = True
            until = datetime.now().astimezone() + timedelta(seconds=left_s)
            self._say(
                f"no answer from {self.name} for {duration_words(self.silent_s)} ({self.cause}); asking again until"
                f" {until:%H:%M:%S}",
                silent=True,
            )
        self._wake(1)
        return True

    def _say(self, words: str, *, silent: bool) -> None:
        if self.tell is None:
            _LOG.warning("endpoint.silent" if silent else "endpoint.answers", reason=words)
        else:
            self.tell(words, silent)

    async def _until_next(self) -> None:
        """Wait until it is time to ask again, or until a request that is still in flight is answered."""
        while self.down and (wait_s := self._next_at - self.clock()) > 0:
            ended = self._future()
            try:
                await asyncio.wait([ended], timeout=wait_s)
            finally:
                self._forget(ended)  # a wake-up for it would be lost

    async def _wait(self) -> None:
        turn = self._future()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake(1)
            raise
        finally:
            self._forget(turn)

    def _future(self) -> "asyncio.Future[None]":
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        return turn

    def _forget(self, turn: "asyncio.Future[None]") -> None:
        if turn in self._waiting:
            self._waiting.remove(turn)

    def _wake(self, most: int) -> None:
        """Wake the calls that have waited longest."""
        while most and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                most -= 1


def duration_words(seconds: float) -> str:
    """Return a duration in words: `40 s`, `2.5 min`, `2.5 h`."""
    if seconds < 6_000:
        return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


LATER = frozenset({408, 409, 425, 429})
"""Statuses below 500 that say that the same request may succeed later."""


class RetryPolicy(Value):
    """Exponential back-off with full jitter: the wait is uniform in 0..min(cap_s, base_s * 2^attempt)."""

    attempts: int = Field(default=5, ge=1)
    """Largest number of requests, including the first."""
    base_s: float = Field(default=0.5, ge=0)
    """Longest wait after the first failure."""
    cap_s: float = Field(default=30.0, ge=0)
    """Longest wait after any failure."""
    retry_after_cap_s: float = Field(default=120.0, ge=0)
    """A request is not sent again when the service asks for a longer wait than this."""

    def wait_s(self, attempt: int, retry_after_s: float | None, rng: Random) -> float:
        """Return the seconds to wait after a failure. attempt: from 0. retry_after_s: a lower bound."""
        jitter = rng.uniform(0.0, min(self.cap_s, self.base_s * 2**attempt))
        return max(jitter, retry_after_s or 0.0)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: rate limits, 5xx, connections, timeouts, replies of no use."""
    from pydantic_ai import exceptions as ai

    from agentlearn.models.endings import UnusedReply

    if isinstance(error, UnusedReply):
        return error.fault.asked_again
    transient = (
        TimeoutError,
        ai.ModelRateLimitError,
        ai.ModelUnavailableError,
        ai.ModelServerError,
        ai.ModelConnectionError,
        ai.ModelRequestTimeout,
    )
    if isinstance(error, ai.ModelHTTPError):
        refusal = RefusedRequest.of(error)
        if refusal.is_out_of_quota or refusal.is_accident:
            return refusal.is_accident
    if isinstance(error, transient):
        return True
    if isinstance(error, ai.ModelHTTPError):
        return error.status_code in LATER or error.status_code >= 500
    return is_garbled(error)


def is_garbled(error: BaseException) -> bool:
    """Whether a response came that is not a chat completion: not JSON, not HTTP, or a redirection."""
    import httpx2
    from openai import APIStatusError
    from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

    if isinstance(error, UnexpectedModelBehavior):
        return True
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelHTTPError):
        return False
    cause = error.__cause__
    while cause is not None:
        match cause:
            case APIStatusError() if cause.status_code < 400:
                return True
            case httpx2.RemoteProtocolError() if "without sending a response" not in str(cause):
                return True  # a closed connection is silence
            case ValueError() | httpx2.DecodingError() | httpx2.TooManyRedirects():  # JSONDecodeError is a ValueError
                return True
            case _:
                pass
        cause = cause.__cause__
    return False


def is_silence(error: BaseException) -> bool:
    """Whether the service is not there at the moment: no connection, no answer in time, or a status for "later"."""
    from pydantic_ai.exceptions import ModelHTTPError

    from agentlearn.models.endings import UnusedReply

    if isinstance(error, ModelHTTPError):
        return (error.status_code in LATER or error.status_code >= 500) and not RefusedRequest.of(error).is_out_of_quota
    return is_transient(error) and not is_garbled(error) and not isinstance(error, UnusedReply)


def retry_after_s(error: BaseException) -> float | None:
    """Return the wait in seconds that the service asked for; None when it did not."""
    from pydantic_ai.exceptions import ModelAPIError

    wanted_s = error.retry_after if isinstance(error, ModelAPIError) else None
    return wanted_s if wanted_s is not None and isfinite(wanted_s) and wanted_s >= 0 else None
