"""Sandboxes that run code written by a model: `zygote`, isolated by the kernel, and `unsafe-local`, not isolated."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentlearn.errors import ConfigError
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeResult, CodeSandbox, SandboxReport, Session

__all__ = ["CodeResult", "CodeSandbox", "SandboxLimits", "SandboxReport", "Session", "open_sandbox", "sandbox_names"]


def sandbox_names() -> tuple[str, ...]:
    """The names that `open_sandbox` accepts."""
    return ("zygote", "unsafe-local")


@asynccontextmanager
async def open_sandbox(name: str, *, limits: SandboxLimits | None = None) -> AsyncGenerator[CodeSandbox]:
    """The sandbox of that name as a context manager: entering starts it, leaving kills every session.

    `zygote`: processes isolated by Landlock, seccomp, resource limits and, if allowed, namespaces. `unsafe-local`:
    only resource limits; the code can read your files and use your network.
    limits: limits of each session; None takes the defaults.
    Raises ConfigError on entering: for an unknown name, and when the machine lacks
    Landlock or seccomp, or an attack of the self-test succeeds.
    """
    if name not in sandbox_names():
        known = ", ".join(map(repr, sandbox_names()))
        raise ConfigError(f"there is no sandbox {name!r} (known: {known})")
    from agentlearn.sandbox.session import InterpreterSandbox
    from agentlearn.sandbox.zygote import SupervisedZygote

    chosen = limits or SandboxLimits()
    async with SupervisedZygote.running(name, sealed=name == "zygote", limits=chosen) as zygote:
        yield InterpreterSandbox(zygote, chosen)
