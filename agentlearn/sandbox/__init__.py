"""Sandboxes that run code written by a model: `zygote`, isolated by the kernel, and `unsafe-local`, not isolated."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, Protocol

from agentlearn.errors import ConfigError
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.types.value import Value

CodeStatus = Literal["ok", "error", "timeout", "oom", "killed", "state_lost"]


class CodeResult(Value):
    """Result of one call of the code tool. Its text comes from untrusted code and must be treated as data."""

    status: CodeStatus
    """ok; error: the code raised an exception; timeout; oom: MemoryError or killed for its memory; killed: the process
    ended; state_lost: the variables are lost and this call was not run."""
    stdout: str = ""
    """Printed text and the value of a final expression, as in a notebook; only start and end when shortened."""
    stdout_bytes: int = 0
    """Total number of bytes printed, before shortening."""
    error: str = ""
    """Last lines of the traceback, or one sentence."""
    seconds: float = 0.0
    """Wall time of the call."""
    reused: bool = False
    """Whether the program was not run, because the result is known of another session that ran the same."""


class SandboxReport(Value):
    """How code was isolated; stored with every trajectory."""

    name: str
    layers: tuple[str, ...] = ()
    """Active layers, such as `process`, `rlimits`, `landlock`, `seccomp`, `namespaces`."""
    missing: tuple[str, ...] = ()
    """Layers that are not active."""
    isolated: bool = False
    """Whether it is safe to run untrusted code in it."""


class Session(Protocol):
    """A stateful interpreter: variables persist between calls. Not for concurrent calls."""

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        """Run code; never raises for errors of the code. timeout_s: None takes the sandbox's limit."""
        ...


class CodeSandbox(Protocol):
    """Opens sessions."""

    @property
    def report(self) -> SandboxReport:
        """How the sandbox isolates code."""
        ...

    def open(self, seed: int) -> AbstractAsyncContextManager[Session]:
        """Open a new session with seeded `random` and numpy generators; killed on exit. Raises ToolError."""
        ...


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
