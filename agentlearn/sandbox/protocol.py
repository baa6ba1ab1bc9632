"""The protocol of a code sandbox, and its typed results."""

import pkgutil
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, cast

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


_OPENERS = {
    "zygote": "agentlearn.sandbox.backends:zygote",
    "monty": "agentlearn.sandbox.monty:monty",
    "unsafe-local": "agentlearn.sandbox.backends:unsafe_local",
}
"""The function that opens each sandbox; imported on first use."""


class _Opener(Protocol):
    def __call__(
        self, limits: SandboxLimits | None = None, *, keep_state_on_timeout: bool = False
    ) -> AbstractAsyncContextManager[CodeSandbox]: ...


def sandbox_names() -> tuple[str, ...]:
    """The names that `open_sandbox` accepts."""
    return tuple(_OPENERS)


def open_sandbox(
    name: str, *, limits: SandboxLimits | None = None, keep_state_on_timeout: bool = False
) -> AbstractAsyncContextManager[CodeSandbox]:
    """The sandbox of that name as a context manager: entering starts it, leaving kills every session.

    limits: limits of each session; None takes the defaults. keep_state_on_timeout: restore the variables of a session
    whose interpreter was lost by repeating its finished calls. Raises ConfigError for an unknown name, and on entering
    when the sandbox does not work here (code `sandbox_unavailable`) or is not installed (code `missing_extra`).
    """
    if name not in _OPENERS:
        known = ", ".join(repr(one) for one in _OPENERS)
        raise ConfigError(f"there is no sandbox {name!r} (known: {known})", code="unknown_sandbox")
    opener = cast("_Opener", pkgutil.resolve_name(_OPENERS[name]))
    return opener(limits, keep_state_on_timeout=keep_state_on_timeout)
