"""The harness with which verifiers runs our rollouts: a plain chat with the task's tools, inside this process."""

# verifiers cannot be installed together with the packages that types are checked with.
# pyright: reportMissingImports=false, reportUntypedBaseClass=false, reportUnknownParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import json
import sys
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import httpx
from verifiers.v1 import Harness, HarnessConfig, ModelContext, ProgramResult, Runtime, TaskData, Trace
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp

if TYPE_CHECKING:
    from agentlearn_adapters.foreign_domain import ModelCalls

__all__ = ["ChatHarness"]

_NAME = "agentlearn_chat"
CALLS_BY_TRACE: "dict[str, ModelCalls]" = {}
"""The model calls of each rollout that runs, by the id of its trace."""
CURRENT: "ContextVar[ModelCalls]" = ContextVar("agentlearn_calls")
"""The model calls of the rollout that runs in this context."""


class ChatHarness(Harness[HarnessConfig]):
    """Asks the model until it calls no more tools."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    SUPPORTS_TOOL_INTERCEPTION = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: ModelContext,
        trace: Trace,
        runtime: Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: TaskData,
        tool_interception_url: str | None = None,
    ) -> ProgramResult:
        """Hold the conversation. Every model call passes through verifiers, which records and may refuse it."""
        system, prompt = self.resolve_prompt(data)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message_to_wire(one) for one in prompt or ()]
        servers = {"mcpServers": {name: {"url": url} for name, url in mcp_urls.items()}}
        CALLS_BY_TRACE[trace.id] = CURRENT.get()
        try:
            async with AsyncExitStack() as stack:
                tools, dispatch, connections = await connect_mcp(servers, stack)
                http = await stack.enter_async_context(
                    httpx.AsyncClient(timeout=None, trust_env=False, headers={"Authorization": f"Bearer {secret}"})  # noqa: S113 - a rollout has a deadline
                )
                conversation = _Conversation(http, endpoint, ctx.model, tools, tool_interception_url)
                return await conversation.hold(messages, lambda name, args: call_mcp(connections, dispatch, name, args))
        finally:
            del CALLS_BY_TRACE[trace.id]


class _Conversation:
    """One conversation with the endpoint that verifiers opens for a rollout."""

    def __init__(
        self, http: httpx.AsyncClient, endpoint: str, model: str, tools: list[dict[str, Any]], gate: str | None
    ) -> None:
        self.http = http
        self.url = f"{endpoint}/chat/completions"
        self.model = model
        self.tools = tools
        self.gate = gate

    async def hold(self, messages: list[dict[str, Any]], call_tool: Any) -> ProgramResult:
        """Go on until the model calls no tool, or verifiers ends the rollout."""
        while True:
            body = {"model": self.model, "messages": messages, **({"tools": self.tools} if self.tools else {})}
            reply = await self.http.post(self.url, json=body)
            if reply.is_error:
                return ProgramResult(1, "", reply.text)
            message = reply.json()["choices"][0]["message"]
            messages.append({name: value for name, value in message.items() if value is not None})
            if not message.get("tool_calls"):
                return ProgramResult(0, "", "")
            messages += [await self._result(call, call_tool) for call in message["tool_calls"]]

    async def _result(self, call: dict[str, Any], call_tool: Any) -> dict[str, Any]:
        """Return the message with the result of a tool call, or with what verifiers puts in its place."""
        name, written = call["function"]["name"], call["function"]["arguments"] or "{}"
        try:
            arguments = json.loads(written)
        except ValueError:
            arguments = written
        if self.gate is not None:
            decision = (
                (
                    await self.http.post(
                        self.gate, json={"tool_call_id": call["id"], "name": name, "arguments": arguments}
                    )
                )
                .raise_for_status()
                .json()
            )
            if decision["action"] == "stop":
                raise RuntimeError(decision["reason"])
            if decision["action"] == "deny":
                return decision["message"]
        if name not in {tool["function"]["name"] for tool in self.tools}:
            content = f"error: unknown tool {name!r}"
        elif not isinstance(arguments, dict):
            content = "error: the arguments must be a JSON object; send the call again"
        else:
            content = await call_tool(name, arguments)
        return {"role": "tool", "tool_call_id": call["id"], "name": name, "content": content}


def harness_name() -> str:
    """Return the name under which verifiers finds this harness: it imports harnesses as modules at the top level."""
    sys.modules.setdefault(_NAME, sys.modules[__name__])
    return _NAME
