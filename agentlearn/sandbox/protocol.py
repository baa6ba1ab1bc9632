"""The protocol of a code sandbox, and its typed results."""

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

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
