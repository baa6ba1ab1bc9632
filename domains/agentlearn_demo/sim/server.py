"""The simulated world as a service: OpenAI-compatible chat completions over loopback HTTP, with faults that it injects.

Answers depend only on the request and the world's seed. The service counts its requests. Faults are latency, rate
limits, server errors, resets, stalls and malformed answers.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import exp
from statistics import NormalDist
from typing import cast

from agentlearn.errors import ConfigError
from agentlearn.serving.chat_request import (
    ChatRequest,
    Completion,
    JsonObject,
    Message,
    RequestRefused,
    Tool,
    chat_request,
)
from agentlearn.serving.chat_service import LoopbackService
from agentlearn.serving.http11 import ConnectionCut, HttpRequest, HttpResponse
from agentlearn.types.experience import estimated_tokens
from agentlearn_demo.sim import MODELS, fingerprint, uniform
from agentlearn_demo.sim.prompts import refusals_in, stage_of
from agentlearn_demo.sim.reflector import Reflector, ReflectorParameters, ReflectorRequest, StageAnswer
from agentlearn_demo.sim.skills import (
    Act,
    Conversation,
    FinalMessage,
    Skills,
    ToolExchange,
    experiences_in,
    without_experiences,
)
from agentlearn_demo.sim.solver import IGNORANT, Novice, SolverInput

FAILURES = ("rate_limited", "server_error", "reset", "stall", "garbled")


@dataclass(frozen=True, slots=True)
class Faults:
    """Fault parameters of the service. Shares are of requests, 0..1; the shares of failures add up to at most 1."""

    latency_s: float = 0.0
    """Median time until an answer, in seconds."""
    latency_spread: float = 0.0
    """Standard deviation of the logarithm of that time. With 0.5, one answer in fifty takes three times the median."""
    rate_limited: float = 0.0
    """Share of requests answered with status 429 and Retry-After."""
    retry_after_s: float = 1.0
    """Value of the Retry-After header, in seconds."""
    server_error: float = 0.0
    """Share of requests answered with status 500, 502 or 503."""
    reset: float = 0.0
    """Share of requests whose connection is reset instead of an answer."""
    stall: float = 0.0
    """Share of requests without an answer for `stall_s`; then the connection is reset."""
    stall_s: float = 600.0
    """Seconds that a stalled request waits."""
    garbled: float = 0.0
    """Share of requests answered with status 200 and a body that is not a chat completion."""
    malformed: float | None = None
    """Share of malformed replies: of stages (replaces the reflector's parameter) and of solvers, whose tool calls are
    cut off. None keeps the reflector's parameter."""

    @classmethod
    def of(cls, parameters: Mapping[str, float | None]) -> "Faults":
        """Faults from parameters by field name; None keeps a default.

        Raises ConfigError for a share outside 0..1, for shares of failures that add up to more than 1, and negative
        times.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        for name, value in given.items():
            is_share = name in (*FAILURES, "malformed")
            if not 0 <= value <= (1 if is_share else float("inf")):
                wanted = "a share from 0 to 1" if is_share else "a number of at least 0"
                raise ConfigError(f"--{name.replace('_', '-')} is {value!r}; give {wanted}")
        if (total := sum(given.get(name, 0.0) for name in FAILURES)) > 1:
            raise ConfigError(f"the shares of failures add up to {total:g}; reduce them to at most 1")
        return cls(**given)

    def failure(self, *named: object) -> str:
        """Draw which of `FAILURES` a request identified by `named` has; empty for none."""
        draw = uniform("fault", *named)
        for name in FAILURES:
            share: float = getattr(self, name)
            if draw < share:
                return name
            draw -= share
        return ""

    def latency(self, draw: float) -> float:
        """The time until an answer, in seconds, for a draw in [0, 1): log-normal, so sometimes much longer."""
        return self.latency_s * exp(self.latency_spread * NormalDist().inv_cdf(min(max(draw, 1e-9), 1 - 1e-9)))


PARAMETERS = tuple(one.name for one in fields(Faults))


REMEMBERED_REQUESTS = 100_000
_SERVER_ERRORS = (500, 502, 503)
_GARBAGE = (b"<html><body>502 Bad Gateway</body></html>", b'{"object": "chat.comp', b"{}", b"")
_OUTPUT_TOOL = re.compile(r"^(?:submit|final_result|answer|done)(?:_|$)")
_URL = re.compile(r"\bhttps?://\S+")
_BOXED = re.compile(r"\\boxed\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")


_MESSAGE_TOKENS = 4
"""Estimated tokens of each message besides its text."""
_TOKEN = re.compile(r"\s*(?:\w{1,6}|[^\w\s])")
_tokens = lru_cache(maxsize=512)(estimated_tokens)


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of the assistant: text or one tool call."""

    text: str = ""
    call: tuple[str, str] | None = None
    """Tool name, and arguments as JSON."""

    def completion(self, request: ChatRequest, request_hash: str, call_id: str) -> Completion:
        """Return the completion of a model without a tokenizer. Token counts and the limit are estimates."""
        text = self.text
        finish = "tool_calls" if self.call else "stop"
        if request.max_tokens is not None and self.call is None and estimated_tokens(text) > request.max_tokens:
            text = "".join(_TOKEN.findall(text)[: request.max_tokens])
            finish = "length"
        return Completion(
            id=f"chatcmpl-{request_hash}",
            model=request.model,
            text=text,
            calls=((call_id, *self.call),) if self.call else (),
            finish=finish,
            prompt_tokens=sum(_tokens(tool.size) for tool in request.tools)
            + sum(
                _MESSAGE_TOKENS + _tokens(message.text) + sum(_tokens(call.arguments) for call in message.calls)
                for message in request.messages
            ),
            answer_tokens=max(1, estimated_tokens(text) + (estimated_tokens(self.call[1]) + 4 if self.call else 0)),
            created=int(time.time()),
            served_by="sim",
        )


class World(LoopbackService):
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
        parameters = parameters or ReflectorParameters()
        if self._faults.malformed is not None:
            parameters = replace(parameters, malformed=self._faults.malformed)
        self._reflector = Reflector(skills, parameters=parameters, world=seed)
        self._requests = 0
        self._repeats: OrderedDict[str, int] = OrderedDict()

    def pages(self) -> Mapping[str, JsonObject]:
        """What is answered at other paths."""
        card = {"object": "model", "created": 0, "owned_by": "agentlearn-sim"}
        return {
            "/v1/models": {"object": "list", "data": [{"id": name, **card} for name in MODELS]},
            "/health": {"status": "ok", "simulated": True},
            "/stats": {"requests": self._requests},
        }

    async def chat(self, http: HttpRequest) -> HttpResponse:
        """Answer a chat completion, or fail as the faults say."""
        self._requests += 1
        request = chat_request(http.body)
        if request.model not in MODELS:
            known = ", ".join(MODELS)
            message = f"The model {request.model!r} does not exist here (known: {known})."
            raise RequestRefused(404, message, code="model_not_found")
        stage_request = None if request.model == "echo" else _reflector_request(request)
        request_hash = fingerprint(http.body)
        named = (self._seed, request.seed, request_hash, self._repeat(request_hash))
        if (failure := await self._failure(named)) is not None:
            return failure
        answer = self._answer(request, stage_request, named)
        # Depends on the seed and the position in the conversation, so lessons do not change it.
        call_id = f"call_{fingerprint('call', _request_seed(request), len(request.messages))}"
        return answer.completion(request, request_hash, call_id).response(request)

    async def _failure(self, named: tuple[object, ...]) -> HttpResponse | None:
        """Wait as long as an answer takes; return the failure of a request instead of an answer; None for none."""
        faults = self._faults
        kind = faults.failure(*named)
        if kind != "rate_limited" and (wait_s := faults.latency(uniform("latency", *named))):
            await asyncio.sleep(wait_s)
        match kind:
            case "":
                return None
            case "rate_limited":
                message = "Rate limit reached, please try again later."
                refused = RequestRefused(429, message, code="rate_limit_exceeded", kind="requests")
                return replace(self.refusal(refused), headers={"retry-after": f"{faults.retry_after_s:g}"})
            case "server_error":
                status = _SERVER_ERRORS[int(uniform("status", *named) * len(_SERVER_ERRORS))]
                message = "The server had an error while processing your request."
                return self.refusal(RequestRefused(status, message, code="server_error", kind="server_error"))
            case "garbled":
                return HttpResponse(200, _GARBAGE[int(uniform("garbage", *named) * len(_GARBAGE))])
            case _:
                await asyncio.sleep(faults.stall_s if kind == "stall" else 0.0)
                raise ConnectionCut(kind)

    def _answer(
        self, request: ChatRequest, stage_request: ReflectorRequest | None, named: tuple[object, ...]
    ) -> _Answer:
        if request.model == "echo":
            return _Answer(next((one.text for one in reversed(request.messages) if one.role == "user"), ""))
        if stage_request is not None:
            return _stage_answer(self._reflector.answer(stage_request), stage_request.key, request)
        answer = _act_answer(self._novice.answer(_solver_input(request)).act, request)
        if answer.call is not None and uniform("cut", *named) < (self._faults.malformed or 0):
            tool, arguments = answer.call
            return _Answer(answer.text, (tool, arguments[: len(arguments) * 3 // 5]))
        return answer

    def _repeat(self, request_hash: str) -> int:
        """How often the same request arrived before, so that a retry gets other random faults."""
        before = self._repeats.pop(request_hash, 0)
        self._repeats[request_hash] = before + 1
        if len(self._repeats) > REMEMBERED_REQUESTS:
            self._repeats.popitem(last=False)
        return before


# Chat requests as inputs of the solver and the reflector, and their answers in the form asked for.


def _solver_input(request: ChatRequest) -> SolverInput:
    """The solver's input. Lessons are read from system and user messages, never from tool results."""
    instructions = "\n\n".join(without_experiences(one.text) for one in request.messages if one.role == "system")
    tools = tuple(tool.name for tool in request.callable_tools)
    spoken = (message.text for message in request.messages if message.role in {"system", "user"})
    return SolverInput(
        # One interpretation per user message, the last first: it may be a new problem or only a reminder.
        conversations=tuple(
            Conversation(instructions, without_experiences(message.text), tools, _turns(request.messages[at:]))
            for at, message in reversed(list(enumerate(request.messages)))
            if message.role == "user"
        ),
        experiences=tuple(shown for text in spoken for shown in experiences_in(text)),
        seed=_request_seed(request),
        temperature=request.temperature,
    )


def _reflector_request(request: ChatRequest) -> ReflectorRequest | None:
    """The reflector's input; None if the conversation is not about one of its stages."""
    users = [message for message in request.messages if message.role == "user"]
    prompt = next((user.text for user in users if stage_of(user.text) is not None), "")
    stage = stage_of(prompt)
    if stage is None:
        return None
    said = [message for message in request.messages if message.role == "assistant"]
    refusal = users[-1].text if said and refusals_in(users[-1].text) else ""
    return ReflectorRequest(
        stage=stage,
        prompt=prompt,
        seed=_request_seed(request),
        earlier=len(said),
        refusal=refusal,
        previous=_as_sent(said[-1]) if refusal else "",
    )


def _request_seed(request: ChatRequest) -> int | str:
    """The request's seed, or a hash of its messages without lessons, so that lessons do not change random draws."""
    if request.seed is not None:
        return request.seed
    return fingerprint(*((one.role, without_experiences(one.text), _as_sent(one)) for one in request.messages))


def _turns(messages: tuple[Message, ...]) -> tuple[ToolExchange, ...]:
    """Tool calls with their results, without calls whose arguments are not a JSON object."""
    results = {message.answers: message.text for message in messages if message.role == "tool"}
    turns: list[ToolExchange] = []
    for call in (call for message in messages for call in message.calls if call.id in results):
        try:
            arguments: object = json.loads(call.arguments or "{}")
        except ValueError:
            continue
        if isinstance(arguments, dict):
            turns.append(ToolExchange(call.name, arguments, results[call.id]))
    return tuple(turns)


def _as_sent(message: Message) -> str:
    return message.calls[0].arguments if message.calls else message.text


def _stage_answer(reply: StageAnswer, key: str, request: ChatRequest) -> _Answer:
    """A stage's answer as a call of the output tool if there is one, else as JSON text."""
    tool = next((tool for tool in request.callable_tools if key in tool.properties or _is_output(tool)), None)
    return _Answer(call=(tool.name, reply.text)) if tool and reply.structured else _Answer(reply.text)


def _act_answer(act: Act, request: ChatRequest) -> _Answer:
    """The solver's act as a message. An unavailable tool is not called; a final message fills an output tool."""
    if isinstance(act, FinalMessage):
        return _said(act.text, request)
    if act.tool not in {tool.name for tool in request.callable_tools}:
        return _said(IGNORANT.text, request)
    return _Answer(act.text, (act.tool, json.dumps(dict(act.arguments), ensure_ascii=False)))


def _said(text: str, request: ChatRequest) -> _Answer:
    tools = request.callable_tools
    output = next((tool for tool in tools if _is_output(tool)), None)
    if output is None and tools and request.choice != "auto":
        output = tools[0]
    if output is not None:
        arguments = json.dumps(_filled(output.parameters, text), ensure_ascii=False)
        held = json.dumps(text, ensure_ascii=False)[1:-1] in arguments
        said = "" if held else text  # the work, where no field of the output holds it
        return _Answer(said, (output.name, arguments))
    if request.schema is not None:
        return _Answer(json.dumps(_filled(request.schema or _ANY_OBJECT, text), ensure_ascii=False))
    return _Answer(text)


def _is_output(tool: Tool) -> bool:
    return _OUTPUT_TOOL.match(tool.name) is not None


_ANY_OBJECT: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}}


def _filled(schema: JsonObject, text: str) -> object:
    """The simplest value of the schema that contains the text."""
    definitions = cast("Mapping[str, JsonObject]", schema.get("$defs") or {})
    boxed = _BOXED.findall(text)

    def value(schema: JsonObject, name: str) -> object:
        if reference := str(schema.get("$ref") or ""):
            return value(definitions.get(reference.rpartition("/")[2], {}), name)
        if choices := cast("list[JsonObject]", schema.get("anyOf") or schema.get("oneOf") or []):
            return value(choices[0], name)
        if options := cast("list[object]", schema.get("enum") or []):
            return options[0]
        match schema.get("type"):
            case "object":
                properties = cast("Mapping[str, JsonObject]", schema.get("properties") or {})
                return {key: value(one, key) for key, one in properties.items()}
            case "array":
                return []
            case "integer" | "number" as kind:  # the number in the last box
                with suppress(IndexError, ValueError):
                    return int(boxed[-1]) if kind == "integer" else float(boxed[-1])
                return 0
            case "boolean":
                return False
            case "null":
                return None
            case _:
                if name == "url":
                    return next(iter(_URL.findall(text)), "")
                return boxed[-1] if boxed and name == "answer" else text

    return value(schema, "")
