"""Runs episodes of verifiers with our model in the place of its client."""

# verifiers cannot be installed together with the packages that types are checked with.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

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
from verifiers.v1 import (
    AssistantMessage,
    Client,
    Env,
    EvalClientConfig,
    Message,
    ModelContext,
    Response,
    SamplingConfig,
    SystemMessage,
    ToolMessage,
    Trace,
)
from verifiers.v1.types import content_text

from agentlearn.errors import ToolError
from agentlearn_adapters.model_calls import ModelCalls, joined, text_of
from agentlearn_adapters.verifiers_tasks.chat_harness import CALLS_BY_TRACE, CURRENT

_CLIENT = EvalClientConfig(base_url="http://agentlearn.invalid", api_key_var="AGENTLEARN_NO_KEY")
"""Stands for our client in the configuration of verifiers. Nothing is sent to this address."""
_FINISH = {"stop": "stop", "length": "length", "tool_call": "tool_calls", "content_filter": "content_filter"}


@dataclass(frozen=True, slots=True)
class EpisodeOutput:
    """What is kept of an episode."""

    reply: str
    rewards: Mapping[str, tuple[float, float] | None]
    """Score and weight of each reward."""
    metrics: Mapping[str, float | None]
    scoring_error: str = ""
    """What went wrong in the rewards, as a sentence; empty when nothing did."""


class RolloutClient(Client):
    """verifiers' client, which asks the model of the rollout that a call belongs to."""

    async def get_response(
        self,
        dialect: Any,
        body: dict[str, Any],
        sampling: SamplingConfig,
        session_id: str | None = None,
        turn: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return the model's response to a request in verifiers' own words."""
        request = dialect.parse_request(body)
        tools = [
            ToolDefinition(name=one.name, description=one.description, parameters_json_schema=one.parameters)
            for one in request.tools or ()
        ]
        calls = CALLS_BY_TRACE[session_id or ""]
        raw = _raw(await calls.ask(joined(_message(one) for one in request.messages), tools, _settings(sampling)))
        response = dialect.parse_response(dialect.validate_response(raw))
        response.raw = raw
        return response


class Served:
    """An environment that runs."""

    def __init__(self, env: Env[Any]) -> None:
        self.env = env

    async def episode(self, task: Any, calls: ModelCalls) -> EpisodeOutput:
        """Run one episode. Raises ToolError when anything but the rewards failed."""
        CURRENT.set(calls)
        episode = await self.env.run_episode(task, ModelContext("rollout", _CLIENT))
        if not episode.traces or (episode.errors and not episode.traces[-1].errors):
            raise _failed([one.message for one in episode.errors])
        trace = episode.traces[-1]
        errors = [one.message for one in trace.errors]
        scoring = [one for one in errors if one.startswith(f"task {trace.task.type} scoring")]
        if len(scoring) < len(errors):
            raise _failed(errors)
        return _output(trace, "; ".join(scoring))


@asynccontextmanager
async def serve(env: Env[Any]) -> AsyncGenerator[Served]:
    """Start the environment with our client."""
    async with env.serving():
        server: Any = env._interception  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - it has no other way in
        server.clients[_CLIENT.model_dump_json()] = RolloutClient()
        yield Served(env)


def _failed(errors: Sequence[str]) -> ToolError:
    return ToolError(
        f"verifiers ended the rollout: {'; '.join(errors) or 'for an unknown reason'}", code="episode_failed"
    )


def _output(trace: Trace[Any, Any, Any], scoring_error: str) -> EpisodeOutput:
    rewards = {name: None if one is None else (one.score, one.weight) for name, one in trace.rewards.items()}
    return EpisodeOutput(trace.last_reply, rewards, dict(trace.metrics), scoring_error)


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
    return [_image(one.image_url.url) if one.type == "image_url" else one.text for one in content]


def _image(url: str) -> UserContent:
    return BinaryContent.from_data_uri(url) if url.startswith("data:") else ImageUrl(url)


def _settings(sampling: SamplingConfig) -> ModelSettings:
    given = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_tokens}
    return ModelSettings(**{name: value for name, value in given.items() if value is not None})  # pyright: ignore[reportArgumentType]


def _raw(response: ModelResponse) -> dict[str, Any]:
    """Return a response as OpenAI's chat completions write it."""
    called = [
        {"id": part.tool_call_id, "type": "function", "function": {"name": part.tool_name, "arguments": _json(part)}}
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
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
                "message": {"role": "assistant", "content": text_of(response), "tool_calls": called or None},
            }
        ],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        },
    }


def _json(call: ToolCallPart) -> str:
    return call.args if isinstance(call.args, str) else json.dumps(call.args or {})
