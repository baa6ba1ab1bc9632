"""A transformers model as an `Engine`: requests join and leave the batch between two tokens.

One thread of its own runs the model. Beginnings that sequences share are computed once; a conversation that goes on
finds what was computed for it. Weights may be changed inside `paused()` only, and by nobody else: everything computed
before is then forgotten, and answers under way go on with the new weights.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling
from agentlearn.train.engine.kv_cache import KVCache
from agentlearn.train.engine.kv_cache_rows import CacheRows
from agentlearn.train.engine.sampling import drawn

MAX_BATCH = 64
CACHE_BYTES = 2**30
PREFILL_TOKENS = 8_192
"""Tokens of prompts in one forward pass."""
WORTH_WAITING = 32
"""A request waits for another's prompt to be computed when it shares at least so many more tokens with it."""
SMALL_WEIGHTS = 30_000_000
"""On a CPU a network of fewer weights is computed by one thread: several would mostly wait for each other, and for
whatever else the machine does."""
_SEEN_STEP = 32


class Cohort:
    """Conversations that are drawn in rounds: a round begins when each of them either waits for an answer or has left.

    What is computed together then depends on them alone, and not on who was quicker: the same conversations give the
    same numbers, bit by bit.
    """

    def __init__(self, turn: threading.Condition, count: int, at_once: int) -> None:
        self._turn = turn
        self._left = count
        self._at_once = at_once

    @property
    def expected(self) -> int:
        """Requests with which a round begins."""
        return min(self._left, self._at_once)

    def leave(self) -> None:
        """One conversation is over."""
        with self._turn:
            self._left -= 1
            self._turn.notify_all()


