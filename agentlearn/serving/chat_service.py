"""A language model as an OpenAI-compatible service: chat and HTTP around an `Engine`, which knows tokens only.

Beside the usual fields it takes `top_k` and `return_token_ids`, and gives the exact ids of prompt and answer. A
conversation that goes on begins with the very ids of its earlier prompt and answer. What it cannot do (a JSON schema,
stop sequences, penalties) is refused. `tool_choice` "required" and a tool's name are taken as "auto": a model that
must be trained has to say by itself what it wants.
"""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agentlearn.errors import AgentlearnError
from agentlearn.log import get_log
from agentlearn.serving.chat_completion import Completion, Tokens, events, whole
from agentlearn.serving.chat_format import ChatFormat, Spoken
from agentlearn.serving.chat_request import ChatRequest, JsonObject, RequestRefused, chat_request
from agentlearn.serving.engine import Engine, Sampled, Sampling
from agentlearn.serving.http11 import HOST, App, HttpRequest, HttpResponse, listening
from agentlearn.serving.token_cache import Memory
from agentlearn.serving.written_replies import Recall
from agentlearn.text import storable
from agentlearn.types.ids import content_hash, derive_seed

_LOG = get_log()

_MAX_SEED = 2**63 - 1
_NEUTRAL = {
    "stop": (None, "", []),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "min_p": (None, 0),
    "logit_bias": (None, {}),
}
"""Fields that would change what is drawn, and the values at which they do nothing."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, ready to be drawn."""

    request: ChatRequest
    prompt: str
    ids: tuple[int, ...]
    sampling: Sampling


