"""The lab model as a service: waiting requests are sampled in one batch, and shared prefixes are computed once."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentlearn.domain.demo import lab_model
from agentlearn.serving import chat_request as chatml
from agentlearn.serving.chat_request import Message, ParsedAnswer, Tool
from agentlearn.serving.chat_service import ChatService, Sampled, Sampling
from agentlearn.serving.tool_calls import parse_calls
from agentlearn_demo.lab.transformer import (
    BatchCache,
    Floats,
    LabTokenizer,
    SequenceCache,
    Transformer,
    read_checkpoint,
)

MAX_BATCH = 64
"""Largest number of requests answered at once."""
PREFIX_CACHE_BYTES = 64 * 1024 * 1024
"""Memory for the keys and values of prefixes that later requests may share."""
SHARED_TOKENS = 96
"""A first message from this size on is kept once for all requests that begin with it; shorter ones are copied."""


@dataclass(eq=False)
class _Request:
    """A request and the tokens sampled for it. It gets a row of the batch when its prompt is computed."""

    prompt: tuple[int, ...]
    sampling: Sampling
    room: int
    """Largest number of tokens of the answer."""
    answer: "asyncio.Future[Sampled]"
    rng: np.random.Generator
    logits_V: Floats = field(default_factory=lambda: np.zeros(0))
    cached: int = 0
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])


class LabEngine:
    """Implements `agentlearn.serving.chat_service.Engine`. It works while `open_lab_engine` is open."""

    def __init__(self, model: Transformer, end: int, *, max_batch: int, share_from: int) -> None:
        """end: token that ends a message. max_batch, share_from: see MAX_BATCH and SHARED_TOKENS."""
        self._model = model
        self._end = end
        self._share_from = share_from
        self._cache = BatchCache(model.layout, max_batch)
        self._max_batch = max_batch
        self._waiting: deque[_Request] = deque()
        self._active: list[_Request] = []
        self._prefixes = _PrefixCache(PREFIX_CACHE_BYTES)
        self._wake = asyncio.Event()
        self.sampled_tokens = 0
        """Number of answer tokens sampled so far."""
        self.prefilled_tokens = 0
        """Number of prompt tokens computed so far, without cached ones."""

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self._model.layout.context

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer. It is empty, with finish `length`, when the prompt leaves no room."""
        room = min(sampling.max_tokens, self.context - len(prompt))
        if room < 1:
            return Sampled((), (), "length")
        request = _Request(
            prompt=tuple(prompt),
            sampling=sampling,
            room=room,
            answer=asyncio.get_running_loop().create_future(),
            rng=np.random.default_rng(sampling.seed & (2**64 - 1)),
        )
        self._waiting.append(request)
        self._wake.set()
        return await request.answer  # the next step notices a cancelled request

    async def work(self) -> None:
        """Answer requests until cancelled."""
        while True:
            if not self._waiting and not self._active:
                self._wake.clear()
                await self._wake.wait()
            self.step()
            await asyncio.sleep(0)

    def step(self) -> None:
        """Let waiting requests join the batch, and sample one token for each request in it."""
        self._remove([request for request in self._active if request.answer.cancelled()])
        while self._waiting and len(self._active) < self._max_batch:
            self._admit(self._waiting.popleft())
        if not self._active:
            return
        logits_NV = np.stack([request.logits_V for request in self._active])
        uniform_N = [float(request.rng.random()) for request in self._active]
        ids, logprobs = sample_next_tokens(logits_NV, [request.sampling for request in self._active], uniform_N)
        self.sampled_tokens += len(ids)
        for request, token, logprob in zip(self._active, ids, logprobs, strict=True):
            request.ids.append(token)
            request.logprobs.append(logprob)
        done = [one for one in self._active if one.ids[-1] == self._end or len(one.ids) >= one.room]
        for request in done:
            self._finish(request)
        self._remove(done)
        if self._active:
            last_N = np.array([request.ids[-1] for request in self._active])
            for request, logits_V in zip(self._active, self._model.decode(last_N, self._cache), strict=True):
                request.logits_V = logits_V

    def _admit(self, request: _Request) -> None:
        if request.answer.cancelled():
            return
        before = self.prefilled_tokens
        sequence, request.logits_V = self._prefill(request.prompt)
        request.cached = len(request.prompt) - (self.prefilled_tokens - before)
        self._cache.put(len(self._active), sequence)
        self._active.append(request)

    def _prefill(self, prompt: tuple[int, ...]) -> tuple[SequenceCache, Floats]:
        """Compute a prompt after its longest cached prefix. Its first message is cached for later requests."""
        ends = [at + 1 for at, token in enumerate(prompt) if token == self._end and at + 1 < len(prompt)]
        prefix = self._prefixes.longest(prompt, ends) or self._model.empty()
        if ends and prefix.length < ends[0]:
            self.prefilled_tokens += ends[0] - prefix.length
            prefix, _ = self._model.prefill(prompt[prefix.length : ends[0]], prefix)
            self._prefixes.store(prompt[: ends[0]], prefix)
        if ends and prefix.length == ends[0] >= self._share_from:
            prefix = prefix.branch()
        self.prefilled_tokens += len(prompt) - prefix.length
        return self._model.prefill(prompt[prefix.length :], prefix)

    def _finish(self, request: _Request) -> None:
        ended = request.ids[-1] == self._end
        finish = "stop" if ended else "length"
        if not request.answer.done():
            request.answer.set_result(Sampled(tuple(request.ids), tuple(request.logprobs), finish, request.cached))
        if ended and len(request.ids) > 1:
            # The last token is not computed yet. A conversation that continues computes it with its next prompt.
            tokens = (*request.prompt, *request.ids)
            self._prefixes.store(tokens, self._cache.sequence(self._active.index(request)))

    def _remove(self, requests: Sequence[_Request]) -> None:
        """Remove requests from the batch; the last row moves into each free row."""
        for request in requests:
            at, last = self._active.index(request), len(self._active) - 1
            if at != last:
                self._cache.move(last, at)
                self._active[at] = self._active[last]
            self._active.pop()


