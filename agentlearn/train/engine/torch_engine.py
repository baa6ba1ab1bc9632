"""A transformers model as an `Engine`: requests join and leave the batch between two tokens.

One thread runs the model. Weights may be changed only inside `paused()`. Everything computed before is then dropped,
and answers in progress continue with the new weights.

A config cannot tell everything about a model. So before an engine is used it samples a few tokens after prompts of
several lengths, and the same tokens are scored by the model alone, as the trainer scores them. Some models (longrope,
as in Phi-3.5) change the frequencies of all rows when one row of a forward pass is long. They are used only up to the
length where that begins.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from agentlearn.errors import EndpointError, root_cause
from agentlearn.serving.chat_service import Sampled, Sampling
from agentlearn.train.engine.active_batch import ActiveBatch, SamplingRequest, products_in
from agentlearn.train.engine.attention import AttentionLayout, class_name, original_contexts, unsupported


class RoundBarrier:
    """Conversations that are sampled in rounds: a round starts when each of them waits for an answer or has left.

    What is computed together then depends on these conversations alone and not on timing: the same conversations give
    the same numbers, bit by bit. Thread-safe.
    """

    def __init__(self, conversations: int, at_once: int, changed: Callable[[], None]) -> None:
        """conversations: how many take part. at_once: how many of them run at the same time.

        changed: called without any lock when fewer or more requests are expected than before.
        """
        self._changed = changed
        self._lock = threading.Lock()
        self._left = conversations
        self._at_once = at_once
        self._held = 0
        self._released = False

    @property
    def expected(self) -> int:
        """Number of waiting requests that starts a round; 0: any number does."""
        with self._lock:
            return 0 if self._released else max(0, min(self._left, self._at_once) - self._held)

    def leave(self) -> None:
        """Take one finished conversation out of the following rounds."""
        with self._lock:
            self._left -= 1
        self._changed()

    def hold(self, conversations: int) -> None:
        """Expect no request from this many conversations at present: they wait for something else."""
        with self._lock:
            self._held = conversations
        self._changed()

    def release(self) -> None:
        """Answer requests as they come from now on."""
        with self._lock:
            self._released = True
        self._changed()


StepStart = Literal["step", "step_after_change", "closed"]
"""How a step begins. `step_after_change`: the weights may have changed, so cached keys and values are wrong."""


class _RequestQueue:
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

    def submit(self, requests: Sequence[SamplingRequest], *, as_round: bool = False) -> None:
        """Add requests. Raises EndpointError after `close`.

        as_round: inside `rounds`, they are a whole round, and start together when the batch is empty.
        """
        with self._changed:
            if self._closing:
                raise _engine_closed()
            (self._round if as_round else self._waiting).extend(requests)
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

        def recheck() -> None:
            with self._changed:
                self._changed.notify_all()

        barrier = RoundBarrier(conversations, at_once, recheck)
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


def _engine_closed() -> EndpointError:
    return EndpointError("the model was closed before it had answered", code="engine_failed")


MAX_BATCH = 64
CACHE_BYTES = 2**30
_GPU_SHARE = 0.3
"""Share of a GPU's free memory for keys and values. The rest is for training."""
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
        bf16: bool = False,
    ) -> None:
        """model: of transformers or peft, with attention that `AttentionLayout` knows.

        context: largest number of tokens of prompt and answer together. max_batch: largest number of answers sampled
        at once. cache_bytes: memory for keys and values, also of sequences kept for reuse; one sequence always fits.
        bf16: compute products in bf16 where weights are fp32, as a trainer with dtype=bf16 does.
        """
        self.context = context
        self._model = model
        self._bf16 = bf16
        how: dict[str, Any] = {"context": context, "max_rows": max_batch, "cache_bytes": cache_bytes, "bf16": bf16}
        self._empty_batch = partial(ActiveBatch, model, stop_ids=stop_ids, **how)
        self._batch = self._empty_batch()
        self._queue = _RequestQueue()

    @classmethod
    def of(cls, network: Any, stop_ids: frozenset[int], *, bf16: bool = False) -> "TorchEngine":
        """Return an engine of a loaded network. bf16: as above."""
        gpu = network.device.type == "cuda"
        cache_bytes = int(torch.cuda.mem_get_info(network.device)[0] * _GPU_SHARE) if gpu else CACHE_BYTES
        context = _exact_context(network)
        return cls(network, stop_ids=stop_ids, context=context, cache_bytes=cache_bytes, bf16=bf16)

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
        self._queue.submit([request])
        return await request.answer

    async def sample_round(self, asked: Sequence[AskedAnswer]) -> list[Sampled | EndpointError]:
        """Sample answers to these prompts together, inside `rounds(0, at_once=0)`; returns each answer or its error."""
        requests = [SamplingRequest.create(prompt, sampling) for prompt, sampling in asked]
        self._queue.submit(requests, as_round=True)
        outcomes = await asyncio.gather(*(one.answer for one in requests), return_exceptions=True)
        for one in outcomes:
            if not isinstance(one, Sampled | EndpointError):
                raise one
        return cast("list[Sampled | EndpointError]", outcomes)

    async def check(self, layout: AttentionLayout) -> None:
        """Raise ConfigError when the engine does not sample from the model's own distribution."""
        vocabulary = int(self._model.get_input_embeddings().weight.shape[0])
        sizes = [size for size in layout.windows.values() if size is not None and size <= _LONGEST_WINDOW]
        chance, most = np.random.default_rng(0), max(1, self.context - _ANSWER)
        lengths = (*_LENGTHS, *(size + 9 for size in sizes))
        prompts: list[list[int]] = [chance.integers(0, vocabulary, min(one, most)).tolist() for one in lengths]
        try:
            async with asyncio.TaskGroup() as tasks:
                how = [Sampling(seed=at, max_tokens=_ANSWER) for at in range(len(prompts))]
                running = [tasks.create_task(self.sample(*one)) for one in zip(prompts, how, strict=True)]
            answers = [one.result() for one in running]
            difference = await asyncio.to_thread(self._difference, prompts, answers)
        except (*_OF_A_MODEL, BaseExceptionGroup) as error:
            cause = root_cause(error)
            if not isinstance(cause, _OF_A_MODEL):
                raise
            raise unsupported(class_name(self._model), " ".join(str(cause).split())[:200]) from error
        half = self._bf16 or next(self._model.parameters()).dtype != torch.float32
        found, limit = (difference.mean(), MEAN_OF_HALF) if half else (difference.max(), LARGEST)
        if not found <= limit:
            raise unsupported(
                class_name(self._model),
                f"its log-probabilities of {difference.size} tokens differ by up to {difference.max():.3g} nats from"
                " those of a plain forward pass",
            )

    def _difference(self, prompts: Sequence[list[int]], answers: Sequence[Sampled]) -> NDArray[np.float64]:
        """Difference of each sampled token's log-probability from a plain forward pass. Drops the engine's cache."""
        found: list[float] = []
        with self.paused(), torch.inference_mode(), products_in(self._model.device, bf16=self._bf16):
            for prompt, answer in zip(prompts, answers, strict=True):
                ids = torch.tensor([[*prompt, *answer.ids]], device=self._model.device)
                logits = self._model(input_ids=ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
                logprobs = logits.float().log_softmax(-1)
                own = logprobs.gather(1, torch.tensor(answer.ids, device=self._model.device)[:, None])[:, 0].tolist()
                found += [mine - given for mine, given in zip(own, answer.logprobs, strict=True)]
        return np.abs(np.array(found))

    def _run(self) -> None:
        if self._model.device.type == "cpu" and sum(one.numel() for one in self._model.parameters()) < SMALL_WEIGHTS:
            # `torch.set_num_threads` changes this thread and threads started later. Another one sets the latter back.
            before = torch.get_num_threads()
            torch.set_num_threads(1)
            later = threading.Thread(target=torch.set_num_threads, args=(before,))
            later.start()
            later.join()
        with torch.inference_mode():
            while (start := self._queue.begin_step(busy=bool(self._batch.requests))) != "closed":
                try:
                    if start == "step_after_change":
                        self._batch.forget()
                    self._step()
                except Exception as error:  # noqa: BLE001  every waiting request gets the error
                    text = " ".join(str(error).split()) or type(error).__name__
                    text = text if len(text) <= 300 else text[:297] + "..."
                    self._fail(EndpointError(f"the model failed: {text}", code="engine_failed"))
                finally:
                    self._queue.end_step()
        self._fail(_engine_closed())

    def _step(self) -> None:
        """Let waiting requests join, then sample one token for each request in the batch."""
        if self._model.training:
            self._model.eval()
        self._batch.drop_cancelled()
        joined = 1
        while joined:
            joined, left = self._batch.admit(self._queue.take())
            self._queue.put_back(left)
            self._batch.prefill()
        if self._batch.requests:
            self._batch.decode()

    def _fail(self, error: EndpointError) -> None:
        """Give every request the error and start with an empty batch."""
        failed = [*self._batch.requests, *self._queue.drain()]
        self._batch = self._empty_batch()
        for request in failed:
            request.deliver(error)


LARGEST = 2e-3
"""Largest difference of one token's log-probability in fp32, in nats."""
MEAN_OF_HALF = 0.2
"""Largest mean difference in 16-bit formats, whose rounding depends on the order of sums."""
_OF_A_MODEL = (EndpointError, RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError)
"""Errors of a model that cannot be computed as the engine does."""
_LENGTHS, _ANSWER = (3, 11, 37), 4
_LONGEST_WINDOW = 128
"""Prompts are longer than windows up to this size. Longer windows are trusted, because long prompts take time."""


_ROW = 16
"""Number of tokens of the rows that are computed together."""
_CHANGED, _CHANGED_HALF = 1e-3, 0.05
"""Changes of log-probabilities by another row above this are not rounding: the largest in fp32, and the mean in 16-bit
formats, in which experts round by what they compute together."""


def _exact_context(model: Any) -> int:
    """Return the largest context in which a row's probabilities do not depend on the longest row of its batch.

    That is the model's own context, or for example the `original_max_position_embeddings` of a longrope model. It is
    found by computing a short row with one at the last positions. Raises ConfigError when the rows of a batch change
    each other in any context.
    """
    config = model.config.get_text_config()
    own = int(config.max_position_embeddings)
    known = {one for one in original_contexts(config.to_dict()) if 0 < one < own}
    for context in (own, *sorted(known, reverse=True)):
        if not _rows_change_each_other(model, context):
            return context
    raise unsupported(class_name(model), "the rows of a batch change each other's probabilities")


def context_limit(model: Any) -> int | None:
    """Return the context that a server of this model must not exceed, as in `_exact_context`; None: its own."""
    config = model.config.get_text_config()
    if not original_contexts(config.to_dict()):
        return None
    found = _exact_context(model)
    return found if found < config.max_position_embeddings else None


def _rows_change_each_other(model: Any, context: int) -> bool:
    """Whether a row at the first positions changes when the other row is at the last positions of the context."""
    length = min(_ROW, context)
    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, vocabulary, (2, length))).to(model.device)
    first = torch.arange(length, device=model.device)
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            alike, apart = (
                model(input_ids=ids, position_ids=torch.stack([first, first + shift]), use_cache=False)
                .logits[0]
                .float()
                .log_softmax(-1)
                for shift in (0, context - length)
            )
    except _OF_A_MODEL as error:
        raise unsupported(class_name(model), " ".join(str(error).split())[:200]) from error
    finally:
        model.train(was_training)
    changes = (alike - apart).abs().nan_to_num(0.0)  # a token may be impossible in both
    if next(model.parameters()).dtype == torch.float32:
        return float(changes.max()) > _CHANGED
    return float(changes.mean()) > _CHANGED_HALF
