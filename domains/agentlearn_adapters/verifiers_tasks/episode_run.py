"""Runs episodes of verifiers, whose own client asks our model through a service on loopback."""

# verifiers cannot be installed together with the packages that types are checked with.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from verifiers.v1 import AssistantMessage, Env, EvalClientConfig, Message, ModelContext, SystemMessage, ToolMessage
from verifiers.v1.clients.client import SESSION_ID_HEADER
from verifiers.v1.dialects import ChatDialect
from verifiers.v1.types import content_text

from agentlearn.errors import ToolError
from agentlearn_adapters.foreign_domain import ModelCalls, joined, reply_text
from agentlearn_adapters.verifiers_tasks.chat_harness import CALLS_BY_TRACE, CURRENT

_MOST_BYTES = 256 * 2**20
"""Largest request of verifiers, which may hold images."""
_FINISH = {"stop": "stop", "length": "length", "tool_call": "tool_calls", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class _EpisodeOutput:
    """What is kept of an episode."""

    reply: str
    rewards: Mapping[str, tuple[float, float] | None]
    """Score and weight of each reward."""
    metrics: Mapping[str, float | None]
    scoring_error: str = ""
    """What went wrong in the rewards, as a sentence; empty when nothing did."""


async def _answer(request: web.Request) -> web.Response:
    """Ask the model of the rollout that a request of verifiers belongs to."""
    calls = CALLS_BY_TRACE.get(request.headers.get(SESSION_ID_HEADER, ""))
    if calls is None:
        return web.json_response({"error": {"message": "the rollout has ended"}}, status=404)
    body = await request.json()
    asked = ChatDialect().parse_request(body)
    tools = [
        ToolDefinition(name=one.name, description=one.description, parameters_json_schema=one.parameters)
        for one in asked.tools or ()
    ]
    most = body.get("max_completion_tokens", body.get("max_tokens"))
    given = {"temperature": body.get("temperature"), "top_p": body.get("top_p"), "max_tokens": most}
    settings = ModelSettings(**{name: value for name, value in given.items() if value is not None})  # pyright: ignore[reportArgumentType]
    try:
        response = await calls.ask(joined(_message(one) for one in asked.messages), tools, settings)
    except Exception as error:  # noqa: BLE001 - `calls` keeps it and ends the rollout with it
        return web.json_response({"error": {"message": str(error)}}, status=400)
    return web.json_response(_raw(response))


@asynccontextmanager
async def _served_model() -> AsyncGenerator[EvalClientConfig]:
    """Serve the models of all rollouts on loopback, for the client of verifiers."""
    app = web.Application(client_max_size=_MOST_BYTES)
    app.router.add_post("/v1/chat/completions", _answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        _, port = runner.addresses[0][:2]
        yield EvalClientConfig(base_url=f"http://127.0.0.1:{port}/v1", api_key_var="AGENTLEARN_NO_KEY")
    finally:
        await runner.cleanup()


class Served:
    """An environment that runs."""

    def __init__(self, env: Env[Any], client: EvalClientConfig) -> None:
        self.env = env
        self.client = client

    async def episode(self, task: Any, calls: ModelCalls) -> _EpisodeOutput:
        """Run one episode. Raises ToolError when anything but the rewards failed."""
        CURRENT.set(calls)
        episode = await self.env.run_episode(task, ModelContext("rollout", self.client))
        trace = episode.traces[-1] if episode.traces else None
        own = [one.message for one in trace.errors] if trace else []
        scoring = [one for one in own if trace and one.startswith(f"task {trace.task.type} scoring")]
        errors = own or [one.message for one in episode.errors]
        if trace is None or len(scoring) < len(errors):
            words = "; ".join(errors) or "for an unknown reason"
            raise ToolError(f"verifiers ended the rollout: {words}")
        rewards = {name: None if one is None else (one.score, one.weight) for name, one in trace.rewards.items()}
        return _EpisodeOutput(trace.last_reply, rewards, dict(trace.metrics), "; ".join(scoring))


@asynccontextmanager
async def serve(env: Env[Any]) -> AsyncGenerator[Served]:
    """Start the environment, and the service that gives it the models of rollouts."""
    async with _served_model() as client, env.serving():
        yield Served(env, client)


def _message(message: Message) -> ModelMessage:
    match message:
        case SystemMessage():
            return ModelRequest(parts=[SystemPromptPart(content_text(message.content))])
        case AssistantMessage():
            called = [ToolCallPart(one.name, one.arguments, one.id) for one in message.tool_calls or ()]
            return ModelResponse(parts=[*([TextPart(message.content)] if message.content else []), *called])
        case ToolMessage():
            text = content_text(message.content)
            return ModelRequest(parts=[ToolReturnPart(message.name or "", text, message.tool_call_id)])
        case _:
            content = message.content
            return ModelRequest(parts=[UserPromptPart(content if isinstance(content, str) else _parts(content))])


def _parts(content: Sequence[Any]) -> list[UserContent]:
    parts: list[UserContent] = []
    for one in content:
        if one.type != "image_url":
            parts.append(one.text)
        elif one.image_url.url.startswith("data:"):
            parts.append(BinaryContent.from_data_uri(one.image_url.url))
        else:
            parts.append(ImageUrl(one.image_url.url))
    return parts


def _raw(response: ModelResponse) -> dict[str, Any]:
    """Return a response as OpenAI's chat completions write it."""
    called: list[dict[str, Any]] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            written = part.args if isinstance(part.args, str) else json.dumps(part.args or {})
            function = {"name": part.tool_name, "arguments": written}
            called.append({"id": part.tool_call_id, "type": "function", "function": function})
    usage = response.usage
    return {
        "id": response.provider_response_id or "rollout",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": response.model_name or "rollout",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls" if called else _FINISH.get(response.finish_reason or "stop", "stop"),
                "message": {"role": "assistant", "content": reply_text(response), "tool_calls": called or None},
            }
        ],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }
