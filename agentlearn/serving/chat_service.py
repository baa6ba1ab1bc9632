"""An OpenAI-compatible chat service around an `Engine`, which samples tokens.

Besides the usual fields it supports `top_k`, `min_p` and `return_token_ids`, and returns the exact token ids of prompt
and answer. A conversation that continues starts with exactly the ids of its earlier prompt and answer. Unsupported
features (JSON schemas, stop sequences, penalties) are refused. `tool_choice` "required" or a tool's name means "auto",
because a model in training must choose by itself.

A text can have several tokenizations. A conversation that continues therefore takes the ids of its earlier part from
this cache, and only new text is encoded.
"""

import asyncio
import hashlib
import json
import re
import threading
import time
from abc import ABC, abstractmethod
from array import array
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from agentlearn.errors import AgentlearnError, EndpointError
from agentlearn.serving.chat_request import (
    CallInMessage,
    ChatFormat,
    ChatRequest,
    Completion,
    JsonObject,
    Message,
    ParsedAnswer,
    RequestRefused,
    chat_request,
)
from agentlearn.serving.http11 import HOST, App, HttpRequest, HttpResponse, listening
from agentlearn.text import storable
from agentlearn.text.log import get_log
from agentlearn.types.ids import content_hash, derive_seed


@dataclass(frozen=True, slots=True)
class Sampling:
    """Options for sampling one answer."""

    seed: int
    """Seed of all random choices: the same prompt, weights and options give the same tokens, whatever other requests
    run at the same time."""
    max_tokens: int
    """Largest number of answer tokens."""
    temperature: float = 1.0
    """0: always the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    """0: all tokens."""
    min_p: float = 0.0
    """Tokens below this share of the likeliest token's probability are left out, before top_k and top_p; 0: none."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sampled answer."""

    ids: tuple[int, ...]
    """The answer's tokens in order, the stop token included."""
    logprobs: tuple[float, ...]
    """Log-probability of each token at the sampling temperature, over the whole vocabulary; at temperature 0 as at 1.
    """
    finish: Literal["stop", "length"]
    cached: int = 0
    """Number of prompt tokens that did not have to be computed."""


class Engine(Protocol):
    """A language model that samples tokens for many requests, in batches."""

    @property
    def context(self) -> int:
        """Largest number of tokens of prompt and answer together."""
        ...

    async def sample(self, prompt: Sequence[int], sampling: Sampling) -> Sampled:
        """Sample an answer to the prompt. A cancelled call uses no further computing time."""
        ...


MAX_TOKENS_KEPT = 4_000_000
"""Number of tokens to keep (16 MB) before the oldest conversations are dropped."""


MAX_ANSWERS = 20_000


