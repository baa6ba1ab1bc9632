"""The batch of a torch engine: requests that are being answered, each with a row of the key-value cache.

Prompts that begin alike are computed once, and a conversation that continues reuses the keys and values of its earlier
turns. Models of transformers use the cache like any other. The attention mask, not the storage, says where each row
ends. What is stored after a row's end is never read, and overwritten later.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache

from agentlearn.errors import EndpointError
from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn.train.engine.attention import AttentionLayout


class KVCache(Cache):
    """One tensor per layer of shape (rows, width + 1, heads, head size); padding writes into the last column."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.rows = 0
        self.width = 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._rows_B: Tensor | slice = slice(0, 0)
        self._row_B_1 = torch.empty(0, 1, dtype=torch.long)
        self._at_B_Q = torch.empty(0, 0, dtype=torch.long)
        self._read = 0

    def resize(self, rows: int, width: int) -> None:
        """Change the size; content that fits into the new size is kept."""
        if (rows, width) == (self.rows, self.width):
            return
        self.rows, self.width = rows, width
        self._keys = [self._resized(one) for one in self._keys]
        self._values = [self._resized(one) for one in self._values]

    def aim(self, rows: Tensor | int, at_B_Q: Tensor, read: int) -> None:
        """Set where the next forward pass writes and how many columns it reads.

        rows: row indexes, shape (B,); a number n means the first n rows, which are then read without a copy. at_B_Q:
        the column of each new token; `width` for padding. read: number of columns that are read.
        """
        if isinstance(rows, int):
            self._rows_B = slice(0, rows)
            rows = torch.arange(rows, device=at_B_Q.device)
        else:
            self._rows_B = rows
        self._row_B_1, self._at_B_Q, self._read = rows[:, None], at_B_Q, read

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values, (B, heads, Q, size); returns all that are read, (B, heads, K, size)."""
        for store, states in ((self._keys, key_states), (self._values, value_states)):
            while len(store) <= layer_idx:
                store.append(self._empty(states))
            store[layer_idx][self._row_B_1, self._at_B_Q] = states.transpose(1, 2)
        keys, values = self._keys[layer_idx][self._rows_B], self._values[layer_idx][self._rows_B]
        return keys[:, : self._read].transpose(1, 2), values[:, : self._read].transpose(1, 2)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """0, because callers always pass positions."""
        return 0

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of the row `source` to the row `target`."""
        for one in (*self._keys, *self._values):
            one[target, :length] = one[source, :length]

    def swap(self, one: int, other: int) -> None:
        """Swap two rows."""
        for store in (*self._keys, *self._values):
            store[[one, other]] = store[[other, one]]

    def _empty(self, states: Tensor) -> Tensor:
        shape: Sequence[int] = (self.rows, self.width + 1, states.shape[1], states.shape[3])
        # Not `torch.empty`: attention multiplies masked values by 0, so they must be finite.
        return torch.zeros(shape, dtype=states.dtype, device=states.device)

    def _resized(self, old: Tensor) -> Tensor:
        new = old.new_zeros((self.rows, self.width + 1, *old.shape[2:]))
        rows, width = min(old.shape[0], self.rows), min(old.shape[1] - 1, self.width)
        new[:rows, :width] = old[:rows, :width]
        return new


def _cache_argument(model: Any) -> str:
    """Return the name of the argument with which a model of transformers takes a cache. Version 5.24 changed it."""
    core = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "cache" if "cache" in signature(type(core).forward).parameters else "past_key_values"


WIDTH_STEP = 128
"""The cache grows in width by steps of this many tokens."""
TAIL = 16
"""A sequence takes over a parked row when it shares all but this many of its tokens; otherwise the prefix is copied."""


