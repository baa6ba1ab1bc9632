"""Sessions, each with one interpreter at a time, which is replaced when lost, and programs that need not run again.

A program whose result is known is one that was run before and prints the same whenever it runs: it imports nothing but
a few modules that compute, opens nothing, asks for no time, no random number and no address in memory, and ended well.
Comments and spacing make no difference.
"""

import ast
import asyncio
import builtins
import contextlib
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from agentlearn.errors import ToolError, ToolLost
from agentlearn.sandbox import CodeResult, CodeStatus, SandboxReport
from agentlearn.sandbox.inside.config import HEADER_BYTES, MAX_FRAME_BYTES, READ_BYTES, SandboxLimits, pack, reply_bytes
from agentlearn.sandbox.zygote import BACK_OFF_S, Exit, SupervisedZygote, Zygote
from agentlearn.text.log import get_log
from agentlearn.types.ids import content_hash
from agentlearn.types.value import Value

Past = tuple[str, ...]
"""Keys of the programs that an interpreter has run, oldest first; its variables depend on nothing else."""

_MODULES = frozenset(
    {"bisect", "cmath", "collections", "decimal", "fractions", "functools", "heapq", "itertools", "math", "operator"}
)
_NAMES = frozenset(dir(builtins)) - {
    *("breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals", "hash", "help", "id"),
    *("input", "locals", "memoryview", "object", "open", "quit", "setattr", "vars"),
}
"""Names of Python itself that a program may use."""
_ADDRESS = " at 0x"
_MOST_CHARS = 10_000
_MOST_RESULTS = 20_000


