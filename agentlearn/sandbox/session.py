"""Sessions, each with one interpreter at a time, which is replaced when it is lost."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from agentlearn.errors import ToolError, ToolLost
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.protocol import CodeResult, CodeStatus, SandboxReport
from agentlearn.sandbox.zygote import EXIT_GRACE_S, Exit, Interpreter, InterpreterGone

StartInterpreter = Callable[[int], Awaitable[Interpreter]]
"""Starts a new interpreter with seeded random generators. Raises ToolError."""

CALLS_PER_PROCESSOR = 2
"""Calls that run at once per processor. Others wait, so that a time limit measures the code, not the machine's load."""
STARTS_AT_ONCE = 4
CUT_NOTE_CHARS = 100
"""Room for the line that marks the gap in a shortened output."""
KEPT = "the variables are as they were before this call"
LOST = "the variables are lost and the next call starts in a fresh interpreter"


@dataclass(frozen=True)
class FinishedCall:
    """A call that finished, to be repeated if its interpreter is lost."""

    code: str
    limit_s: float
    result: CodeResult


class InterpreterSession:
    """A session that replaces its interpreter: after a call that ended the interpreter, the next call gets a new one.

    The result of the call that lost the variables says so. If the interpreter ended between two calls, the next call
    is not run and returns `state_lost`. With `keep_state`, a new interpreter first repeats the finished calls, which
    restores the variables because all random generators are seeded; if a repeated call gives another result, the next
    call is not run and returns `state_lost`.

    A session whose interpreter ended for a reason outside the code, such as the end of its zygote, raises ToolLost from
    then on: no result of it may be taken for one of the code.
    """

    def __init__(
        self,
        start_interpreter: StartInterpreter,
        seed: int,
        limits: SandboxLimits,
        slots: asyncio.Semaphore,
        *,
        keep_state: bool,
    ) -> None:
        self._start_interpreter = start_interpreter
        self._seed = seed
        self._limits = limits
        self._keep_state = keep_state
        self._turn = asyncio.Lock()
        self._slots = slots
        self._interpreter: Interpreter | None = None
        self._finished: list[FinishedCall] = []
        self._closed = False
        self._lost: ToolLost | None = None

    async def start(self) -> Interpreter:
        """Return the interpreter; start one if there is none. Raises ToolError."""
        if self._closed:
            raise ToolError("this session of the code sandbox has ended; open another", code="sandbox_session")
        if self._interpreter is None:
            self._interpreter = await self._start_interpreter(self._seed)
        return self._interpreter

    async def end(self) -> None:
        """End the session permanently."""
        self._closed = True
        await self._end_interpreter()

    async def _end_interpreter(self, *, grace_s: float = 0.0) -> Exit:
        """Kill the interpreter, if there is one, unless it ends within `grace_s`; return how it ended."""
        interpreter, self._interpreter = self._interpreter, None
        return Exit() if interpreter is None else await interpreter.kill(grace_s=grace_s)

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        """Run code; never raises for errors of the code. timeout_s: limit of wall time; None takes the sandbox's limit.

        The time does not include waiting for a free processor. Raises ToolLost when the interpreter, or what it works
        with, ended for a reason outside the code; ToolError when no interpreter can be started.
        """
        limit_s = self._limits.timeout_s if timeout_s is None else timeout_s
        async with self._turn, self._slots:
            if self._lost is not None:
                raise self._lost
            try:
                return await self._run(code, limit_s)
            except BaseException as error:
                self._lost = error if isinstance(error, ToolLost) else None
                await self._end_interpreter()  # cancelled: stop the code
                raise

    async def _run(self, code: str, limit_s: float) -> CodeResult:
        if self._interpreter is not None and self._interpreter.ended:
            _raise_if_lost(ended := await self._end_interpreter())
            if not self._keep_state:
                return _state_lost(ended.error or "the interpreter ended since the last call")
        if self._interpreter is None and not await self._replay():
            await self._end_interpreter()
            return _state_lost("repeating the earlier calls gave other results")
        return await self._call(code, limit_s)

    async def _replay(self) -> bool:
        """Repeat the finished calls in a new interpreter. Return False and forget them when a result differs."""
        finished, self._finished = self._finished, []
        for done in finished:
            again = await self._call(done.code, done.limit_s)
            if (again.status, again.stdout) != (done.result.status, done.result.stdout):
                self._finished = []
                return False
        return True

    async def _call(self, code: str, limit_s: float) -> CodeResult:
        """Run code in the interpreter, started if necessary, without restoring variables."""
        interpreter = await self.start()
        started_at = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                reply = await interpreter.call(code, most_chars=self._limits.output_chars + CUT_NOTE_CHARS)
        except TimeoutError:
            _raise_if_lost(ended := await self._end_interpreter())
            return self._lost_result(ended, "timeout", f"timed out after {limit_s:g} s", since=started_at)
        except InterpreterGone as gone:
            _raise_if_lost(ended := await self._end_interpreter(grace_s=0.0 if gone.invalid_reply else EXIT_GRACE_S))
            return self._lost_result(ended, *_cause_of_end(ended, gone), since=started_at)
        except ValueError as error:
            return CodeResult(status="error", error=f"the code is too long to run: {error}")
        result = CodeResult(
            status=reply.status,
            stdout=reply.stdout,
            stdout_bytes=reply.stdout_bytes,
            error=reply.error,
            seconds=time.monotonic() - started_at,
        )
        if self._keep_state:
            self._finished.append(FinishedCall(code, limit_s, result))
        return result

    def _lost_result(self, ended: Exit, status: CodeStatus, what: str, *, since: float) -> CodeResult:
        """The result of a call that ended the interpreter, with the text it had printed."""
        return CodeResult(
            status=status,
            stdout=ended.stdout,
            stdout_bytes=ended.stdout_bytes,
            error=f"{what}; {KEPT if self._keep_state else LOST}",
            seconds=time.monotonic() - since,
        )


