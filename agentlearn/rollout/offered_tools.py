"""The tools that an agent offers to its model, with their schemas, for the record of a rollout."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from agentlearn.text import storable
from agentlearn.types.trajectory import TOOLS, PromptRef


@dataclass(slots=True)
class OfferedTools:
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
