"""Where code that a model wrote is run: one protocol, several backends, each with its own report of what it holds."""

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeResult, CodeSandbox, SandboxReport, Session
from agentlearn.sandbox.registry import open_sandbox, sandbox_names

__all__ = ["CodeResult", "CodeSandbox", "SandboxLimits", "SandboxReport", "Session", "open_sandbox", "sandbox_names"]
