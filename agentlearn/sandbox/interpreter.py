"""The protocol of an interpreter, which each backend implements.

A session can use several interpreters in turn. An interpreter's replies may be written by the untrusted code that it
runs, so they are only data of limited size.
"""

from typing import Annotated, Literal, Protocol

from pydantic import Field

from agentlearn.types.value import Value

EXIT_GRACE_S = 0.5
"""How long to wait for the exit status of an interpreter that closed its connection."""

KILLED = "the interpreter was killed from outside, perhaps because this machine ran out of memory"


class CallReply(Value):
    """Reply of an interpreter to one call."""

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
    """Exit status, negative for a signal; None if it never started or its sandbox ended."""
    ordered: bool = False
    """Whether we killed it."""
    error: str = ""
    """Why it did not start, how it ended if there is no exit status, or for which limit it was killed."""
    lost: str = ""
    """Why it ended, if neither its code nor we ended it; otherwise empty."""
    stdout: str = ""
    """Text printed by its unfinished call."""
    stdout_bytes: int = 0


class InterpreterGone(Exception):
    """Raised when an interpreter will not answer any more."""

    def __init__(self, *, invalid_reply: bool) -> None:
        super().__init__()
        self.invalid_reply = invalid_reply
        """Whether it sent an invalid reply; otherwise it ended."""


class Interpreter(Protocol):
    """Runs code cells one after another until it ends."""

    @property
    def ended(self) -> bool:
        """Whether the interpreter is known to have ended."""
        ...

    async def call(self, code: str, *, most_chars: int) -> CallReply:
        """Run one cell and return its result; a reply with more than `most_chars` of printed text is invalid.

        A cancelled call keeps running until `kill`. Raises InterpreterGone; ToolLost when what the code works with
        failed; ValueError for code that is too long.
        """
        ...

    async def kill(self, *, grace_s: float = 0.0) -> Exit:
        """Kill the interpreter unless it ends within `grace_s`; return how it ended. Call it once."""
        ...
