"""Several endpoints of one model: which of them a request goes to, and which of them are set aside.

A unit of work goes to the endpoint of its first call, which has its prompt in the cache, while that answers. A new one
goes to the endpoint with the fewest requests in flight. An endpoint that fails is set aside: it gets no new request,
but those in flight may end. After a while one request tries it again. Its own requests are repeated at another
endpoint, and none of this shows in the journal, so a resumed run may have other endpoints.
"""

import json
import time
from collections import Counter
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
    _tried: bool = False
    """Whether a request is trying it again."""

    @property
    def ready(self) -> bool:
        """Whether it may get a request."""
        return not self._aside or (not self._tried and self.clock() >= self._aside_until)

    @contextmanager
    def request(self) -> Generator[None]:
        """Count the block as a request to this endpoint, which answers unless the block raises an error."""
        sent_at, trying, there = self.clock(), self._aside > 0, True
        self.in_flight += 1
        self.requests += 1
        self._tried = self._tried or trying
        try:
            yield
            self.answers += 1
        except BaseException as error:
            there = isinstance(error, Exception) and not is_of_endpoint(error)
            raise
        finally:
            self.in_flight -= 1
            self._tried = self._tried and not trying
            if there and sent_at > self._aside_from:  # an older request may end while the server shuts down
                if self._aside:
                    _LOG.warning("endpoint.back", endpoint=self.url)
                self._in_a_row = self._aside = 0

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
        wait_s = max(wanted_s, min(outage.LONGEST_WAIT_S, outage.FIRST_WAIT_S * 2**self._aside))
        if not self._aside:
            self.set_asides += 1
            _LOG.warning("endpoint.set_aside", endpoint=self.url, cause=kind)
        self._aside += 1
        self._aside_from = self.clock()
        self._aside_until = self._aside_from + wait_s


@dataclass(frozen=True, slots=True)
class Replicas:
    """The endpoints of one model. They share its limiter, its budget and its outages."""

    all: Sequence[Replica]

    def turns(self, last: Replica | None) -> Iterator[Replica]:
        """Yield the endpoints that a request goes to, one after another until one answers; at least one.

        last: that of the last request of its unit of work. Where all are set aside, all are tried.
        """
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
