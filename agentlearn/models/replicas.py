"""Several endpoints of one model: which of them a request goes to, and which of them are set aside.

A unit of work goes to the endpoint of its first call, which has its prompt in the cache, while that answers. A new one
goes to the endpoint with the fewest requests in flight. An endpoint that fails is set aside: it gets no new request,
but those in flight may end. After a while a request of ours, for one token, tries it again. Its own requests are
repeated at another endpoint. Those at an endpoint that answers nothing for several times as long as calls usually take
are sent to another one too, and the first reply counts. None of this shows in the journal, so a resumed run may have
other endpoints.
"""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentlearn.errors import ConfigError
from agentlearn.models import outage
from agentlearn.text.log import get_log

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_LOG = get_log()
_OF_THE_REQUEST = frozenset({400, 413, 422, 429})
"""Statuses that say nothing against the endpoint: others would refuse the same request, or the load is too high."""
_USUAL = 4
"""Answers after which it is known how long a call usually takes."""
_PATIENCE = 3
"""An endpoint is silent when it answers nothing for this many times the time that nine of ten calls take."""
_LEAST_PATIENCE_S = 1.0
_TRIAL_S = 10.0
"""Seconds that an endpoint has to answer when it is tried again."""
_IN_A_ROW = 3
"""Failures after which an endpoint is set aside that may have failed because of what it was asked."""


def is_of_endpoint(error: Exception) -> bool:
    """Whether another endpoint of the same model may answer the request that met this error."""
    from pydantic_ai.exceptions import ModelHTTPError

    from agentlearn.models.endings import UnusedReply

    if isinstance(error, ModelHTTPError):
        return error.status_code not in _OF_THE_REQUEST
    return not isinstance(error, UnusedReply)


@dataclass(slots=True, eq=False)
class Replica:
    """One of several endpoints of a model."""

    url: str
    """Its address, without credentials."""
    model: "Model"
    clock: Callable[[], float] = time.monotonic
    in_flight: int = 0
    requests: int = 0
    answers: int = 0
    failures: Counter[str] = field(default_factory=Counter[str])
    """Requests that failed because of the endpoint, by kind of failure."""
    set_asides: int = 0
    """How often it was set aside."""
    _in_a_row: int = 0
    """Failures since its last answer, of requests that were sent after the last time it was set aside."""
    _aside: int = 0
    """How often it was set aside since its last answer; 0: it is in use."""
    _aside_from: float = float("-inf")
    _aside_until: float = 0.0
    _answered_at: float = float("-inf")
    _trial: "asyncio.Task[None] | None" = None
    """Tries it again."""

    @property
    def ready(self) -> bool:
        """Whether it is in use."""
        return not self._aside

    def silent_s(self, sent_at: float) -> float:
        """Seconds since its last answer, or since a request was sent to it if that was later."""
        return self.clock() - max(sent_at, self._answered_at)

    def begin(self, request: "asyncio.Task[Any]") -> None:
        """Count a request as in flight until its task is done."""
        self.in_flight += 1
        self.requests += 1
        request.add_done_callback(self._end)

    def _end(self, _: object) -> None:
        self.in_flight -= 1

    @contextmanager
    def request(self) -> Generator[None]:
        """The block is a request to this endpoint, which answers unless the block raises an error."""
        with self._noticed(self.clock()):
            yield
        self.answers += 1

    @contextmanager
    def _noticed(self, sent_at: float) -> Generator[None]:
        """Put the endpoint back in use if the block meets an answer to a request that was sent then."""
        there = True
        try:
            yield
        except BaseException as error:
            there = isinstance(error, Exception) and not is_of_endpoint(error)
            raise
        finally:
            if there:
                self._answered_at = self.clock()
            if there and sent_at > self._aside_from:  # an older request may end while the server shuts down
                if self._aside:
                    _LOG.warning("endpoint.back", endpoint=self.url)
                self._in_a_row = self._aside = 0

    def try_again(self) -> None:
        """Start a small request to an endpoint that was set aside, if it is time for that. No call waits for it."""
        if self._aside and self._trial is None and self.clock() >= self._aside_until:
            self._trial = asyncio.create_task(self._tried())

    async def _tried(self) -> None:
        from pydantic_ai.messages import ModelRequest
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.settings import ModelSettings

        from agentlearn.models.chat_reply import ask_once

        sent_at, asked = self.clock(), [ModelRequest.user_text_prompt("Answer with one word.")]
        try:
            async with asyncio.timeout(_TRIAL_S):
                with self._noticed(sent_at):
                    await ask_once(self.model, asked, ModelSettings(max_tokens=1), ModelRequestParameters())
        except Exception as error:  # noqa: BLE001  a call will meet it too
            if is_of_endpoint(error):
                self._set_aside()
        finally:
            self._trial = None

    async def close(self) -> None:
        """End what tries it again."""
        if (trial := self._trial) is not None:
            trial.cancel()
            await asyncio.wait([trial])

    def failed(self, kind: str, sent_at: float, *, wanted_s: float = 0.0) -> None:
        """Count a failed request, and set the endpoint aside unless the request may be the cause.

        sent_at: when it was sent. wanted_s: the wait that the endpoint asked for.
        """
        self.failures[kind] += 1
        if sent_at <= self._aside_from:
            return
        self._in_a_row += 1
        if kind in {"status_500", "no_completion"} and self._in_a_row < _IN_A_ROW:
            return
        if not self._aside:
            self.set_asides += 1
            _LOG.warning("endpoint.set_aside", endpoint=self.url, cause=kind)
        self._set_aside(wanted_s)

    def _set_aside(self, wanted_s: float = 0.0) -> None:
        wait_s = max(wanted_s, min(outage.LONGEST_WAIT_S, outage.FIRST_WAIT_S * 2**self._aside))
        self._aside += 1
        self._aside_from = self.clock()
        self._aside_until = self._aside_from + wait_s