class ChatService:
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
    ) -> None:
        """model: the name that it is asked for by. seed: of requests that send none; they then differ by their order.

        served_by: the system fingerprint of its answers. beyond: answers requests for JSON of a schema or a certain
        tool, unless their tokens are wanted too: what is drawn under constraints is not the model's own.
        """
        self._engine = engine
        self._chat = chat
        self._model = model
        self._seed = seed
        self._served_by = served_by
        self._beyond = beyond
        self._unseeded = 0
        self._memory = Memory([chat.decode([one]) for one in sorted(chat.stop_ids)], chat.encode)
        self._recall = Recall()

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncGenerator[str]:
        """Answer on 127.0.0.1 while the block runs; yields the base URL. Raises OSError when the port is taken."""
        async with listening(self.respond, port) as bound:
            yield f"http://{HOST}:{bound}/v1"

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Answer one HTTP request."""
        try:
            match request.method, request.path:
                case "POST", "/v1/chat/completions":
                    return await self._chatted(request)
                case "GET", "/v1/models":
                    return _json({"object": "list", "data": [self._card]})
                case "GET", "/health":
                    return _json({"status": "ok", "model": self._model})
                case method, path:
                    return _refusal(RequestRefused(404, f"Unknown request: {method} {path}.", code="unknown_url"))
        except RequestRefused as refused:
            return _refusal(refused)
        except AgentlearnError as error:
            _LOG.warning("served.failed", code=error.code, error=error.message)
            return _refusal(RequestRefused(500, error.message, code=error.code, kind="server_error"))

    @property
    def _card(self) -> JsonObject:
        return {
            "id": self._model,
            "object": "model",
            "created": 0,
            "owned_by": "agentlearn",
            "max_model_len": self._engine.context,
        }

    async def _chatted(self, http: HttpRequest) -> HttpResponse:
        request = chat_request(http.body)
        bound = request.schema is not None or request.choice not in {"auto", "none"}
        if self._beyond is not None and bound and not request.token_ids:
            return await self._beyond(http)
        return await self._completed(request)

    async def _completed(self, request: ChatRequest) -> HttpResponse:
        asked = self._asked(request)
        done = self._done(asked, await self._engine.sample(asked.ids, asked.sampling))
        if not request.stream:
            return HttpResponse(200, whole(done))
        return HttpResponse(200, pieces=events(done, with_usage=request.stream_usage), content_type="text/event-stream")

    def _asked(self, request: ChatRequest) -> _Asked:
        """The request with its prompt as tokens. Raises Refused (400, 404)."""
        if request.model != self._model:
            message = f"The model {request.model!r} does not exist here (served: {self._model!r})."
            raise RequestRefused(404, message, code="model_not_found")
        _check(request)
        messages = self._recall.restored(request.messages)
        prompt = storable(self._chat.render(messages, request.tools if request.choice != "none" else ()))
        ids = tuple(self._memory.ids(prompt, [call.id for message in messages for call in message.calls]))
        room = self._engine.context - len(ids)
        if room < 1:
            message = (
                f"This model's maximum context length is {self._engine.context} tokens. However, your messages resulted"
                f" in {len(ids)} tokens. Please reduce the length of the messages."
            )
            raise RequestRefused(400, message, code="context_length_exceeded")
        return _Asked(request, prompt, ids, self._sampling(request, room))

    def _sampling(self, request: ChatRequest, room: int) -> Sampling:
        seed = request.seed
        if seed is None:
            seed = derive_seed("unseeded", self._seed, self._unseeded)
            self._unseeded += 1
        return Sampling(
            seed=seed,
            max_tokens=min(room, request.max_tokens or room),
            temperature=1.0 if request.temperature is None else request.temperature,
            top_p=1.0 if request.top_p is None else request.top_p,
            top_k=max(0, request.top_k or 0),
        )

    def _done(self, asked: _Asked, sampled: Sampled) -> Completion:
        request, ended = asked.request, sampled.finish == "stop"
        words = sampled.ids[:-1] if ended and sampled.ids[-1] in self._chat.stop_ids else sampled.ids
        written = self._chat.decode(words)
        offered = bool(request.tools) and request.choice != "none"
        spoken = self._chat.parse(written) if offered else Spoken(written)
        name = content_hash("answer", list(asked.ids), asked.sampling.seed, list(sampled.ids))[:24]
        calls = tuple((f"call_{name}{at}", *call) for at, call in enumerate(spoken.calls))
        identities = [identity for identity, _, _ in calls]
        self._memory.remember(asked.prompt + self._chat.decode(sampled.ids), [*asked.ids, *sampled.ids], identities)
        self._recall.keep(written, spoken, identities)
        finish = "tool_calls" if calls else sampled.finish
        return Completion(
            id=f"chatcmpl-{name}",
            model=self._model,
            text=spoken.text,
            calls=calls,
            finish=finish,
            prompt_tokens=len(asked.ids),
            answer_tokens=len(sampled.ids),
            created=int(time.time()),
            served_by=self._served_by,
            cached_tokens=sampled.cached,
            tokens=self._tokens(asked, sampled),
        )

    def _tokens(self, asked: _Asked, sampled: Sampled) -> Tokens:
        request = asked.request
        logprobs = None
        if request.logprobs:
            pairs = zip(sampled.ids, sampled.logprobs, strict=True)
            logprobs = tuple((self._chat.decode([one]), logprob) for one, logprob in pairs)
        if not request.token_ids:
            return Tokens(logprobs=logprobs)
        return Tokens(prompt=asked.ids, ids=sampled.ids, logprobs=logprobs)


def _check(request: ChatRequest) -> None:
    """Raises Refused (400) for what is not done here."""
    if request.schema is not None:
        message = "'response_format' is not supported by this model; use tools, or ask for JSON in words."
        raise RequestRefused(400, message, code="unsupported_parameter")
    for name, neutral in _NEUTRAL.items():
        if request.others.get(name) not in neutral:
            message = f"'{name}' is not supported by this model; leave it out."
            raise RequestRefused(400, message, code="unsupported_parameter")
    _range("temperature", request.temperature, 0 <= (request.temperature or 0) < float("inf"), "0 or more")
    _range("top_p", request.top_p, request.top_p is None or 0 < request.top_p <= 1, "above 0 and at most 1")
    _range("top_k", request.top_k, (request.top_k or 0) >= -1, "0 or -1 for all, or a number of tokens")
    _range("max_tokens", request.max_tokens, request.max_tokens is None or request.max_tokens > 0, "1 or more")
    _range("seed", request.seed, 0 <= (request.seed or 0) <= _MAX_SEED, f"between 0 and {_MAX_SEED}")


def _range(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise RequestRefused(400, f"Invalid value for '{name}': {value!r}; it must be {wanted}.", code="invalid_value")


def _refusal(refused: RequestRefused) -> HttpResponse:
    return HttpResponse(refused.status, json.dumps(refused.body).encode())


def _json(value: JsonObject) -> HttpResponse:
    return HttpResponse(200, json.dumps(value).encode())
