"""A transformers model as an `Engine`: requests join and leave the batch between two tokens.

One thread runs the model. Weights may be changed only inside `paused()`. Everything computed before is then dropped,
and answers in progress continue with the new weights.
"""

import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.train.engine.active_batch import ActiveBatch, SamplingRequest
from agentlearn.train.engine.round_barrier import RoundBarrier

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


MAX_BATCH = 64
CACHE_BYTES = 2**30
SMALL_WEIGHTS = 30_000_000
"""On a CPU, a network with fewer weights is computed by one thread: several would mostly wait for each other."""

AskedAnswer = tuple[Sequence[int], Sampling]
"""The tokens of a prompt, and how to sample the answer."""


class TorchEngine:
    """A causal language model that answers many requests at once, while `running()` is open."""

    def __init__(
        self,
        model: Any,
        *,
        stop_ids: frozenset[int],
        context: int,
        max_batch: int = MAX_BATCH,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """model: of transformers or peft, with attention that `attention_layout` knows.

        context: largest number of tokens of prompt and answer together. max_batch: largest number of answers sampled
        at once. cache_bytes: memory for keys and values, also of sequences kept for reuse; one sequence always fits.
        """
        self.context = context
        self._model = model
        self._stop_ids = stop_ids
        self._max_batch = max_batch
        self._cache_bytes = cache_bytes
        self._batch = self._empty_batch()
        self._queue = RequestQueue()

    @contextmanager
    def running(self) -> Generator[None]:
        """Answer requests while the block runs. Requests still waiting at its end get EndpointError."""
        thread = threading.Thread(target=self._run, name="agentlearn-engine", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._queue.close()
            thread.join()

    def paused(self) -> AbstractContextManager[None]:
        """Inside the block no forward pass runs, and weights may be changed. All cached keys and values are dropped."""
        return self._queue.paused()

    def rounds(self, conversations: int, *, at_once: int) -> AbstractContextManager[RoundBarrier]:
        """Inside the block, answer requests in rounds, so that results do not depend on timing.

        conversations: how many take part; each must call `leave` when it ends, however it ends. at_once: how many of
        them run at the same time. Nobody else may send requests inside the block.
        """
        return self._queue.rounds(conversations, at_once=at_once)

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer. Raises EndpointError when the model fails or the engine closes before the end, and when the
        prompt leaves no room for an answer."""
        if len(prompt) >= self.context:
            raise EndpointError(
                f"the prompt has {len(prompt):,} tokens, and the context of the model is {self.context:,}",
                code="context_too_long",
            )
        request = SamplingRequest.create(prompt, sampling)
        self._queue.submit(request)
        return await request.answer

    async def sample_round(self, asked: Sequence[AskedAnswer]) -> list[Sampled | EndpointError]:
        """Sample answers to these prompts together, inside `rounds(0, at_once=0)`; returns each answer or its error."""
        requests = [SamplingRequest.create(prompt, sampling) for prompt, sampling in asked]
        self._queue.submit_round(requests)
        return [await _outcome(one) for one in requests]

    def _run(self) -> None:
        if self._model.device.type == "cpu" and sum(one.numel() for one in self._model.parameters()) < SMALL_WEIGHTS:
            _use_one_thread()
        with torch.inference_mode():
            while (start := self._queue.begin_step(busy=bool(self._batch.requests))) != "closed":
                try:
                    if start == "step_after_change":
                        self._batch.forget()
                    self._step()
                except Exception as error:  # noqa: BLE001  every waiting request gets the error
                    self._fail(EndpointError(f"the model failed: {_short(error)}", code="engine_failed"))
                finally:
                    self._queue.end_step()
        self._fail(engine_closed())

    def _step(self) -> None:
        """Let waiting requests join, then sample one token for each request in the batch."""
        if self._model.training:
            self._model.eval()
        self._batch.drop_cancelled()
        while self._admit():
            self._batch.prefill()
        self._batch.prefill()
        if self._batch.requests:
            self._batch.decode()

    def _admit(self) -> int:
        joined, left = self._batch.admit(self._queue.take())
        self._queue.put_back(left)
        return joined

    def _fail(self, error: EndpointError) -> None:
        """Give every request the error and start with an empty batch."""
        failed = [*self._batch.requests, *self._queue.drain()]
        self._batch = self._empty_batch()
        for request in failed:
            request.deliver(error)

    def _empty_batch(self) -> ActiveBatch:
        return ActiveBatch(
            self._model,
            stop_ids=self._stop_ids,
            context=self.context,
            max_rows=self._max_batch,
            cache_bytes=self._cache_bytes,
        )


async def _outcome(request: SamplingRequest) -> Sampled | EndpointError:
    try:
        return await request.answer
    except EndpointError as error:
        return error


def _use_one_thread() -> None:
    """Let torch use one core in the calling thread, and leave all other threads unchanged.

    `torch.set_num_threads` changes the calling thread and threads started later. Another thread sets the latter back.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    later = threading.Thread(target=torch.set_num_threads, args=(before,))
    later.start()
    later.join()


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
