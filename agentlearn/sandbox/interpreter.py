"""One interpreter as a session sees it. What it says may be written by the code it runs: data of bounded size, no more.

A session outlives its interpreters; how an interpreter is made, and what holds it, is each backend's own affair.
"""

from typing import Annotated, Literal, Protocol

from pydantic import Field

from agentlearn.types.value import Value


class CallReply(Value):
    """What a call gave."""

    call: int
    status: Literal["ok", "error", "oom"]
    stdout: str
    stdout_bytes: Annotated[int, Field(ge=0, lt=2**53)]
    error: Annotated[str, Field(max_length=4_000)]


class Exit(Value):
    """How an interpreter ended."""

    kind: Literal["exit"] = "exit"
    session: int = 0
    status: int | None = None
    """Exit status, negative for a signal; None when it never began or its sandbox ended."""
    ordered: bool = False
    """Whether we ordered its end."""
    error: str = ""
    """Why it never began, or how it ended where no status tells."""
    stdout: str = ""
    """What its unfinished call had printed."""
    stdout_bytes: int = 0


class Gone(Exception):
    """Raised when an interpreter will not answer any more."""

    def __init__(self, *, babbled: bool) -> None:
        super().__init__()
        self.babbled = babbled
        """Whether it said what is no answer, rather than ended."""


class Interpreter(Protocol):
    """Runs one cell after another, until it ends."""

    @property
    def ended(self) -> bool:
        """Whether it is known to have ended."""
        ...

    async def call(self, code: str, *, most_chars: int) -> CallReply:
        """Run one cell and wait for its end; the printed text may have `most_chars`. Raises Gone, or ValueError for
        code that is too long to send. A call that is cancelled goes on until `kill`."""
        ...

    async def kill(self, *, grace_s: float = 0.0) -> Exit:
        """Kill it unless it ends by itself within `grace_s`; tells how it ended. To be called once."""
        ...