def program_key(code: str) -> str | None:
    """Return what is the same for two programs that do the same; None for one that may do another thing each time."""
    if len(code) > _MOST_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that mean nothing
            tree = ast.parse(code)
        return content_hash(ast.dump(tree)) if all(map(_computes, ast.walk(tree))) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _computes(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return all(one.name in _MODULES for one in names)
        case ast.ImportFrom(module=module, level=level):
            return level == 0 and module in _MODULES
        case ast.Name(id=name):
            return not name.startswith("__") and (name in _NAMES or not hasattr(builtins, name))
        case ast.Attribute(attr=name):
            return not name.startswith("_")
        case _:
            return True


class _KnownResults:
    """Results by the programs that led to them. The oldest are forgotten first."""

    def __init__(self) -> None:
        self._results = dict[Past, CodeResult]()

    def of(self, past: Past) -> CodeResult | None:
        """Return the result of the last of these programs, in an interpreter that ran those before it."""
        return self._results.get(past)

    def add(self, past: Past, result: CodeResult) -> None:
        """Keep a result of a program that ended well."""
        if _ADDRESS in result.stdout:
            return
        self._results[past] = result.model_copy(update={"reused": True, "seconds": 0.0})
        if len(self._results) > _MOST_RESULTS:
            del self._results[next(iter(self._results))]


_CALLS_PER_PROCESSOR = 2
"""Calls that run at once per processor. Others wait, so that a time limit measures the code, not the machine's load."""
_CUT_NOTE_CHARS = 100
"""Room for the line that marks the gap in a shortened output."""
_LOST = "the variables are lost and the next call starts in a fresh interpreter"
OPEN_TIMEOUT_S = 30.0
"""Seconds after which a zygote that has not forked an interpreter counts as stuck."""
_DISK_FULL = "[Errno 28]"
_EXIT_GRACE_S = 0.5
"""How long to wait for the exit status of an interpreter that closed its connection."""
_KILLED = "the interpreter was killed from outside, perhaps because this machine ran out of memory"


class _CallReply(Value):
    """Reply of an interpreter to one call."""

    call: int
    status: Literal["ok", "error", "oom"]
    stdout: str
    stdout_bytes: Annotated[int, Field(ge=0, lt=2**53)]
    error: Annotated[str, Field(max_length=4_000)]


class _InterpreterGone(Exception):
    """Raised when an interpreter will not answer any more."""

    def __init__(self, *, invalid_reply: bool) -> None:
        super().__init__()
        self.invalid_reply = invalid_reply
        """Whether it sent an invalid reply; otherwise it ended."""


class _Started(Value):
    """First message of an interpreter: it is ready, or why it failed to start."""

    ready: bool = False
    pid: int = 0
    """Process id of the interpreter, which is also that of its process group."""
    failed: str = ""


class _ForkedInterpreter:
    """A forked process that runs code cells. Between calls it is stopped, with all its threads and children."""

    def __init__(self, zygote: Zygote, session: int, connection: socket.socket) -> None:
        self._zygote = zygote
        self._session = session
        self._connection = connection
        self._calls = 0
        self._pid = 0
        self._received = bytearray()

    @classmethod
    async def start(cls, zygote: Zygote, seed: int) -> "_ForkedInterpreter":
        """Start a new interpreter. Raises ToolError, and ToolLost when another try may succeed."""
        session, connection = await zygote.open(seed)
        interpreter = cls(zygote, session, connection)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                started = _Started.model_validate_json(await interpreter._receive())
        except TimeoutError:
            error = zygote.abandon(f"the code sandbox's process did not answer for {OPEN_TIMEOUT_S:g} s")
            await interpreter.kill()
            raise error from None
        except (_InterpreterGone, ValidationError):
            ended = await interpreter.kill(grace_s=_EXIT_GRACE_S)
            started = _Started(failed=ended.lost or ended.error or f"it ended at once (status {ended.status})")
        except BaseException:
            await interpreter.kill()
            raise
        if not started.ready:
            await interpreter.kill()
            why = started.failed
            raise ToolLost(f"a session of the code sandbox could not start: {why}", code="sandbox_session")
        interpreter._pid = started.pid
        return interpreter

    @property
    def ended(self) -> bool:
        """Whether the process is known to have ended."""
        return self._zygote.ended(self._session)

    async def call(self, code: str, *, most_chars: int) -> _CallReply:
        """Run one cell and return its result; a reply with more than `most_chars` of printed text is invalid.

        Raises _InterpreterGone; ToolLost when the disk is full of other files; ValueError for code that is too long.
        """
        self._calls += 1
        frame = pack({"call": self._calls, "code": code})
        try:
            sent = self._send_some(frame)
            self._signal(signal.SIGCONT)  # when the frame is there, so that the process wakes up once
            if sent < len(frame):
                await asyncio.get_running_loop().sock_sendall(self._connection, frame[sent:])
            received = await self._receive(reply_bytes(most_chars))
            self._signal(signal.SIGSTOP)
            reply = _CallReply.model_validate_json(received)
        except OSError as error:
            raise _InterpreterGone(invalid_reply=False) from error
        except ValidationError as error:
            raise _InterpreterGone(invalid_reply=True) from error
        if reply.call != self._calls or len(reply.stdout) > most_chars:
            raise _InterpreterGone(invalid_reply=True)
        if _DISK_FULL in reply.error and await self._zygote.disk_is_full(self._session):
            raise ToolLost("the disk with the files of the code sandbox is full; free some space", code="sandbox_disk")
        return reply

    async def kill(self, *, grace_s: float = 0.0) -> Exit:
        """Kill the process unless it ends within `grace_s`; return how it ended.

        An end by SIGKILL that we did not order counts as lost. Its code has no such end: it may not send itself this
        signal, it gets MemoryError at its limit of memory, and the zygote reports SIGXCPU at that of processor time.
        """
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes a waiting call, which closing would not
        try:
            ended = await self._zygote.kill(self._session, grace_s=grace_s)
        finally:
            self._connection.close()
        killed = ended.status == -signal.SIGKILL and not ended.ordered and not ended.error
        return ended.model_copy(update={"lost": _KILLED}) if killed else ended

    def _send_some(self, frame: bytes) -> int:
        try:
            return self._connection.send(frame)
        except BlockingIOError:
            return 0

    def _signal(self, number: signal.Signals) -> None:
        """Stop or continue the process with its group, unless it has ended."""
        if self._pid and not self.ended:
            try:
                os.killpg(self._pid, number)
            except OSError:
                return  # it has ended

    async def _receive(self, most_bytes: int = MAX_FRAME_BYTES) -> bytes:
        size = int.from_bytes(await self._take(HEADER_BYTES), "big")
        if size > most_bytes:
            raise _InterpreterGone(invalid_reply=True)
        return await self._take(size)

    async def _take(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        while len(self._received) < size:
            try:
                part = await loop.sock_recv(self._connection, max(READ_BYTES, size - len(self._received)))
            except OSError as error:
                raise _InterpreterGone(invalid_reply=False) from error
            if not part:
                raise _InterpreterGone(invalid_reply=False)
            self._received += part
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


class _InterpreterSession:
    """A session that replaces its interpreter: after a call that ended the interpreter, the next call gets a new one.

    The first call starts the first interpreter, so that a session without calls costs nothing. The result of the call
    that lost the variables says so. If the interpreter ended between two calls, the next call is not run and returns
    `state_lost`.

    A session whose interpreter ended for a reason outside the code, such as the end of its zygote, raises ToolLost from
    then on: no result of it may be taken for one of the code.
    """

    def __init__(
        self,
        start_interpreter: Callable[[int], Awaitable[_ForkedInterpreter]],
        seed: int,
        limits: SandboxLimits,
        slots: asyncio.Semaphore,
        known: _KnownResults,
    ) -> None:
        self._start_interpreter = start_interpreter
        self._known = known
        self._past: Past | None = ()
        """The programs before, while the variables depend on nothing else."""
        self._reused = list[str]()
        """Those of them that were not run. They are run when an interpreter is needed."""
        self._seed = seed
        self._limits = limits
        self._turn = asyncio.Lock()
        self._slots = slots
        self._interpreter: _ForkedInterpreter | None = None
        self._closed = False
        self._lost: ToolLost | None = None

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
        key = None if self._past is None else program_key(code)
        async with self._turn:
            self._past = None if self._past is None or key is None else (*self._past, key)
            found = None if self._past is None or self._interpreter or self._closed else self._known.of(self._past)
            if found is not None:
                self._reused.append(code)
                return found
            result = await self._run_now(code, limit_s)
            if self._past is not None and result.status == "ok":
                self._known.add(self._past, result)
            else:
                self._past = None
            return result

    async def _run_now(self, code: str, limit_s: float) -> CodeResult:
        async with self._slots:
            if self._lost is not None:
                raise self._lost
            try:
                return await self._run(code, limit_s)
            except BaseException as error:
                self._lost, self._past = (error if isinstance(error, ToolLost) else None), None
                await self._end_interpreter()  # cancelled: stop the code
                raise

    async def _run(self, code: str, limit_s: float) -> CodeResult:
        if self._interpreter is not None and self._interpreter.ended:
            _raise_if_lost(ended := await self._end_interpreter())
            why = ended.error or "the interpreter ended since the last call"
            return CodeResult(status="state_lost", error=f"{why}; this code was not run; {_LOST}")
        if self._closed:
            raise ToolError("this session of the code sandbox has ended; open another", code="sandbox_session")
        if self._interpreter is None:
            self._interpreter = await self._start_interpreter(self._seed)
        interpreter = self._interpreter
        most_chars = self._limits.output_chars + _CUT_NOTE_CHARS
        started_at = time.monotonic()
        try:
            async with asyncio.timeout(limit_s * (1 + len(self._reused))):
                while self._reused:
                    await interpreter.call(self._reused.pop(0), most_chars=most_chars)
                started_at = time.monotonic()
                reply = await interpreter.call(code, most_chars=most_chars)
        except TimeoutError:
            _raise_if_lost(ended := await self._end_interpreter())
            return self._lost_result(ended, "timeout", f"timed out after {limit_s:g} s", since=started_at)
        except _InterpreterGone as gone:
            _raise_if_lost(ended := await self._end_interpreter(grace_s=0.0 if gone.invalid_reply else _EXIT_GRACE_S))
            return self._lost_result(ended, *_cause_of_end(ended, gone), since=started_at)
        except ValueError as error:
            return CodeResult(status="error", error=f"the code is too long to run: {error}")
        return CodeResult(
            status=reply.status,
            stdout=reply.stdout,
            stdout_bytes=reply.stdout_bytes,
            error=reply.error,
            seconds=time.monotonic() - started_at,
        )

    def _lost_result(self, ended: Exit, status: CodeStatus, what: str, *, since: float) -> CodeResult:
        """The result of a call that ended the interpreter, with the text it had printed."""
        return CodeResult(
            status=status,
            stdout=ended.stdout,
            stdout_bytes=ended.stdout_bytes,
            error=f"{what}; {_LOST}",
            seconds=time.monotonic() - since,
        )


class InterpreterSandbox:
    """Opens sessions whose interpreters one zygote starts."""

    def __init__(self, zygote: SupervisedZygote, limits: SandboxLimits) -> None:
        self._zygote = zygote
        self._limits = limits
        self._known = _KnownResults()
        processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        self._slots = asyncio.Semaphore(_CALLS_PER_PROCESSOR * processors)

    @property
    def report(self) -> SandboxReport:
        """How the sandbox isolates code."""
        return self._zygote.report

    @contextlib.asynccontextmanager
    async def open(self, seed: int) -> AsyncGenerator[_InterpreterSession]:
        """Open a new session with seeded random generators; killed on exit. Raises ToolError for a closed sandbox."""
        if self._zygote.closed:
            raise ToolError("the code sandbox was closed", code="sandbox_ended")
        session = _InterpreterSession(self._start_interpreter, seed, self._limits, self._slots, self._known)
        try:
            yield session
        finally:
            await session.end()

    async def _start_interpreter(self, seed: int) -> _ForkedInterpreter:
        """Start a new interpreter, with several tries. Raises ToolError."""
        for wait_s in BACK_OFF_S:
            try:
                return await _ForkedInterpreter.start(await self._zygote.zygote(), seed)
            except ToolLost as error:
                get_log().info("sandbox.retried", reason=error.message)
                await asyncio.sleep(wait_s)
        return await _ForkedInterpreter.start(await self._zygote.zygote(), seed)


def _raise_if_lost(ended: Exit) -> None:
    if ended.lost:
        raise ToolLost(f"{ended.lost}; the variables of the session are lost", code="sandbox_lost")


def _cause_of_end(ended: Exit, gone: _InterpreterGone) -> tuple[CodeStatus, str]:
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