class InterpreterSandbox:
    """Opens sessions on interpreters of one kind."""

    def __init__(
        self,
        start_interpreter: StartInterpreter,
        report: SandboxReport,
        limits: SandboxLimits,
        *,
        keep_state: bool = False,
    ) -> None:
        self._start_interpreter = start_interpreter
        self._report = report
        self._limits = limits
        self._keep_state = keep_state
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._slots = asyncio.Semaphore(calls_at_once())

    @property
    def report(self) -> SandboxReport:
        """How the sandbox isolates code."""
        return self._report

    @contextlib.asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[InterpreterSession]:
        """Open a new session with seeded random generators; killed on exit. Raises ToolError."""
        session = InterpreterSession(
            self._start_interpreter, seed, self._limits, self._slots, keep_state=self._keep_state
        )
        async with self._starts:
            await session.start()
        try:
            yield session
        finally:
            await session.end()


def calls_at_once() -> int:
    """Number of calls that a sandbox runs at the same time on this machine."""
    if sys.platform == "linux":
        return CALLS_PER_PROCESSOR * len(os.sched_getaffinity(0))
    return CALLS_PER_PROCESSOR * (os.cpu_count() or 1)


def _raise_if_lost(ended: Exit) -> None:
    if ended.lost:
        raise ToolLost(f"{ended.lost}; the variables of the session are lost", code="sandbox_lost")


def _state_lost(why: str) -> CodeResult:
    return CodeResult(status="state_lost", error=f"{why}; this code was not run; {LOST}")


def _cause_of_end(ended: Exit, gone: InterpreterGone) -> tuple[CodeStatus, str]:
    """Status and explanation for the last call of an interpreter that ended."""
    if gone.invalid_reply or ended.ordered:
        return "killed", "the interpreter was killed because it did not answer as it must"
    if ended.error or ended.status is None:
        return "killed", ended.error or "the code sandbox ended"
    if ended.status >= 0:
        return "killed", f"the interpreter exited with status {ended.status}"
    if ended.status == -signal.SIGXCPU:
        return "timeout", "the session used up its processor time"
    return "killed", f"the interpreter died ({signal.Signals(-ended.status).name})"