class KVCacheRows:
    """Rows 0 to `used` - 1 are in use, the following rows up to `filled` - 1 are parked, the others are empty."""

    def __init__(self, kv_cache: KVCache, *, max_rows: int, bytes_per_token: int, cache_bytes: int) -> None:
        """max_rows: largest number in use. As many again may be parked, as far as `cache_bytes` allows."""
        self.kv_cache = kv_cache
        self.used = 0
        self.filled = 0
        self.known = np.zeros(0, dtype=np.int64)
        """Number of tokens of each row whose keys and values are computed."""
        self._ids = np.zeros((0, 0), dtype=np.int64)
        self._touched = np.zeros(0, dtype=np.int64)
        self._clock = 0
        self._max_rows = max_rows
        self._tokens = max(1, cache_bytes // max(1, bytes_per_token))

    @property
    def room(self) -> int:
        """Number of further rows that can be taken."""
        return max(0, min(self._max_rows, self._limit(self.kv_cache.width)) - self.used)

    def best(self, ids: NDArray[np.int64]) -> tuple[int, int]:
        """The row with the longest shared prefix, and its length; (-1, 0) for none. The last id is never shared."""
        width = min(len(ids) - 1, self._ids.shape[1])
        if not self.filled or width < 1:
            return -1, 0
        same = self._ids[: self.filled, :width] == ids[:width]
        same &= np.arange(width) < self.known[: self.filled, None]
        shared = np.where(same.all(axis=1), width, same.argmin(axis=1))
        row = int(shared.argmax())
        return (row, int(shared[row])) if shared[row] else (-1, 0)

    def take(self, ids: NDArray[np.int64]) -> int:
        """Take a row for these ids, which becomes row `used` - 1; returns how many of them are computed already."""
        self._widen(len(ids) + 1)
        source, shared = self.best(ids)
        row = self.used
        if source >= self.used and self.known[source] - shared <= TAIL:
            self._swap(source, row)
        else:
            source = self._freed(source)
            if shared:
                self.kv_cache.copy(source, row, shared)
        self.filled = max(self.filled, row + 1)
        self.used += 1
        self._ids[row, : len(ids)] = ids
        self.known[row] = shared
        self._touch(row)
        return shared

    def park(self, row: int) -> None:
        """Park a row; the last row in use moves into its place."""
        self._touch(row)
        self.used -= 1
        self._swap(row, self.used)

    def write(self, row: int, at: int, token: int) -> None:
        """Record the token at a position of a row."""
        self._widen(at + 1)
        self._ids[row, at] = token

    def read(self, row: int, start: int, end: int) -> NDArray[np.int64]:
        """The tokens of a row from `start` up to `end`."""
        return self._ids[row, start:end]

    def forget(self) -> None:
        """Drop all computed keys and values, and all parked rows."""
        self.known[:] = 0
        self.filled = self.used

    def _freed(self, source: int) -> int:
        """Make row `used` empty without losing the row `source`; returns the new index of `source`."""
        row = self.used
        if row >= self.filled:
            self._grow(row + 1)
            return source
        if self.filled < self._limit(self.kv_cache.width):
            self._grow(self.filled + 1)
            target = self.filled
            self.filled += 1
        else:
            parked = [one for one in range(row, self.filled) if one != source] or [source]
            target = min(parked, key=lambda one: int(self._touched[one]))
        if target != row:
            self._swap(target, row)
        return target if source == row else source

    def _limit(self, width: int) -> int:
        return max(1, min(2 * self._max_rows, self._tokens // max(1, width)))

    def _touch(self, row: int) -> None:
        self._clock += 1
        self._touched[row] = self._clock

    def _swap(self, one: int, other: int) -> None:
        if one == other:
            return
        self.kv_cache.swap(one, other)
        for table in (self._ids, self.known, self._touched):
            table[[one, other]] = table[[other, one]]

    def _widen(self, length: int) -> None:
        """Make room for sequences of that length; drops parked rows when memory does not suffice."""
        if length <= self.kv_cache.width:
            return
        width = -(-length // WIDTH_STEP) * WIDTH_STEP
        self.filled = max(self.used, min(self.filled, self._limit(width)))
        self._resize(max(self.used, min(self.kv_cache.rows, self._limit(width))), width)

    def _grow(self, rows: int) -> None:
        if rows > self.kv_cache.rows:
            self._resize(max(rows, min(2 * self.kv_cache.rows, self._limit(self.kv_cache.width))), self.kv_cache.width)

    def _resize(self, rows: int, width: int) -> None:
        self.kv_cache.resize(rows, width)
        kept, columns = min(rows, self._ids.shape[0]), min(width, self._ids.shape[1])
        ids = np.zeros((rows, width), dtype=np.int64)
        ids[:kept, :columns] = self._ids[:kept, :columns]
        self._ids = ids
        self.known = np.concatenate([self.known[:kept], np.zeros(rows - kept, dtype=np.int64)])
        self._touched = np.concatenate([self._touched[:kept], np.zeros(rows - kept, dtype=np.int64)])


def sample_tokens(
    logits_B_V: Tensor,
    uniform_B: Tensor,
    temperature_B: Tensor,
    top_p_B: Tensor,
    top_k_B: Tensor,
    min_p_B: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return a token for each row and its log-probability: shapes (B,), int64 and float32.

    logits_B_V: float32. uniform_B: float64 in [0, 1). temperature_B: 0 takes the likeliest token. top_p_B in (0, 1] and
    top_k_B (0: all) exclude the least likely tokens, and min_p_B (0 or None: no limit) before them those below this
    share of the likeliest token's probability. The log-probability is taken at the temperature (1 at temperature
    0) over the whole vocabulary, excluded tokens included.
    """
    greedy_B = temperature_B == 0
    scale_B = torch.where(greedy_B, torch.ones_like(temperature_B), temperature_B)
    logprobs_B_V = torch.log_softmax(logits_B_V / scale_B[:, None], dim=-1)
    probs_B_V = logprobs_B_V.exp().double()
    if min_p_B is not None and bool((min_p_B > 0).any()):
        least_B_1 = min_p_B.double()[:, None] * probs_B_V.amax(dim=-1, keepdim=True)
        probs_B_V = probs_B_V * (probs_B_V >= least_B_1)
    if bool(((top_p_B < 1) | (top_k_B > 0)).any()):
        # The k likeliest tokens, and of those the fewest whose weight reaches p (at least one)
        sorted_B_V, order_B_V = probs_B_V.sort(dim=-1, descending=True, stable=True)
        rank_V = torch.arange(probs_B_V.shape[1], device=probs_B_V.device)
        limit_B = torch.where(top_k_B > 0, top_k_B, torch.full_like(top_k_B, probs_B_V.shape[1]))
        in_k_B_V = rank_V[None] < limit_B[:, None]
        sorted_B_V = sorted_B_V * in_k_B_V
        before_B_V = sorted_B_V.cumsum(dim=-1) - sorted_B_V
        share_B = top_p_B.double() * sorted_B_V.sum(dim=-1)
        # At p = 1, rounding of the sums must not exclude a token.
        in_p_B_V = (before_B_V < share_B[:, None]) | (top_p_B >= 1)[:, None]
        probs_B_V = probs_B_V * torch.zeros_like(in_k_B_V).scatter(1, order_B_V, in_k_B_V & in_p_B_V)
    # The inverse of the cumulative distribution, which never gives a token of weight 0
    weights_B_V = probs_B_V.cumsum(dim=-1)
    whole_B = weights_B_V[:, -1]
    at_B = torch.minimum(uniform_B * whole_B, torch.nextafter(whole_B, torch.zeros_like(whole_B)))
    found_B = torch.searchsorted(weights_B_V, at_B[:, None], right=True)[:, 0].clamp(max=probs_B_V.shape[1] - 1)
    ids_B = torch.where(greedy_B, logits_B_V.argmax(dim=-1), found_B)
    return ids_B, logprobs_B_V.gather(1, ids_B[:, None])[:, 0]


@dataclass(slots=True, eq=False)
class SamplingRequest:
    """A prompt and the answer tokens sampled for it so far."""

    ids: list[int]
    """Tokens of the prompt, then those of the answer."""
    prompt_tokens: int
    """Number of tokens in the prompt."""
    sampling: Sampling
    rng: np.random.Generator
    """Random generator of this request, from its seed."""
    answer: "asyncio.Future[Sampled]"
    loop: asyncio.AbstractEventLoop
    """Event loop that waits for the answer."""
    logprobs: list[float] = field(default_factory=list[float])
    """Log-probability of each answer token so far."""
    cached: int | None = None
    """Prompt tokens found in the key-value cache; None until the request joins a batch."""

    @classmethod
    def create(cls, prompt: Sequence[int], sampling: Sampling) -> Self:
        """A new request of the running event loop."""
        loop = asyncio.get_running_loop()
        return cls(
            ids=list(prompt),
            prompt_tokens=len(prompt),
            sampling=sampling,
            rng=np.random.default_rng(sampling.seed),
            answer=loop.create_future(),
            loop=loop,
        )

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer waits for the answer."""
        return self.answer.cancelled()

    def append(self, token: int, logprob: float) -> None:
        """Add a sampled token to the answer."""
        self.ids.append(token)
        self.logprobs.append(logprob)

    def sampled(self, *, stopped: bool) -> Sampled:
        """The answer as sampled so far. stopped: whether its last token is a stop token."""
        return Sampled(
            ids=tuple(self.ids[self.prompt_tokens :]),
            logprobs=tuple(self.logprobs),
            finish="stop" if stopped else "length",
            cached=self.cached or 0,
        )

    def deliver(self, result: Sampled | EndpointError) -> None:
        """Hand the result to the event loop that waits for it. Does nothing when that loop is closed."""

        def set_result() -> None:
            if self.answer.done():
                return
            if isinstance(result, Sampled):
                self.answer.set_result(result)
            else:
                self.answer.set_exception(result)

        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(set_result)


PREFILL_TOKENS = 8_192
"""Largest number of prompt tokens in one forward pass."""
WORTH_WAITING = 32
"""A request waits for another request's prompt when it shares at least this many more tokens with it than with the
cache."""
_READ_STEP = 32
"""The number of cache columns that a forward pass reads is a multiple of this."""


class ActiveBatch:
    """The requests that are being answered, and the forward passes that answer them."""

    def __init__(
        self,
        model: Any,
        *,
        stop_ids: frozenset[int],
        context: int,
        max_rows: int,
        cache_bytes: int,
        bf16: bool = False,
    ) -> None:
        """model: of transformers or peft, with attention that `AttentionLayout` knows.

        context: largest number of tokens of prompt and answer together. max_rows: largest number of requests.
        cache_bytes: memory for keys and values, those of parked rows included; one sequence always fits. bf16: as in
        `products_in`.
        """
        self._bf16 = bf16
        self._attention = AttentionLayout.of(model)
        self._cache_argument = _cache_argument(model)
        self.requests: list[SamplingRequest] = []
        """The request of each row in use."""
        self._model = model
        self._stop_ids = stop_ids
        self._context = context
        self._rows = KVCacheRows(
            KVCache(), max_rows=max_rows, bytes_per_token=_bytes_per_token(model), cache_bytes=cache_bytes
        )

    def forget(self) -> None:
        """Drop all computed keys and values. Requests stay, and are computed again."""
        self._rows.forget()

    def drop_cancelled(self) -> None:
        """Remove requests whose caller no longer waits."""
        for row in range(len(self.requests) - 1, -1, -1):
            if self.requests[row].cancelled:
                self._leave(row)

    def admit(self, waiting: Sequence[SamplingRequest]) -> tuple[int, list[SamplingRequest]]:
        """Let waiting requests join; returns how many did, and those that have to wait longer, in order."""
        joined: list[NDArray[np.int64]] = []
        left: list[SamplingRequest] = []
        for at, request in enumerate(waiting):
            if not self._rows.room and self.requests:
                left = [*waiting[at:], *left]
                break
            ids = np.array(request.ids, dtype=np.int64)
            _, known = self._rows.best(ids)
            if any(_shared(ids, other) >= known + WORTH_WAITING for other in joined):
                left = [request, *left]
                continue
            shared = self._rows.take(ids)
            self.requests.append(request)
            request.cached = min(shared, request.prompt_tokens) if request.cached is None else request.cached
            joined.append(ids)
        return len(joined), left

    def prefill(self) -> None:
        """Compute keys and values until only the last token of every row is left, and sample its successor."""
        while rows := self._behind():
            known = self._rows.known[rows]
            counts = np.minimum(np.array([len(self.requests[row].ids) for row in rows]) - known, PREFILL_TOKENS)
            width = int(counts.max())
            places = np.arange(width)[None] - (width - counts[:, None])  # padding comes before the tokens
            real = places >= 0
            at = np.where(real, known[:, None] + places, 0)
            ids = np.zeros_like(at)
            for one, row in enumerate(rows):
                start = int(known[one])
                ids[one, width - counts[one] :] = self._rows.read(row, start, start + int(counts[one]))
            logits = self._forward(np.array(rows), ids, at, real)
            self._rows.known[rows] += counts
            done = [one for one, row in enumerate(rows) if self._rows.known[row] == len(self.requests[row].ids)]
            if done:
                self._sample([rows[one] for one in done], logits[done])

    def decode(self) -> None:
        """Sample one more token for every row."""
        count = len(self.requests)
        at = self._rows.known[:count, None]
        ids = np.array([[request.ids[-1]] for request in self.requests], dtype=np.int64)
        logits = self._forward(count, ids, at, None)
        self._rows.known[:count] += 1
        self._sample(range(count), logits)

    def _behind(self) -> list[int]:
        """Rows with more than one token to compute that fit into one forward pass: of similar length, not too many."""
        left = {row: len(request.ids) - int(self._rows.known[row]) for row, request in enumerate(self.requests)}
        rows = sorted((row for row, count in left.items() if count > 1), key=lambda row: -left[row])
        if not rows:
            return []
        longest = min(left[rows[0]], PREFILL_TOKENS)
        alike = [row for row in rows if 2 * left[row] >= longest]
        return alike[: max(1, PREFILL_TOKENS // longest)]

    def _forward(
        self,
        rows: NDArray[np.int64] | int,
        ids_B_Q: NDArray[np.int64],
        at_B_Q: NDArray[np.int64],
        real_B_Q: NDArray[np.bool_] | None,
    ) -> Tensor:
        """Logits (B, V) after the last column. real_B_Q: False for padding; None when there is no padding."""
        kv_cache, device = self._rows.kv_cache, self._model.device
        read = min(kv_cache.width, -(-(int(at_B_Q.max()) + 1) // _READ_STEP) * _READ_STEP)
        written = at_B_Q if real_B_Q is None else np.where(real_B_Q, at_B_Q, kv_cache.width)
        at = torch.from_numpy(np.ascontiguousarray(at_B_Q)).to(device)
        target = rows if isinstance(rows, int) else torch.from_numpy(rows).to(device)
        kv_cache.aim(target, torch.from_numpy(np.ascontiguousarray(written)).to(device), read)
        with products_in(device, bf16=self._bf16):
            out = self._model(
                input_ids=torch.from_numpy(ids_B_Q).to(device),
                position_ids=at,
                attention_mask=self._attention.masks(at, read, torch.bfloat16 if self._bf16 else self._model.dtype),
                **{self._cache_argument: kv_cache},
                use_cache=True,
                # Not the number 1: a slice of hidden states makes torch copy the whole head for each row on a CPU.
                logits_to_keep=torch.tensor([ids_B_Q.shape[1] - 1], device=device),
            )
        return out.logits[:, -1].float()

    def _sample(self, rows: Sequence[int], logits_B_V: Tensor) -> None:
        """Sample a token for each of the rows; requests whose answer is complete get it and leave."""
        wanted = [self.requests[row] for row in rows]
        device = logits_B_V.device
        ids, logprobs = sample_tokens(
            logits_B_V,
            torch.tensor([one.rng.random() for one in wanted], dtype=torch.float64, device=device),
            torch.tensor([one.sampling.temperature for one in wanted], dtype=torch.float32, device=device),
            torch.tensor([one.sampling.top_p for one in wanted], dtype=torch.float32, device=device),
            torch.tensor([one.sampling.top_k for one in wanted], dtype=torch.int64, device=device),
            torch.tensor([one.sampling.min_p for one in wanted], dtype=torch.float32, device=device),
        )
        numbers: list[float] = logprobs.tolist()
        if not np.isfinite(numbers).all():
            raise FloatingPointError("its logits are not finite")
        for row, token, logprob in zip(rows, ids.tolist(), numbers, strict=True):
            request = self.requests[row]
            self._rows.write(row, len(request.ids), token)
            request.append(token, logprob)
        for row in sorted(rows, reverse=True):  # requests whose answer is complete
            request = self.requests[row]
            stopped = request.ids[-1] in self._stop_ids
            full = len(request.logprobs) >= request.sampling.max_tokens or len(request.ids) >= self._context
            if stopped or full:
                self._leave(row)
                request.deliver(request.sampled(stopped=stopped))

    def _leave(self, row: int) -> None:
        """Park the row; the last request of the batch moves into its place."""
        self._rows.park(row)
        last = self.requests.pop()
        if row < len(self.requests):
            self.requests[row] = last


def products_in(device: torch.device, *, bf16: bool) -> AbstractContextManager[Any]:
    """Context in which fp32 weights are rounded to bf16 for products, as in training with dtype=bf16.

    Small changes of a weight are lost in this rounding. So a sampler without it would not have the trainer's
    probabilities. Rounded weights are not kept: torch would also give them to the trainer.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=bf16, cache_enabled=False)


def _shared(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """Number of tokens at the beginning that two sequences have in common."""
    length = min(len(one), len(other))
    same = one[:length] == other[:length]
    return length if same.all() else int(same.argmin())


def _bytes_per_token(model: Any) -> int:
    """Memory of one token's keys and values in all layers."""
    config = model.config.get_text_config()
    own = getattr(config, "per_layer_config", None)  # Gemma 4: layers of different sizes
    numbers = 0
    for at in range(config.num_hidden_layers):
        layer = own[at] if own else config
        heads = getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads
        numbers += heads * (getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads)
    return 2 * model.dtype.itemsize * numbers
