"""One request to the torch engine: its tokens so far, and the future that gets the answer."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from agentlearn.errors import EndpointError
from agentlearn.serving.engine import Sampled, Sampling


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
