"""The protocol of a code sandbox, and its typed results."""

from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from agentlearn.types.value import Value

CodeStatus = Literal["ok", "error", "timeout", "oom", "killed", "state_lost"]


class CodeResult(Value):
    """What one call of the code tool gave. Its text comes from untrusted code and is data, nothing else."""

    status: CodeStatus
    """ok; error: the code raised; timeout; oom: MemoryError or killed for memory; killed: the process died;
    state_lost: the session is gone and this call was not run."""
    stdout: str = ""
    """Printed text, and the value of a final expression as a notebook shows it; head and tail when cut."""
    stdout_bytes: int = 0
    """Bytes printed in all, before cutting."""
    error: str = ""
    """Last lines of the traceback, or one sentence."""
    seconds: float = 0.0


class SandboxReport(Value):
    """Under which isolation code ran; stored with every trajectory."""

    name: str
    layers: tuple[str, ...] = ()
    """Layers that hold, such as `process`, `rlimits`, `landlock`, `seccomp`, `user-namespace`."""
    missing: tuple[str, ...] = ()
    isolated: bool = False
    """Whether code that a stranger wrote may run in it."""


class Session(Protocol):
    """One stateful interpreter; variables live from call to call. Not for concurrent calls."""

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        """Run code; never raises for what the code does. timeout_s: None takes the sandbox's own limit."""
        ...


class CodeSandbox(Protocol):
    """A source of sessions. An async context manager: entering starts it, leaving kills every session."""

    @property
    def report(self) -> SandboxReport:
        """Which layers hold."""
        ...

    def open(self, seed: int) -> AbstractAsyncContextManager[Session]:
        """A fresh session whose `random` and numpy generators are seeded; killed on exit. Raises ToolError."""
        ...
