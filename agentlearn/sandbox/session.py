"""Sessions: one interpreter at a time, replaced when it is lost."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from agentlearn.errors import ToolError
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.interpreter import Exit, Gone, Interpreter
from agentlearn.sandbox.protocol import CodeResult, CodeStatus, SandboxReport

Begin = Callable[[int], Awaitable[Interpreter]]
"""Makes a fresh interpreter whose draws follow from a seed. Raises ToolError."""

CALLS_PER_PROCESSOR = 2
"""Calls that run at once; more wait their turn, so that a time limit measures the code and not its neighbours."""
STARTS_AT_ONCE = 4
CUT_NOTE_CHARS = 100
"""Room for the line that says what was cut out of a long output."""
DEATH_S = 0.5
"""How long an interpreter that hung up may take to end by itself, and so to tell why."""
KEPT = "the variables are as they were before this call"
LOST = "the variables are lost and the next call starts in a fresh interpreter"


@dataclass(frozen=True)
class FinishedCall:
    """A call that ran to its end."""

    code: str
    limit_s: float
    result: CodeResult


class InterpreterSession:
    """A session that outlives its interpreter: after a call that ended the interpreter, a fresh one serves the next.

    The call that lost the variables says so in its own result. When the interpreter ended between two calls, the next
    call is not run and says `state_lost`. With `keep_state` the variables come back: a fresh interpreter first repeats
    the calls that ran to their end, which gives the same values because every draw is seeded; should one of them go
    otherwise than before, that call too says `state_lost`.
    """

    def __init__(
        self, begin: Begin, seed: int, limits: SandboxLimits, slots: asyncio.Semaphore, *, keep_state: bool
    ) -> None:
        self._begin = begin
        self._seed = seed
        self._limits = limits
        self._keep_state = keep_state
        self._turn = asyncio.Lock()
        self._slots = slots
        self._interpreter: Interpreter | None = None
        self._past: list[FinishedCall] = []
        self._over = False

    async def start(self) -> Interpreter:
        """The interpreter; a fresh one when there is none. Raises ToolError."""
        if self._over:
            raise ToolError("this session of the code sandbox has ended; open another", code="sandbox_session")
        if self._interpreter is None:
            self._interpreter = await self._begin(self._seed)
        return self._interpreter

    async def end(self) -> None:
        """End the session for good."""
        self._over = True
        await self._drop()

    async def _drop(self, *, grace_s: float = 0.0) -> Exit:
        """End the interpreter, if there is one and it does not end by itself within `grace_s`; tells how it ended."""
        interpreter, self._interpreter = self._interpreter, None
        return Exit() if interpreter is None else await interpreter.kill(grace_s=grace_s)

    async def run(self, code: str, *, timeout_s: float | None = None) -> CodeResult:
        """Run code; never raises for what the code does. timeout_s: wall time; None takes the sandbox's own limit.

        The time counts from where the code starts, not while it waits for its turn on a processor. Raises ToolError
        when the sandbox itself has ended.
        """
        limit_s = self._limits.timeout_s if timeout_s is None else timeout_s
        async with self._turn, self._slots:
            try:
                return await self._run(code, limit_s)
            except BaseException:
                await self._drop()  # cancelled: the code must not run on
                raise

    async def _run(self, code: str, limit_s: float) -> CodeResult:
        if self._interpreter is not None and self._interpreter.ended:
            await self._drop()
            if not self._keep_state:
                return _state_lost("the interpreter ended since the last call")
        if self._interpreter is None and not await self._bring_back():
            await self._drop()
            return _state_lost("the earlier calls went otherwise when they were repeated")
        return await self._call(code, limit_s)

    async def _bring_back(self) -> bool:
        """Repeat the past in a fresh interpreter; False, and no past any more, when it goes otherwise."""
        past, self._past = self._past, []
        for done in past:
            again = await self._call(done.code, done.limit_s)
            if (again.status, again.stdout) != (done.result.status, done.result.stdout):
                self._past = []
                return False
        return True

    async def _call(self, code: str, limit_s: float) -> CodeResult:
        """Run code in the interpreter, whatever state that is in."""
        interpreter = await self.start()
        begun = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                reply = await interpreter.call(code, most_chars=self._limits.output_chars + CUT_NOTE_CHARS)
        except TimeoutError:
            return self._lost(await self._drop(), "timeout", f"timed out after {limit_s:g} s", since=begun)
        except Gone as gone:
            ended = await self._drop(grace_s=0.0 if gone.babbled else DEATH_S)
            return self._lost(ended, *_death(ended, gone), since=begun)
        except ValueError as error:
            return CodeResult(status="error", error=f"the code is too long to run: {error}")
        result = CodeResult(
            status=reply.status,
            stdout=reply.stdout,
            stdout_bytes=reply.stdout_bytes,
            error=reply.error,
            seconds=time.monotonic() - begun,
        )
        if self._keep_state:
            self._past.append(FinishedCall(code, limit_s, result))
        return result

    def _lost(self, ended: Exit, status: CodeStatus, what: str, *, since: float) -> CodeResult:
        """The result of a call that cost the interpreter its life, with what it had printed."""
        return CodeResult(
            status=status,
            stdout=ended.stdout,
            stdout_bytes=ended.stdout_bytes,
            error=f"{what}; {KEPT if self._keep_state else LOST}",
            seconds=time.monotonic() - since,
        )


class InterpreterSandbox:
    """Sessions on interpreters of one kind."""

    def __init__(self, begin: Begin, report: SandboxReport, limits: SandboxLimits, *, keep_state: bool = False) -> None:
        self._begin = begin
        self._report = report
        self._limits = limits
        self._keep_state = keep_state
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._slots = asyncio.Semaphore(calls_at_once())

    @property
    def report(self) -> SandboxReport:
        """Which layers hold."""
        return self._report

    @contextlib.asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[InterpreterSession]:
        """A fresh session whose random generators are seeded; killed on exit. Raises ToolError."""
        session = InterpreterSession(self._begin, seed, self._limits, self._slots, keep_state=self._keep_state)
        async with self._starts:
            await session.start()
        try:
            yield session
        finally:
            await session.end()


def calls_at_once() -> int:
    """Calls that a sandbox runs at the same time on this machine."""
    if sys.platform == "linux":
        return CALLS_PER_PROCESSOR * len(os.sched_getaffinity(0))
    return CALLS_PER_PROCESSOR * (os.cpu_count() or 1)


def _state_lost(why: str) -> CodeResult:
    return CodeResult(status="state_lost", error=f"{why}; this code was not run; {LOST}")


def _death(ended: Exit, gone: Gone) -> tuple[CodeStatus, str]:
    """What the end of an interpreter means for its last call, in a word and in a sentence."""
    if gone.babbled or ended.ordered:
        return "killed", "the interpreter was killed because it did not answer as it must"
    if ended.status is None:
        return "killed", ended.error or "the code sandbox ended"
    if ended.status >= 0:
        return "killed", f"the interpreter exited with status {ended.status}"
    if ended.status == -signal.SIGXCPU:
        return "timeout", "the session used up its processor time"
    if ended.status == -signal.SIGKILL:
        return "oom", "the interpreter was killed, most likely for its memory"
    return "killed", f"the interpreter died ({signal.Signals(-ended.status).name})"
