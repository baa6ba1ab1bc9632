"""Sandboxes that run code written by a model: one protocol, several backends, each with a report of its isolation."""

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeResult, CodeSandbox, SandboxReport, Session, open_sandbox, sandbox_names

__all__ = ["CodeResult", "CodeSandbox", "SandboxLimits", "SandboxReport", "Session", "open_sandbox", "sandbox_names"]