class _PrefixCache:
    """Keys and values of prefixes. The least recently used are dropped first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._sequences: OrderedDict[tuple[int, ...], SequenceCache] = OrderedDict()

    def longest(self, prompt: tuple[int, ...], lengths: Sequence[int]) -> SequenceCache | None:
        """Return the cached prefix with the largest of these lengths; None when none is cached."""
        for length in reversed(lengths):
            prefix = prompt[:length]
            if (sequence := self._sequences.get(prefix)) is not None:
                self._sequences.move_to_end(prefix)
                return sequence
        return None

    def store(self, prefix: tuple[int, ...], sequence: SequenceCache) -> None:
        """Cache a prefix. The sequence may lack the last token of a sampled one."""
        if (old := self._sequences.pop(prefix, None)) is not None:
            self._size_bytes -= old.size_bytes
        self._sequences[prefix] = sequence
        self._size_bytes += sequence.size_bytes
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= self._sequences.popitem(last=False)[1].size_bytes


@asynccontextmanager
async def open_lab_engine(
    model: Transformer, end: int, *, max_batch: int = MAX_BATCH, share_from: int = SHARED_TOKENS
) -> AsyncGenerator[LabEngine]:
    """Run the engine while the block runs."""
    engine = LabEngine(model, end, max_batch=max_batch, share_from=share_from)
    async with asyncio.TaskGroup() as group:
        working = group.create_task(engine.work())
        try:
            yield engine
        finally:
            working.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class LabFormat:
    """Implements `agentlearn.serving.chat_request.ChatFormat`."""

    tokenizer: LabTokenizer

    @property
    def stop_ids(self) -> frozenset[int]:
        """The token that ends a message."""
        return frozenset({self.tokenizer.id_of(chatml.END)})

    def render(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Return the prompt for the assistant's next message. It contains only the names of tools."""
        return chatml.conversation_text(messages, [tool.name for tool in tools])

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        return self.tokenizer.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self.tokenizer.decode(ids)

    def parse(self, text: str, tools: Sequence[Tool], *, prompt: str) -> ParsedAnswer:
        """Split an answer into text and tool calls."""
        return parse_calls(text, tools, prompt=prompt)


@asynccontextmanager
async def serve_lab_model(name: str, *, seed: int = 0, port: int = 0) -> AsyncGenerator[str]:
    """Serve a lab model on loopback while the block runs; yields the base URL.

    seed: for requests without a seed. Raises ConfigError for an unknown name, missing or damaged weights.
    """
    model, tokenizer = read_checkpoint(lab_model(name).folder, name)
    chat = LabFormat(tokenizer)
    (end,) = chat.stop_ids
    async with open_lab_engine(model, end) as engine:
        service = ChatService(engine, chat, model=name, seed=seed, served_by="lab")
        async with service.serve(port) as url:
            yield url


def sample_next_tokens(
    logits_NV: Floats, samplings: list[Sampling], uniform_N: list[float]
) -> tuple[list[int], list[float]]:
    """Return a token for each row, and its log-probability at the row's temperature over the whole vocabulary.

    uniform_N: a number in [0, 1) per row, which alone decides the token unless the temperature is 0.
    """
    temperature_N1 = np.array([one.temperature or 1.0 for one in samplings])[:, None]
    scaled = logits_NV.astype(np.float64) / temperature_N1
    scaled -= scaled.max(1, keepdims=True)
    weights = np.exp(scaled)
    totals = weights.sum(1)
    for row, one in enumerate(samplings):
        if one.temperature and (one.top_p < 1 or one.top_k or one.min_p):
            weights[row] = _kept(weights[row], one)
    cumulative = np.cumsum(weights, 1)
    thresholds = np.array(uniform_N) * cumulative[:, -1]
    picked = (cumulative <= thresholds[:, None]).sum(1)
    likeliest = logits_NV.argmax(1)
    ids = [int(likeliest[row] if not one.temperature else picked[row]) for row, one in enumerate(samplings)]
    logprobs = scaled[np.arange(len(ids)), ids] - np.log(totals)
    return ids, [float(one) for one in logprobs]


def _kept(weights_V: NDArray[np.float64], sampling: Sampling) -> NDArray[np.float64]:
    """Set weights outside min_p, top_k and top_p to 0. The likeliest token always stays."""
    weights_V = np.where(weights_V >= sampling.min_p * weights_V.max(), weights_V, 0)
    order = np.argsort(-weights_V, kind="stable")
    shares = weights_V[order] / weights_V.sum()
    stays = np.cumsum(shares) - shares < sampling.top_p
    if sampling.top_k:
        stays[sampling.top_k :] = False
    kept = np.zeros_like(weights_V)
    kept[order[stays]] = weights_V[order[stays]]
    return kept
