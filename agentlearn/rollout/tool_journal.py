"""Tool results in the journal, and the tools that were offered."""

import hashlib
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic_ai import RunContext, UserPromptNode
from pydantic_ai.capabilities import WrapperCapability
from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturn
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from agentlearn.library.capability import Experiences
from agentlearn.models.call_context import CallRecord, WorkUnit
from agentlearn.rollout.dialogue import RequestTexts
from agentlearn.text import storable
from agentlearn.types.ids import content_hash
from agentlearn.types.trajectory import STATUS, TOOLS, PromptRef


@dataclass(slots=True)
class _OfferedTools:
    """Each tool that was offered in any request of a rollout, in order of first use."""

    found: dict[str, None] = field(default_factory=dict[str, None])
    """Tools as JSON texts, each once."""
    asked: bool = False
    """Whether any request was made."""

    _latest: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    """The last definition of each tool, by name."""

    def add(self, offered: ModelRequestParameters) -> None:
        """Add the tools that a request offers."""
        self.asked = True
        for tool in (*offered.function_tools, *offered.output_tools):
            if self._latest.get(tool.name) != tool:  # most requests repeat the tools of the one before
                self._latest[tool.name] = tool
                self.found[_json(_described(tool))] = None
        for native in offered.native_tools:
            self.found[_json({"name": native.kind, "kind": "native", "description": "", "parameters": {}})] = None

    def recorded(self) -> tuple[tuple[PromptRef, str], ...]:
        """The tools as one JSON text, after its reference; nothing when no request was made."""
        if not self.asked:
            return ()
        text = f"[{', '.join(self.found)}]"
        return ((PromptRef(name=TOOLS, version=0, sha256=hashlib.sha256(text.encode()).hexdigest()), text),)


def _described(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "name": tool.name,
        "kind": tool.kind,
        "description": tool.description or "",
        "parameters": tool.parameters_json_schema,
    }


def _json(value: dict[str, Any]) -> str:
    return storable(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))


class ToolJournal(WrapperCapability[Any]):
    """The lessons of a rollout. Commits every tool result to the journal before the agent sees it, and times each call.

    It also notes the tools that each request offers. All of this is one capability, because each further one slows
    every step of an agent.

    A resumed run executes a recorded tool call again, because later calls may need the state that it leaves. The agent
    is given the recorded result, even if the new one differs.
    """

    def __init__(self, experiences: Experiences, unit: WorkUnit, texts: RequestTexts) -> None:
        """experiences: lessons that are chosen already. texts: are told the prompts that stand literally in the agent.

        Each run of the agent gets a copy of this, which adds to the same records.
        """
        super().__init__(experiences)
        self.unit = unit
        self.texts = texts
        self.offered = _OfferedTools()
        self.seconds: dict[str, float] = {}
        """Duration of each call, by tool call id."""
        self.diverged: set[str] = set()
        """Ids of the tool calls whose new result differs from the recorded one."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self.offered.add(request_context.model_request_parameters)
        before_hooks = next((one.instructions for one in reversed(ctx.messages) if isinstance(one, ModelRequest)), "")
        parts = request_context.model_request_parameters.instruction_parts or ()
        literal = (one.content for one in parts if not one.dynamic and str(one.id).partition(":")[0] == "agent")
        self.texts.literal(ctx.agent, (text for text in literal if text in (before_hooks or "")))
        return await super().before_model_request(ctx, request_context)

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        if isinstance(node, UserPromptNode):
            self.texts.literal(ctx.agent, node.system_prompts)
        return node

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        unit, started = self.unit, time.perf_counter()
        record = tool_record(unit, call.tool_name, call.args_as_json_str())
        result = await handler(args)  # also for a recorded call: its side effects are needed
        status, text = _status_and_text(result)
        if (past := await unit.recorded(record.id)) is not None:
            self.seconds[call.tool_call_id] = past.seconds
            if text != past.response:
                self.diverged.add(call.tool_call_id)
                return ToolReturn(past.response, metadata={STATUS: past.error or "ok"})
            return result
        self.seconds[call.tool_call_id] = time.perf_counter() - started
        await commit_tool(unit, record, status, text, self.seconds[call.tool_call_id])
        return result


def tool_record(unit: WorkUnit, tool: str, arguments: str) -> CallRecord:
    """Return the record of a tool call that is made next in the unit, still without its result."""
    ordinal, request_hash = unit.next_ordinal("tool"), content_hash(tool, arguments)
    return CallRecord(
        id=unit.call_id("tool", ordinal, request_hash),
        run=unit.call_context.run,
        stage=unit.stage,
        unit=unit.name,
        ordinal=ordinal,
        kind="tool",
        name=tool,
        ok=True,
        request_hash=request_hash,
        at=datetime.now(UTC),
    )


async def commit_tool(unit: WorkUnit, record: CallRecord, status: str, text: str, seconds: float) -> None:
    """Commit the result of a tool call to the journal of the run. status: `ok`, or how it failed."""
    error = "" if status == "ok" else status
    done = {"ok": not error, "error": error, "response": text, "seconds": seconds, "at": datetime.now(UTC)}
    await unit.call_context.journal.record(record.model_copy(update=done))


def _status_and_text(result: object) -> tuple[str, str]:
    if isinstance(result, ToolReturn):
        metadata: object = result.metadata
        status = str(metadata.get(STATUS, "ok")) if isinstance(metadata, dict) else "ok"
        return status, str(result.return_value)
    return "ok", str(result)