class WrittenReplies:
    """The exact text of answers, by the ids of their calls, or by their text if they have no calls."""

    def __init__(self, limit: int = MAX_ANSWERS) -> None:
        self._limit = limit
        self._answers: OrderedDict[tuple[str, ...] | str, Message] = OrderedDict()

    def store(self, written: str, parsed: ParsedAnswer, calls: Sequence[str]) -> None:
        """Store an answer. calls: ids of its tool calls."""
        made = (CallInMessage(one, *call) for one, call in zip(calls, parsed.calls, strict=False))
        key = tuple(calls) or parsed.text
        self._answers[key] = Message("assistant", parsed.text, tuple(made), verbatim=written)
        self._answers.move_to_end(key)
        if len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    def restored(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages; unchanged assistant messages get their `verbatim` text."""
        found: list[Message] = []
        for message in messages:
            key = tuple(call.id for call in message.calls) or message.text
            known = self._answers.get(key) if message.role == "assistant" else None
            if known is None or known.meaning != message.meaning:
                found.append(message)
                continue
            self._answers.move_to_end(key)
            found.append(replace(message, verbatim=known.verbatim))
        return tuple(found)


class TokenCache:
    """Token ids by rendered text."""

    def __init__(self, ends: Sequence[str], encode: Callable[[str], list[int]]) -> None:
        """ends: texts that end an answer."""
        self._ends = re.compile("|".join(re.escape(end) for end in ends if end) or r"(?!)")
        self._encode = encode
        self._kept = 0
        self._entries: OrderedDict[tuple[bytes, frozenset[str]], array[int]] = OrderedDict()
        """Tokens of prompt and answer. The ids of an answer's tool calls distinguish answers with equal text."""
        self._named: OrderedDict[bytes, list[frozenset[str]]] = OrderedDict()

    def store(self, text: str, ids: Sequence[int], calls: Sequence[str]) -> None:
        """Store the token ids of a prompt with its answer. calls: ids of the answer's tool calls."""
        key, names = self._key(text), frozenset(calls)
        self._drop(key, names)
        self._entries[key, names] = array("i", ids)
        self._named.setdefault(key, []).append(names)
        self._kept += len(ids)
        while self._kept > MAX_TOKENS_KEPT and len(self._entries) > 1:
            self._drop(*next(iter(self._entries)))

    def ids(self, text: str, calls: Sequence[str] = ()) -> list[int]:
        """Return the token ids of a prompt: cached ids for its longest known prefix, then newly encoded ones.

        calls: ids of all tool calls in the conversation.
        """
        # Positions where an answer may end, the last first: before and after each end text.
        for end in sorted({at for found in self._ends.finditer(text) for at in found.span()}, reverse=True):
            key = self._key(text[:end])
            if (named := self._named.get(key)) is not None:
                names = next((one for one in reversed(named) if one and one <= set(calls)), named[-1])
                self._entries.move_to_end((key, names))
                return [*self._entries[key, names], *self._encode(text[end:])]
        return self._encode(text)

    @staticmethod
    def _key(text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def _drop(self, key: bytes, names: frozenset[str]) -> None:
        entry = self._entries.pop((key, names), None)
        if entry is None:
            return
        self._kept -= len(entry)
        self._named[key].remove(names)
        if not self._named[key]:
            del self._named[key]


_LOG = get_log()

_MAX_SEED = 2**63 - 1
_NEUTRAL = {
    "stop": (None, "", []),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "logit_bias": (None, {}),
}
"""Fields that would change the sampled tokens, and the values at which they have no effect."""
_RANGES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "temperature": (lambda value: 0 <= value < float("inf"), "0 or more"),
    "top_p": (lambda value: 0 < value <= 1, "above 0 and at most 1"),
    "top_k": (lambda value: value >= -1, "0 or -1 for all, or a number of tokens"),
    "min_p": (lambda value: 0 <= value <= 1, "between 0 and 1"),
    "max_tokens": (lambda value: value > 0, "1 or more"),
    "seed": (lambda value: 0 <= value <= _MAX_SEED, f"between 0 and {_MAX_SEED}"),
}
"""What values of numbers must be, and how that is said."""


@dataclass(frozen=True, slots=True)
class _PreparedRequest:
    """A request with its prompt as text and tokens."""

    request: ChatRequest
    prompt: str
    ids: tuple[int, ...]
    sampling: Sampling


class LoopbackService(ABC):
    """An OpenAI-compatible service on loopback."""

    @abstractmethod
    async def chat(self, http: HttpRequest) -> HttpResponse:
        """Answer a chat completion. Raises RequestRefused."""

    @abstractmethod
    def pages(self) -> Mapping[str, JsonObject]:
        """What is answered at other paths."""

    def refusal(self, refused: RequestRefused) -> HttpResponse:
        """Answer a request that is refused."""
        return HttpResponse(refused.status, json.dumps(refused.body).encode())

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncGenerator[str]:
        """Answer on 127.0.0.1 while the block runs; yields the base URL. Raises OSError when the port is taken."""
        async with listening(self.respond, port) as bound:
            yield f"http://{HOST}:{bound}/v1"

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Answer one HTTP request."""
        method, path = request.method, request.path
        try:
            if (method, path) == ("POST", "/v1/chat/completions"):
                return await self.chat(request)
            if method == "GET" and (page := self.pages().get(path)) is not None:
                return HttpResponse(200, json.dumps(page).encode())
            return self.refusal(RequestRefused(404, f"Unknown request: {method} {path}.", code="unknown_url"))
        except RequestRefused as refused:
            return self.refusal(refused)
        except AgentlearnError as error:
            _LOG.warning("request.failed", code=error.code, error=error.message)
            return self.refusal(RequestRefused(500, error.message, code=error.code, kind="server_error"))


class ChatService(LoopbackService):
    """One served model."""

    def __init__(
        self,
        engine: Engine,
        chat: ChatFormat,
        *,
        model: str,
        seed: int = 0,
        served_by: str = "local",
        beyond: App | None = None,
        known: int | None = None,
    ) -> None:
        """model: name of the model in requests. seed: for requests without a seed, together with their order.

        served_by: system fingerprint of its answers. beyond: app that answers requests with a JSON schema or a forced
        tool, unless they want token ids, because constrained tokens are not the model's own choice. known: number of
        tokens that the model knows; None: all of the tokenizer.
        """
        self._engine = engine
        self._chat = chat
        self._model = model
        self._seed = seed
        self._served_by = served_by
        self._beyond = beyond
        self._known = known
        self._unseeded = 0
        self._token_cache = TokenCache([chat.decode([one]) for one in sorted(chat.stop_ids)], chat.encode)
        self._replies = WrittenReplies()

    def pages(self) -> Mapping[str, JsonObject]:
        """What is answered at other paths."""
        card = {"id": self._model, "object": "model", "created": 0, "owned_by": "agentlearn"}
        return {
            "/v1/models": {"object": "list", "data": [{**card, "max_model_len": self._engine.context}]},
            "/health": {"status": "ok", "model": self._model},
        }

    async def chat(self, http: HttpRequest) -> HttpResponse:
        """Answer a chat completion."""
        request = chat_request(http.body)
        bound = request.schema is not None or request.choice not in {"auto", "none"}
        if self._beyond is not None and bound and not request.token_ids:
            return await self._beyond(http)
        prepared = self._prepare(request)
        done = self._completion(prepared, await self._engine.sample(prepared.ids, prepared.sampling))
        if not request.stream:
            return HttpResponse(200, done.body())
        return HttpResponse(200, pieces=done.events(with_usage=request.stream_usage), content_type="text/event-stream")

    def _prepare(self, request: ChatRequest) -> _PreparedRequest:
        """Render and encode the prompt. Raises RequestRefused (400, 404)."""
        if request.model != self._model:
            message = f"The model {request.model!r} does not exist here (served: {self._model!r})."
            raise RequestRefused(404, message, code="model_not_found")
        if request.schema is not None:
            message = "'response_format' is not supported by this model; use tools, or ask for JSON in words."
            raise RequestRefused(400, message, code="unsupported_parameter")
        for name, neutral in _NEUTRAL.items():
            if request.others.get(name) not in neutral:
                message = f"'{name}' is not supported by this model; leave it out."
                raise RequestRefused(400, message, code="unsupported_parameter")
        for name, (holds, wanted) in _RANGES.items():
            if (value := getattr(request, name)) is not None and not holds(value):
                message = f"Invalid value for '{name}': {value!r}; it must be {wanted}."
                raise RequestRefused(400, message, code="invalid_value")
        messages = self._replies.restored(request.messages)
        prompt = storable(self._chat.render(messages, request.tools if request.choice != "none" else ()))
        ids = tuple(self._token_cache.ids(prompt, [call.id for message in messages for call in message.calls]))
        if self._known is not None and (largest := max(ids, default=0)) >= self._known:
            message = f"The prompt has the token {self._chat.decode([largest])!r}, which the model does not know."
            raise RequestRefused(400, message, code="unknown_token")
        room = self._engine.context - len(ids)
        if room < 1:
            message = (
                f"This model's maximum context length is {self._engine.context} tokens. However, your messages resulted"
                f" in {len(ids)} tokens. Please reduce the length of the messages."
            )
            raise RequestRefused(400, message, code="context_length_exceeded")
        seed = request.seed
        if seed is None:
            seed = derive_seed("unseeded", self._seed, self._unseeded)
            self._unseeded += 1
        sampling = Sampling(
            seed=seed,
            max_tokens=min(room, request.max_tokens or room),
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=max(0, request.top_k or 0),
            min_p=request.min_p or 0.0,
        )
        return _PreparedRequest(request, prompt, ids, sampling)

    def _completion(self, prepared: _PreparedRequest, sampled: Sampled) -> Completion:
        request, ended = prepared.request, sampled.finish == "stop"
        ids = sampled.ids[:-1] if ended and sampled.ids[-1] in self._chat.stop_ids else sampled.ids
        written = self._chat.decode(ids)
        offered = bool(request.tools) and request.choice != "none"
        parsed = ParsedAnswer(written)
        if offered:
            parsed = self._chat.parse(written, request.tools, prompt=prepared.prompt)
        name = content_hash("answer", list(prepared.ids), prepared.sampling.seed, list(sampled.ids))[:24]
        calls = tuple((f"call_{name}{at}", *call) for at, call in enumerate(parsed.calls))
        identities = [identity for identity, _, _ in calls]
        self._token_cache.store(
            prepared.prompt + self._chat.decode(sampled.ids), [*prepared.ids, *sampled.ids], identities
        )
        self._replies.store(written, parsed, identities)
        finish = "tool_calls" if calls else sampled.finish
        pairs = zip(sampled.ids, sampled.logprobs, strict=True)
        return Completion(
            id=f"chatcmpl-{name}",
            model=self._model,
            text=parsed.text,
            calls=calls,
            finish=finish,
            prompt_tokens=len(prepared.ids),
            answer_tokens=len(sampled.ids),
            created=int(time.time()),
            served_by=self._served_by,
            cached_tokens=sampled.cached,
            prompt_ids=prepared.ids if request.token_ids else None,
            ids=sampled.ids if request.token_ids else None,
            token_logprobs=(
                tuple((self._chat.decode([one]), logprob) for one, logprob in pairs) if request.logprobs else None
            ),
        )


@asynccontextmanager
async def serve_in_thread(opened: Callable[[], AbstractAsyncContextManager[str]]) -> AsyncGenerator[str]:
    """Run a service in a thread while the block runs; yields its URL.

    opened: creates the service, which is entered and left in that thread. Raises EndpointError when it cannot listen.
    """
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, str]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        async with opened() as url:
            ready.set_result((asyncio.get_running_loop(), stop, url))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as error:  # noqa: BLE001  raised again in the caller's thread
            if not ready.done():
                if isinstance(error, OSError):
                    error = EndpointError(f"a local model cannot be served on loopback: {error}", code="not_served")
                ready.set_exception(error)

    thread = threading.Thread(target=run, name="agentlearn-service", daemon=True)
    thread.start()
    loop, stop, url = await asyncio.wrap_future(ready)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join)
