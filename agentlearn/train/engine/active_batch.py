"""The batch of a torch engine: requests that are being answered, each with a row of the key-value cache.

Prompts that begin alike are computed once, and a conversation that continues reuses the keys and values of its earlier
turns.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.train.engine.attention import attention_layout
from agentlearn.train.engine.kv_cache import KVCache, KVCacheRows, cache_argument


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
        probs_B_V = probs_B_V * _kept(probs_B_V, top_p_B, top_k_B)
    ids_B = torch.where(greedy_B, logits_B_V.argmax(dim=-1), _inverse(probs_B_V, uniform_B))
    return ids_B, logprobs_B_V.gather(1, ids_B[:, None])[:, 0]


def _inverse(probs_B_V: Tensor, uniform_B: Tensor) -> Tensor:
    """Invert the cumulative distribution at uniform_B; never returns a token of weight 0."""
    weights_B_V = probs_B_V.cumsum(dim=-1)
    whole_B = weights_B_V[:, -1]
    below_B = torch.nextafter(whole_B, torch.zeros_like(whole_B))
    at_B = torch.minimum(uniform_B * whole_B, below_B)
    found_B = torch.searchsorted(weights_B_V, at_B[:, None], right=True)[:, 0]
    return found_B.clamp(max=probs_B_V.shape[1] - 1)


def _kept(probs_B_V: Tensor, top_p_B: Tensor, top_k_B: Tensor) -> Tensor:
    """Mask of the tokens to keep: the k likeliest, and of those the fewest whose weight reaches p (at least one)."""
    sorted_B_V, order_B_V = probs_B_V.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(probs_B_V.shape[1], device=probs_B_V.device)
    limit_B = torch.where(top_k_B > 0, top_k_B, torch.full_like(top_k_B, probs_B_V.shape[1]))
    in_k_B_V = rank_V[None] < limit_B[:, None]
    sorted_B_V = sorted_B_V * in_k_B_V
    before_B_V = sorted_B_V.cumsum(dim=-1) - sorted_B_V
    share_B = top_p_B.double() * sorted_B_V.sum(dim=-1)
    # At p = 1, rounding of the sums must not exclude a token.
    in_p_B_V = (before_B_V < share_B[:, None]) | (top_p_B >= 1)[:, None]
    return torch.zeros_like(in_k_B_V).scatter(1, order_B_V, in_k_B_V & in_p_B_V)


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
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._set, result)

    def _set(self, result: Sampled | EndpointError) -> None:
        if self.answer.done():
            return
        if isinstance(result, Sampled):
            self.answer.set_result(result)
        else:
            self.answer.set_exception(result)


PREFILL_TOKENS = 8_192
"""Largest number of prompt tokens in one forward pass."""
WORTH_WAITING = 32
"""A request waits for another request's prompt when it shares at least this many more tokens with it than with the
cache."""
_READ_STEP = 32
"""The number of cache columns that a forward pass reads is a multiple of this."""


class ActiveBatch:
    """The requests that are being answered, and the forward passes that answer them."""

    def __init__(self, model: Any, *, stop_ids: frozenset[int], context: int, max_rows: int, cache_bytes: int) -> None:
        """model: of transformers or peft, with attention that `attention_layout` knows.

        context: largest number of tokens of prompt and answer together. max_rows: largest number of requests.
        cache_bytes: memory for keys and values, those of parked rows included; one sequence always fits.
        """
        self._attention = attention_layout(model)
        self._cache_argument = cache_argument(model)
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
        out = self._model(
            input_ids=torch.from_numpy(ids_B_Q).to(device),
            position_ids=at,
            attention_mask=self._attention.masks(at, read, self._model.dtype),
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
        for row in sorted(rows, reverse=True):
            self._finish(row)

    def _finish(self, row: int) -> None:
        """Deliver the answer of a row if it is complete."""
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


def _shared(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """Number of tokens at the beginning that two sequences have in common."""
    length = min(len(one), len(other))
    same = one[:length] == other[:length]
    return length if same.all() else int(same.argmin())


def _bytes_per_token(model: Any) -> int:
    """Memory of one token's keys and values in all layers."""
    config = model.config.get_text_config()
    own = getattr(config, "per_layer_config", None)  # Gemma 4: layers of different sizes
    layers = [own[at] for at in range(config.num_hidden_layers)] if own else [config] * config.num_hidden_layers
    return 2 * model.dtype.itemsize * sum(map(_key_size, layers))


def _key_size(config: Any) -> int:
    """Numbers in the keys of one token in a layer."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    return heads * (getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
