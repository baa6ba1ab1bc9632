"""The lab model as an engine: requests that wait together are written together, and common beginnings are read once."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np

from agentlearn.lab.sampling import drawn
from agentlearn.lab.transformer import Floats, Seats, SequenceCache, Transformer
from agentlearn.serving.engine import Sampled, Sampling

SEATS = 64
"""Requests that are written at once; more of them wait."""
REMEMBERED_BYTES = 128 * 1024 * 1024
"""What is kept of texts that were read, so that those that begin alike are not read again."""


@dataclass(eq=False)
class _Request:
    """One request on its way. It takes a seat when its prompt is read, and gives it back at its end."""

    prompt: tuple[int, ...]
    sampling: Sampling
    answer: "asyncio.Future[Sampled]"
    chance: np.random.Generator
    logits_V: Floats | None = None
    cached: int = 0
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])


class LabEngine:
    """Implements `agentlearn.serving.engine.Engine`. It works while `open_engine` runs."""

    def __init__(self, model: Transformer, end: int, *, seats: int = SEATS) -> None:
        """end: the token that ends a message."""
        self._model = model
        self._end = end
        self._seats = Seats(model.layout, seats)
        self._capacity = seats
        self._waiting: deque[_Request] = deque()
        self._seated: list[_Request] = []
        self._known = _Known(REMEMBERED_BYTES)
        self._wake = asyncio.Event()
        self.drawn_tokens = 0
        """Of all answers so far."""
        self.read_tokens = 0
        """Of prompts, without those that were known already."""

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self._model.layout.context

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Draw an answer. A prompt that leaves no room for one gives an empty answer that ends for its length."""
        room = min(sampling.max_tokens, self.context - len(prompt))
        if room < 1:
            return Sampled((), (), "length")
        request = _Request(
            prompt=tuple(prompt),
            sampling=sampling,
            answer=asyncio.get_running_loop().create_future(),
            chance=np.random.default_rng(sampling.seed & (2**64 - 1)),
        )
        self._waiting.append(request)
        self._wake.set()
        return await request.answer  # cancelling it is seen by the next step

    async def work(self) -> None:
        """Answer requests until cancelled."""
        while True:
            if not self._waiting and not self._seated:
                self._wake.clear()
                await self._wake.wait()
            self.step()
            await asyncio.sleep(0)

    def step(self) -> None:
        """Seat who waits, and draw one token for everybody."""
        self._leave([request for request in self._seated if request.answer.cancelled()])
        while self._waiting and len(self._seated) < self._capacity:
            self._seat(self._waiting.popleft())
        if not self._seated:
            return
        logits_NV = np.stack([self._logits_of(request) for request in self._seated])
        chances = [float(request.chance.random()) for request in self._seated]
        ids, logprobs = drawn(logits_NV, [request.sampling for request in self._seated], chances)
        self.drawn_tokens += len(ids)
        for request, token, logprob in zip(self._seated, ids, logprobs, strict=True):
            request.ids.append(token)
            request.logprobs.append(logprob)
        done = [request for request in self._seated if self._is_done(request)]
        for request in done:
            self._finish(request)
        self._leave(done)
        self._write()

    def _write(self) -> None:
        if not self._seated:
            return
        last_N = np.array([request.ids[-1] for request in self._seated])
        logits_NV = self._model.write(last_N, self._seats)
        for request, logits_V in zip(self._seated, logits_NV, strict=True):
            request.logits_V = logits_V

    def _seat(self, request: _Request) -> None:
        if request.answer.cancelled():
            return
        before = self.read_tokens
        read, request.logits_V = self._read(request.prompt)
        request.cached = len(request.prompt) - (self.read_tokens - before)
        self._seats.seat(len(self._seated), read)
        self._seated.append(request)

    def _read(self, prompt: tuple[int, ...]) -> tuple[SequenceCache, Floats]:
        """Read a prompt, from the longest beginning that is known; its first message is kept for others."""
        ends = [at + 1 for at, token in enumerate(prompt) if token == self._end and at + 1 < len(prompt)]
        known = self._known.longest(prompt, ends) or self._model.empty()
        if ends and known.length < ends[0]:
            self.read_tokens += ends[0] - known.length
            known, _ = self._model.read(prompt[known.length : ends[0]], known)
            self._known.keep(prompt[: ends[0]], known)
        self.read_tokens += len(prompt) - known.length
        return self._model.read(prompt[known.length :], known)

    def _logits_of(self, request: _Request) -> Floats:
        assert request.logits_V is not None
        return request.logits_V

    def _is_done(self, request: _Request) -> bool:
        room = min(request.sampling.max_tokens, self.context - len(request.prompt))
        return request.ids[-1] == self._end or len(request.ids) >= room

    def _finish(self, request: _Request) -> None:
        ended = request.ids[-1] == self._end
        finish = "stop" if ended else "length"
        if not request.answer.done():
            request.answer.set_result(Sampled(tuple(request.ids), tuple(request.logprobs), finish, request.cached))
        if ended and len(request.ids) > 1:
            # All but the last token were read; a conversation that goes on reads that one with what follows.
            said = (*request.prompt, *request.ids)
            self._known.keep(said, self._seats.read(self._seated.index(request)))

    def _leave(self, requests: Sequence[_Request]) -> None:
        """Give seats back; the last one seated moves up."""
        for request in requests:
            at, last = self._seated.index(request), len(self._seated) - 1
            if at != last:
                self._seats.move(last, at)
                self._seated[at] = self._seated[last]
            self._seated.pop()


class _Known:
    """Beginnings that were read, the least used of which are forgotten."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._reads: OrderedDict[tuple[int, ...], SequenceCache] = OrderedDict()

    def longest(self, prompt: tuple[int, ...], lengths: Sequence[int]) -> SequenceCache | None:
        """What is kept of the longest beginning of one of those lengths."""
        for length in reversed(lengths):
            beginning = prompt[:length]
            if (read := self._reads.get(beginning)) is not None:
                self._reads.move_to_end(beginning)
                return read
        return None

    def keep(self, beginning: tuple[int, ...], read: SequenceCache) -> None:
        """Keep a beginning. Of one that was drawn, the last token may be missing in what was read."""
        if (old := self._reads.pop(beginning, None)) is not None:
            self._size_bytes -= old.size_bytes
        self._reads[beginning] = read
        self._size_bytes += read.size_bytes
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= self._reads.popitem(last=False)[1].size_bytes


@asynccontextmanager
async def open_engine(model: Transformer, end: int, *, seats: int = SEATS) -> AsyncGenerator[LabEngine]:
    """The engine, at work while the block runs."""
    engine = LabEngine(model, end, seats=seats)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(engine.work())
        try:
            yield engine
        finally:
            working.cancel()