@dataclass(slots=True, eq=False)
class _Asked:
    """A request and what has been drawn for it."""

    ids: list[int]
    """Prompt and answer."""
    prompt: int
    sampling: Sampling
    chance: np.random.Generator
    answer: "asyncio.Future[Sampled]"
    loop: asyncio.AbstractEventLoop
    logprobs: list[float] = field(default_factory=list[float])
    cached: int | None = None

    @property
    def gone(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.answer.cancelled()


class TorchEngine:
    """A causal language model that draws for many at once. Runs inside `running()`."""

    def __init__(
        self,
        model: Any,
        *,
        stop_ids: frozenset[int],
        context: int,
        max_batch: int = MAX_BATCH,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """model: of transformers or peft, with full attention in every layer.

        context: tokens of prompt and answer. max_batch: answers drawn at once. cache_bytes: keys and values, those of
        parked sequences included; one sequence always fits.
        """
        self.context = context
        self._model = model
        self._stop_ids = stop_ids
        self._max_batch = max_batch
        self._cache_bytes = cache_bytes
        self._rows = self._no_rows()
        self._asked: list[_Asked] = []
        """By row."""
        self._waiting: deque[_Asked] = deque()
        self._round: deque[_Asked] = deque()
        """Requests of a cohort's round that have not joined yet, in order of their seeds."""
        self._cohort: Cohort | None = None
        self._turn = threading.Condition()
        self._pauses = 0
        self._stepping = False
        self._changed = False
        self._closing = False

    @contextmanager
    def running(self) -> Generator[None]:
        """Draw while the block runs; whoever still waits at its end gets EndpointError."""
        thread = threading.Thread(target=self._run, name="agentlearn-engine", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._turn:
                self._closing = True
                self._turn.notify_all()
            thread.join()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Inside the block no forward pass runs, and weights may be changed. What was computed before is dropped."""
        with self._turn:
            self._pauses += 1
            self._turn.wait_for(lambda: not self._stepping)
        try:
            yield
        finally:
            with self._turn:
                self._pauses -= 1
                self._changed = True
                self._turn.notify_all()

    @contextmanager
    def together(self, count: int, *, at_once: int) -> Generator[Cohort]:
        """Inside the block so many conversations take part, of which at most `at_once` are under way at a time.

        Each of them must `leave` when it is over, however it ends; others must not ask meanwhile.
        """
        cohort = Cohort(self._turn, count, at_once)
        with self._turn:
            self._cohort, self._changed = cohort, True  # what is kept from before would make a difference
        try:
            yield cohort
        finally:
            with self._turn:
                self._cohort = None
                self._waiting.extendleft(reversed(self._round))
                self._round.clear()
                self._turn.notify_all()

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Draw an answer. Raises EndpointError when the model fails, and when the engine closes before the end."""
        loop = asyncio.get_running_loop()
        asked = _Asked(
            ids=list(prompt),
            prompt=len(prompt),
            sampling=sampling,
            chance=np.random.default_rng(sampling.seed),
            answer=loop.create_future(),
            loop=loop,
        )
        with self._turn:
            if self._closing:
                raise _closed()
            self._waiting.append(asked)
            self._turn.notify_all()
        return await asked.answer

    def _run(self) -> None:
        if self._model.device.type == "cpu" and sum(one.numel() for one in self._model.parameters()) < SMALL_WEIGHTS:
            _compute_alone()
        with torch.inference_mode():
            while self._begun():
                try:
                    self._step()
                except Exception as error:  # noqa: BLE001  whatever broke is told to those who wait
                    self._fail(EndpointError(f"the model failed: {_short(error)}", code="engine_failed"))
                finally:
                    with self._turn:
                        self._stepping = False
                        self._turn.notify_all()
        self._fail(_closed())

    def _begun(self) -> bool:
        """Wait for work and for leave to do it; False when the engine closes."""
        with self._turn:
            self._turn.wait_for(lambda: self._closing or (not self._pauses and self._has_work()))
            if self._closing:
                return False
            self._stepping = True
            if self._changed:
                self._changed = False
                self._rows.forget()
            return True

    def _has_work(self) -> bool:
        """Called with the lock held; begins a cohort's next round when all are there."""
        if self._asked or self._round:
            return True
        if self._cohort is None:
            return bool(self._waiting)
        there = [asked for asked in self._waiting if not asked.gone]
        if not there or len(there) < self._cohort.expected:
            return False
        self._round.extend(sorted(there, key=lambda asked: (asked.sampling.seed, asked.ids)))
        self._waiting.clear()
        return True

    def _step(self) -> None:
        """One token for everyone in the batch; first whoever waits joins it."""
        if self._model.training:
            self._model.eval()
        for row in range(len(self._asked) - 1, -1, -1):
            if self._asked[row].gone:
                self._leave(row)
        while self._admitted():
            self._catch_up()
        self._catch_up()
        if self._asked:
            self._decode()

    def _admitted(self) -> bool:
        """Let requests join; False when none did."""
        joined: list[NDArray[np.int64]] = []
        with self._turn:
            queue = self._waiting if self._cohort is None else self._round
            waiting = [asked for asked in queue if not asked.gone]
            queue.clear()
        for at, asked in enumerate(waiting):
            if not self._rows.room and self._asked:
                self._put_back(waiting[at:])
                break
            ids = np.array(asked.ids, dtype=np.int64)
            _, known = self._rows.best(ids)
            if any(_shared(ids, other) >= known + WORTH_WAITING for other in joined):
                self._put_back([asked])
                continue
            shared = self._rows.take(ids)
            self._asked.append(asked)
            asked.cached = min(shared, asked.prompt) if asked.cached is None else asked.cached
            joined.append(ids)
        return bool(joined)

    def _put_back(self, asked: Sequence[_Asked]) -> None:
        with self._turn:
            (self._waiting if self._cohort is None else self._round).extendleft(reversed(asked))

    def _catch_up(self) -> None:
        """Compute until of every row only the last token is left."""
        while rows := self._behind():
            known = self._rows.known[rows]
            counts = np.minimum(np.array([len(self._asked[row].ids) for row in rows]) - known, PREFILL_TOKENS)
            width = int(counts.max())
            places = np.arange(width)[None] - (width - counts[:, None])  # padding stands before the tokens
            real = places >= 0
            at = np.where(real, known[:, None] + places, 0)
            ids = np.zeros_like(at)
            for one, row in enumerate(rows):
                start = int(known[one])
                ids[one, width - counts[one] :] = self._rows.read(row, start, start + int(counts[one]))
            logits = self._forward(np.array(rows), ids, at, real)
            self._rows.known[rows] += counts
            done = [one for one, row in enumerate(rows) if self._rows.known[row] == len(self._asked[row].ids)]
            if done:
                self._draw([rows[one] for one in done], logits[done])

    def _behind(self) -> list[int]:
        """Rows with more than one token to compute that go well together: of like length, and not too many."""
        left = {row: len(asked.ids) - int(self._rows.known[row]) for row, asked in enumerate(self._asked)}
        rows = sorted((row for row, count in left.items() if count > 1), key=lambda row: -left[row])
        if not rows:
            return []
        longest = min(left[rows[0]], PREFILL_TOKENS)
        alike = [row for row in rows if 2 * left[row] >= longest]
        return alike[: max(1, PREFILL_TOKENS // longest)]

    def _decode(self) -> None:
        """One token more for every row."""
        rows = range(len(self._asked))
        at = self._rows.known[: len(self._asked), None]
        ids = np.array([[asked.ids[-1]] for asked in self._asked], dtype=np.int64)
        logits = self._forward(len(self._asked), ids, at, None)
        self._rows.known[: len(self._asked)] += 1
        self._draw(list(rows), logits)

    def _forward(
        self,
        rows: NDArray[np.int64] | int,
        ids_B_Q: NDArray[np.int64],
        at_B_Q: NDArray[np.int64],
        real_B_Q: NDArray[np.bool_] | None,
    ) -> Tensor:
        """Logits (B, V) after the last column. real_B_Q: False for padding; None where there is none."""
        kv_cache, device = self._rows.kv_cache, self._model.device
        seen = min(kv_cache.width, -(-(int(at_B_Q.max()) + 1) // _SEEN_STEP) * _SEEN_STEP)
        written = at_B_Q if real_B_Q is None else np.where(real_B_Q, at_B_Q, kv_cache.width)
        at = torch.from_numpy(np.ascontiguousarray(at_B_Q)).to(device)
        target = rows if isinstance(rows, int) else torch.from_numpy(rows).to(device)
        kv_cache.aim(target, torch.from_numpy(np.ascontiguousarray(written)).to(device), seen)
        mask = torch.arange(seen, device=device)[None, None, None] <= at[:, None, :, None]
        out = self._model(
            input_ids=torch.from_numpy(ids_B_Q).to(device),
            position_ids=at,
            attention_mask=mask,
            past_key_values=kv_cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return out.logits[:, -1].float()

    def _draw(self, rows: Sequence[int], logits_B_V: Tensor) -> None:
        """Draw a token for each of the rows; those whose answer is complete leave."""
        wanted = [self._asked[row] for row in rows]
        device = logits_B_V.device
        ids, logprobs = drawn(
            logits_B_V,
            torch.tensor([one.chance.random() for one in wanted], dtype=torch.float64, device=device),
            torch.tensor([one.sampling.temperature for one in wanted], dtype=torch.float32, device=device),
            torch.tensor([one.sampling.top_p for one in wanted], dtype=torch.float32, device=device),
            torch.tensor([one.sampling.top_k for one in wanted], dtype=torch.int64, device=device),
        )
        numbers: list[float] = logprobs.tolist()
        if not np.isfinite(numbers).all():
            raise FloatingPointError("its logits are not finite")
        for row, token, logprob in zip(rows, ids.tolist(), numbers, strict=True):
            asked = self._asked[row]
            self._rows.write(row, len(asked.ids), token)
            asked.ids.append(token)
            asked.logprobs.append(logprob)
        for row in sorted(rows, reverse=True):
            self._finish(row)

    def _finish(self, row: int) -> None:
        """Hand out the answer if it is complete."""
        asked = self._asked[row]
        count = len(asked.logprobs)
        stopped = asked.ids[-1] in self._stop_ids
        if not stopped and count < asked.sampling.max_tokens and len(asked.ids) < self.context:
            return
        self._leave(row)
        sampled = Sampled(
            ids=tuple(asked.ids[asked.prompt :]),
            logprobs=tuple(asked.logprobs),
            finish="stop" if stopped else "length",
            cached=asked.cached or 0,
        )
        _tell(asked, sampled)

    def _leave(self, row: int) -> None:
        """Park the row; the last request of the batch takes its place."""
        self._rows.park(row)
        last = self._asked.pop()
        if row < len(self._asked):
            self._asked[row] = last

    def _fail(self, error: EndpointError) -> None:
        """Tell everyone who waits, and begin anew."""
        with self._turn:
            waiting = [*self._asked, *self._round, *self._waiting]
            self._round.clear()
            self._waiting.clear()
        self._asked = []
        self._rows = self._no_rows()
        for asked in waiting:
            _tell(asked, error)

    def _no_rows(self) -> CacheRows:
        return CacheRows(
            KVCache(),
            max_rows=self._max_batch,
            bytes_per_token=_bytes_per_token(self._model),
            cache_bytes=self._cache_bytes,
        )


def _tell(asked: _Asked, result: Sampled | EndpointError) -> None:
    """Hand a result over to the loop that waits for it."""

    def tell() -> None:
        if asked.answer.done():
            return
        if isinstance(result, Sampled):
            asked.answer.set_result(result)
        else:
            asked.answer.set_exception(result)

    with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        asked.loop.call_soon_threadsafe(tell)


def _compute_alone() -> None:
    """Let this thread compute without helpers, and leave all others as they are.

    torch sets the number for the calling thread and for threads to come: the latter is set back from one of these.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    later = threading.Thread(target=torch.set_num_threads, args=(before,))
    later.start()
    later.join()


def _shared(one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    length = min(len(one), len(other))
    same = one[:length] == other[:length]
    return length if same.all() else int(same.argmin())


def _bytes_per_token(model: Any) -> int:
    """Of keys and values in all layers."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * size * model.dtype.itemsize


def _closed() -> EndpointError:
    return EndpointError("the model was closed before it had answered", code="engine_closed")


def _short(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