@dataclass(frozen=True, slots=True)
class Replicas:
    """The endpoints of one model. They share its limiter, its budget and its outages."""

    all: Sequence[Replica]
    times: dict[str, deque[float]] = field(default_factory=dict[str, deque[float]])
    """Seconds that the latest answers took, by stage."""

    def answered(self, stage: str, seconds: float) -> None:
        """Note how long an answer took."""
        self.times.setdefault(stage, deque(maxlen=100)).append(seconds)

    def patience_s(self, stage: str) -> float | None:
        """Seconds without any answer after which an endpoint is taken for silent; None: not known yet."""
        if len(latest := self.times.get(stage, ())) < _USUAL:
            return None
        return max(_LEAST_PATIENCE_S, _PATIENCE * sorted(latest)[9 * len(latest) // 10])

    async def close(self) -> None:
        """End what tries endpoints again."""
        for one in self.all:
            await one.close()

    def turns(self, last: Replica | None) -> Iterator[Replica]:
        """Yield the endpoints that a request goes to, one after another until one answers; at least one.

        last: that of the last request of its unit of work. Where all are set aside, all are tried.
        """
        for one in self.all:
            one.try_again()
        left, silent = list(self.all), not any(one.ready for one in self.all)
        while usable := [one for one in left if silent or one.ready]:
            least = min(usable, key=lambda one: (one.in_flight, one.requests))
            chosen = next((one for one in usable if one is last), least)
            left.remove(chosen)
            yield chosen


_CARD = ("max_model_len", "n_vocab", "vocab_type", "n_params", "n_embd", "n_ctx_train")
"""What a list of models says of a model and its tokenizer, at vLLM and at llama.cpp."""


def refuse_other_models(answers: Mapping[str, bytes], model: str) -> None:
    """Raise ConfigError when two endpoints say that they serve different models under one name.

    answers: by URL, the list of models (`/v1/models`). One that cannot be read says nothing.
    """
    known = [(url, card) for url, answer in answers.items() if (card := _card(answer, model))]
    for url, card in known[1:]:
        first, expected = known[0]
        if other := sorted(name for name in expected.keys() & card.keys() if expected[name] != card[name]):
            raise ConfigError(
                f"the endpoints {first!r} and {url!r} serve different models: {other[0]} is {expected[other[0]]!r} and"
                f" {card[other[0]]!r}; give endpoints of one model"
            )


def _card(answer: bytes, model: str) -> Mapping[str, Any]:
    """Return what a list of models says of one of them, as far as it must be the same at all its endpoints."""
    found = dict[str, Any]()
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        cards = {card["id"]: card for card in json.loads(answer)["data"]}
        card = cards.get(model, {})
        said = card | (card.get("meta") or {})
        found = {name: said[name] for name in _CARD if said.get(name) is not None}
        found["the model"] = model if card else ", ".join(sorted(cards)[:3])
        if root := card.get("root"):
            found["root"] = str(root).rstrip("/").rpartition("/")[2]  # machines may keep it in different folders
    return found
