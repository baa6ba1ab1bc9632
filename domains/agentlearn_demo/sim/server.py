"""The simulated world as a service: OpenAI-compatible chat completions over loopback HTTP.

Answers depend only on the request and the world's seed. The service counts its requests, for tests to check.
"""

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from agentlearn.serving.chat_completion import AssistantMessage, completion, completion_body, completion_events
from agentlearn.serving.chat_request import ChatRequest, JsonObject, RequestRefused, chat_request
from agentlearn.serving.http11 import HOST, ConnectionCut, HttpRequest, HttpResponse, listening
from agentlearn_demo.sim import MODELS
from agentlearn_demo.sim.conversation import act_answer, reflector_request, request_seed, solver_input, stage_answer
from agentlearn_demo.sim.draws import fingerprint, uniform
from agentlearn_demo.sim.faults import Faults, Garbled, NoAnswer, draw_fault, with_headers
from agentlearn_demo.sim.reflector import Reflector, ReflectorParameters, ReflectorRequest
from agentlearn_demo.sim.skills import Skills
from agentlearn_demo.sim.solver import Novice

REMEMBERED_REQUESTS = 100_000
SEED_HEADER = "x-sim-seed"
"""Request header for clients that cannot send the field `seed`."""


class World:
    """One simulated world: its models, its parameters and its counts of requests."""

    def __init__(
        self,
        skills: Sequence[Skills],
        *,
        seed: int = 0,
        faults: Faults | None = None,
        parameters: ReflectorParameters | None = None,
    ) -> None:
        self._seed = seed
        self._faults = faults or Faults()
        self._novice = Novice(skills, world=seed)
        self._reflector = Reflector(skills, parameters=parameters, world=seed)
        self._requests = 0
        self._asked: Counter[tuple[str, str]] = Counter()
        self._statuses: Counter[int] = Counter()
        self._injected: Counter[str] = Counter()
        self._repeats: OrderedDict[str, int] = OrderedDict()

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncGenerator[str]:
        """Serve on 127.0.0.1 while the block runs; yields the base URL. Raises OSError when the port is taken."""
        async with listening(self.respond, port) as bound:
            yield f"http://{HOST}:{bound}/v1"

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Answer one HTTP request."""
        try:
            match request.method, request.path:
                case "POST", "/v1/chat/completions":
                    return await self._chat(request)
                case "GET", "/v1/models":
                    return _json({"object": "list", "data": [_model(name) for name in MODELS]})
                case "GET", "/health":
                    return _json({"status": "ok", "simulated": True})
                case "GET", "/stats":
                    return _json(self.stats())
                case method, path:
                    return self._refusal(RequestRefused(404, f"Unknown request: {method} {path}.", code="unknown_url"))
        except RequestRefused as refused:
            return self._refusal(refused)

    def stats(self) -> JsonObject:
        """Counts of chat completions: all, by model and stage, by status, and of injected faults."""
        by_model: dict[str, dict[str, int]] = {}
        for (model, stage), count in sorted(self._asked.items()):
            by_model.setdefault(model, {})[stage] = count
        return {
            "requests": self._requests,
            "by_model": by_model,
            "by_status": {str(status): count for status, count in sorted(self._statuses.items())},
            "injected": dict(sorted(self._injected.items())),
        }

    async def _chat(self, http: HttpRequest) -> HttpResponse:
        self._requests += 1
        faults = with_headers(self._faults, http.headers)
        request = _seeded(chat_request(http.body), http)
        if request.model not in MODELS:
            known = ", ".join(MODELS)
            message = f"The model {request.model!r} does not exist here (known: {known})."
            raise RequestRefused(404, message, code="model_not_found")
        stage_request = None if request.model == "echo" else reflector_request(request, malformed=faults.malformed)
        self._asked[request.model, _stage(request, stage_request)] += 1
        request_hash = fingerprint(http.body)
        named = (self._seed, request.seed, request_hash, self._repeat(request_hash))
        failure = draw_fault(faults, *named)
        rate_limited = isinstance(failure, RequestRefused) and failure.status == 429
        if not rate_limited and (wait_s := faults.latency(uniform("latency", *named))):
            await asyncio.sleep(wait_s)
        match failure:
            case RequestRefused():
                self._injected[str(failure.status)] += 1
                return self._refusal(failure, retry_after_s=faults.retry_after_s)
            case NoAnswer(kind=kind, after_s=after_s):
                self._injected[kind] += 1
                await asyncio.sleep(after_s)
                raise ConnectionCut(kind)
            case Garbled(body=body):
                self._injected["garbled"] += 1
                return HttpResponse(200, body)
            case None:
                pass
        done = completion(
            self._answer(request, stage_request, faults, named),
            request,
            request_hash=request_hash,
            # Depends on the seed and the position in the conversation, so lessons do not change it.
            call_id=f"call_{fingerprint('call', request_seed(request), len(request.messages))}",
            served_by="sim",
        )
        self._statuses[200] += 1
        if not request.stream:
            return HttpResponse(200, completion_body(done))
        return HttpResponse(
            200, pieces=completion_events(done, with_usage=request.stream_usage), content_type="text/event-stream"
        )

    def _answer(
        self, request: ChatRequest, stage_request: ReflectorRequest | None, faults: Faults, named: tuple[object, ...]
    ) -> AssistantMessage:
        if request.model == "echo":
            return AssistantMessage(next((one.text for one in reversed(request.messages) if one.role == "user"), ""))
        if stage_request is not None:
            reply = self._reflector.answer(stage_request)
            if reply.malformation is not None:
                self._injected[f"malformed_{reply.malformation}"] += 1
            return stage_answer(reply, stage_request.key, request)
        answer = act_answer(self._novice.answer(solver_input(request)).act, request)
        if answer.call is not None and uniform("cut", *named) < (faults.malformed or 0):
            self._injected["malformed_call"] += 1
            tool, arguments = answer.call
            return AssistantMessage(answer.text, (tool, arguments[: len(arguments) * 3 // 5]))
        return answer

    def _repeat(self, request_hash: str) -> int:
        """How often the same request arrived before, so that a retry gets other random faults."""
        before = self._repeats.pop(request_hash, 0)
        self._repeats[request_hash] = before + 1
        if len(self._repeats) > REMEMBERED_REQUESTS:
            self._repeats.popitem(last=False)
        return before

    def _refusal(self, refused: RequestRefused, *, retry_after_s: float = 0.0) -> HttpResponse:
        self._statuses[refused.status] += 1
        headers = {"retry-after": f"{retry_after_s:g}"} if refused.status == 429 else {}
        return HttpResponse(refused.status, json.dumps(refused.body).encode(), headers=headers)


def _seeded(request: ChatRequest, http: HttpRequest) -> ChatRequest:
    """The request with the seed of its header if its body has none. Raises RequestRefused (400)."""
    header = http.headers.get(SEED_HEADER)
    if header is None or request.seed is not None:
        return request
    try:
        return replace(request, seed=int(header))
    except ValueError:
        message = f"The header '{SEED_HEADER}' must be an integer, not {header!r}."
        raise RequestRefused(400, message, code="invalid_value") from None


def _stage(request: ChatRequest, stage_request: ReflectorRequest | None) -> str:
    if stage_request is not None:
        return f"{stage_request.stage}_repair" if stage_request.refusal else stage_request.stage
    return "echo" if request.model == "echo" else "rollout"


def _json(value: JsonObject) -> HttpResponse:
    return HttpResponse(200, json.dumps(value).encode())


def _model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentlearn-sim"}
