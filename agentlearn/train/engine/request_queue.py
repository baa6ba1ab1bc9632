"""The queue between the event loops that make requests and the thread that runs the model."""

import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Literal

from agentlearn.errors import EndpointError
from agentlearn.train.engine.round_barrier import RoundBarrier
from agentlearn.train.engine.sampling_request import SamplingRequest

StepStart = Literal["step", "step_after_change", "closed"]
"""How a step begins. `step_after_change`: the weights may have changed, so cached keys and values are wrong."""


class RequestQueue:
    """Requests that have not joined the batch yet, and when the engine may run its next step. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[SamplingRequest] = deque()
        self._round: deque[SamplingRequest] = deque()
        """Requests of the current round that have not joined yet, ordered by seed."""
        self._barrier: RoundBarrier | None = None
        self._pauses = 0
        self._stepping = False
        self._cache_is_stale = False
        self._closing = False

    def submit(self, request: SamplingRequest) -> None:
        """Add a request. Raises EndpointError after `close`."""
        with self._changed:
            if self._closing:
                raise engine_closed()
            self._waiting.append(request)
            self._changed.notify_all()

    def submit_round(self, requests: Sequence[SamplingRequest]) -> None:
        """Add a whole round of requests, inside `rounds`. They start together when the batch is empty.

        Raises EndpointError after `close`.
        """
        with self._changed:
            if self._closing:
                raise engine_closed()
            self._round.extend(requests)
            self._changed.notify_all()

    def close(self) -> None:
        """Make the next `begin_step` return `closed`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    @contextmanager
    def paused(self) -> Generator[None]:
        """No step runs inside the block. The step after it drops all cached keys and values."""
        with self._changed:
            self._pauses += 1
            self._changed.wait_for(lambda: not self._stepping)
        try:
            yield
        finally:
            with self._changed:
                self._pauses -= 1
                self._cache_is_stale = True
                self._changed.notify_all()

    @contextmanager
    def rounds(self, conversations: int, *, at_once: int) -> Generator[RoundBarrier]:
        """Serve requests in rounds while the block runs.

        conversations: how many take part; each must call `leave` when it ends. at_once: how many of them run at the
        same time. Nobody else may send requests inside the block.
        """
        barrier = RoundBarrier(conversations, at_once, self._recheck)
        with self._changed:
            # Cached keys and values of earlier requests would change the bits of what follows.
            self._barrier, self._cache_is_stale = barrier, True
        try:
            yield barrier
        finally:
            with self._changed:
                self._barrier = None
                self._waiting.extendleft(reversed(self._round))
                self._round.clear()
                self._changed.notify_all()

    def begin_step(self, *, busy: bool) -> StepStart:
        """Wait until a step may run. busy: whether the batch holds requests already. Call `end_step` afterwards."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or (not self._pauses and self._has_work(busy)))
            if self._closing:
                return "closed"
            self._stepping = True
            stale, self._cache_is_stale = self._cache_is_stale, False
            return "step_after_change" if stale else "step"

    def end_step(self) -> None:
        """Let paused callers go on."""
        with self._changed:
            self._stepping = False
            self._changed.notify_all()

    def take(self) -> list[SamplingRequest]:
        """Remove and return the requests that may join the batch now, without cancelled ones."""
        with self._changed:
            ready = self._ready()
            requests = [request for request in ready if not request.cancelled]
            ready.clear()
        return requests

    def put_back(self, requests: Sequence[SamplingRequest]) -> None:
        """Return requests that could not join the batch to the front of the queue, in their order."""
        with self._changed:
            self._ready().extendleft(reversed(requests))

    def drain(self) -> list[SamplingRequest]:
        """Remove and return all requests."""
        with self._changed:
            requests = [*self._round, *self._waiting]
            self._round.clear()
            self._waiting.clear()
        return requests

    def _recheck(self) -> None:
        """Let the engine see whether a step may run now."""
        with self._changed:
            self._changed.notify_all()

    def _ready(self) -> deque[SamplingRequest]:
        return self._waiting if self._barrier is None else self._round

    def _has_work(self, busy: bool) -> bool:
        """Whether there is something to compute. Starts the next round when all its requests are here."""
        if busy or self._round:
            return True
        if self._barrier is None:
            return bool(self._waiting)
        here = [request for request in self._waiting if not request.cancelled]
        if not here or len(here) < self._barrier.expected:
            return False
        self._round.extend(sorted(here, key=lambda request: (request.sampling.seed, request.ids)))
        self._waiting.clear()
        return True


def engine_closed() -> EndpointError:
    """The error for requests of an engine that has been closed."""
    return EndpointError("the model was closed before it had answered", code="engine_closed")
