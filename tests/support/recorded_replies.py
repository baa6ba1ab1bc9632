"""Recorded replies of real services, from the test cassettes in a clone of pydantic-ai, served on loopback and read.

Our client, with the address `http://…#model`, must find in a chat completion what stands there. Nothing of the clone is
copied.
"""

import asyncio
import json
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic_ai.messages import ModelMessage, ModelRequest, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from agentlearn.cli.model_probe import MemoryJournal
from agentlearn.config import BudgetOptions, CallOptions
from agentlearn.errors import AgentlearnError
from agentlearn.models.budget import Budget
from agentlearn.models.call_context import CallContext, WorkUnit
from agentlearn.models.endpoint import open_endpoint
from agentlearn.models.outage import RetryPolicy
from agentlearn.models.token_estimate import cost_usd
from agentlearn.types.ids import new_run_id
from tests.support.openai_script import Reply
from tests.support.openai_stub import OpenAIStub

_LIMIT = 4_000


class Read(NamedTuple):
    """What a client made of a reply."""

    text: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments of each tool call."""
    tokens: tuple[int, int]
    """Input and output tokens."""
    cost: float | None = None


def chat_completions(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the whole (not streamed) chat completions in the cassettes below a folder, each with its file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in sorted(root.rglob("cassettes/**/*.yaml")):
        recorded: Any = yaml.load(file.read_text(encoding="utf-8"), loader)
        for one in recorded.get("interactions", ()) if isinstance(recorded, dict) else ():
            if "request" not in one or not one["request"]["uri"].partition("?")[0].endswith("/chat/completions"):
                continue
            body = _json(one["response"])
            if one["response"]["status"]["code"] == 200 and body is not None and body.get("choices"):
                yield str(file.relative_to(root)), body


def _json(message: dict[str, Any]) -> dict[str, Any] | None:
    found = message.get("parsed_body")
    if found is None:
        text = message.get("body")
        text = text.get("string") if isinstance(text, dict) else text
        try:
            found = json.loads(text or "")
        except (ValueError, TypeError):
            return None
    return found if isinstance(found, dict) else None


def read_as_address(bodies: Iterable[dict[str, Any]], tools: Collection[str] | None = None) -> Iterator[Read | str]:
    """Yield what is read of each chat completion, or why nothing is.

    tools: names of the tools that are given; None: those that the reply calls.
    """
    for body in bodies:
        names = {name for name, _ in recorded(body).calls} if tools is None else tools
        with OpenAIStub(lambda _, body=body: Reply(body=body)) as stub:
            yield asyncio.run(_as_address(f"{stub.base_url}#m", names))


async def _as_address(name: str, tools: Collection[str]) -> Read | str:
    unit = WorkUnit(CallContext(new_run_id(), MemoryJournal(), Budget(BudgetOptions())), "solve", "one", 0)
    parameters = ModelRequestParameters(function_tools=[ToolDefinition(name=name) for name in sorted(tools)])
    asked: list[ModelMessage] = [ModelRequest.user_text_prompt("x")]
    try:
        async with open_endpoint(name, CallOptions(), retry=RetryPolicy(attempts=1)) as endpoint:
            found = await endpoint.client(unit).request(asked, ModelSettings(max_tokens=_LIMIT), parameters)
    except AgentlearnError as error:
        return error.message
    calls = tuple((part.tool_name, _plain(part.args)) for part in found.parts if isinstance(part, ToolCallPart))
    text = "".join(part.content for part in found.parts if isinstance(part, TextPart))
    return Read(_said(text), calls, (found.usage.input_tokens, found.usage.output_tokens), cost_usd(found))


def recorded(body: dict[str, Any]) -> Read:
    """Return what stands in a chat completion itself, with the cost that OpenRouter reports."""
    message, usage = body["choices"][0]["message"], body.get("usage") or {}
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if part.get("type") == "text")
    called = [one["function"] for one in message.get("tool_calls") or ()]
    calls = tuple((one["name"], _plain(one.get("arguments"))) for one in called)
    tokens = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    upstream = (usage.get("cost_details") or {}).get("upstream_inference_cost") if usage.get("is_byok") else None
    cost = None if usage.get("cost") is None else usage["cost"] + (upstream or 0)
    return Read(_said(content), calls, tokens, cost)


def _said(text: str) -> str:
    """Return a text without thoughts in tags, also one that does not end."""
    return re.sub(r"<(think|thinking)>.*?(?:</\1>|\Z)", "", text, flags=re.DOTALL).strip()


def _plain(arguments: Any) -> str:
    """Return the arguments of a call in one form."""
    try:
        found = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return str(arguments)
    return json.dumps(found or {}, sort_keys=True)
