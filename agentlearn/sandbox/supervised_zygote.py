"""A zygote that is started again when it has ended."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Self

from pydantic import ValidationError

from agentlearn.errors import ConfigError, ToolError, ToolLost
from agentlearn.log import get_log
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.frames import HEADER_BYTES, MAX_FRAME_BYTES, READ_BYTES, pack, reply_bytes
from agentlearn.sandbox.zygote import (
    CODE,
    EXIT_GRACE_S,
    KILLED,
    CallReply,
    Exit,
    Hello,
    InterpreterGone,
    Zygote,
    suggest_other_sandbox,
)
from agentlearn.types.value import Value

OPEN_TIMEOUT_S = 30.0
"""Seconds after which a zygote that has not forked an interpreter counts as stuck."""
DISK_FULL = "[Errno 28]"


class Started(Value):
    """First message of an interpreter: it is ready, or why it failed to start."""

    ready: bool = False
    pid: int = 0
    """Process id of the interpreter, which is also that of its process group."""
    failed: str = ""


class ForkedInterpreter:
    """A forked process that runs code cells. Between calls it is stopped, with all its threads and children."""

    def __init__(self, zygote: Zygote, session: int, connection: socket.socket) -> None:
        self._zygote = zygote
        self._session = session
        self._connection = connection
        self._calls = 0
        self._pid = 0
        self._received = bytearray()

    @classmethod
    async def start(cls, zygote: Zygote, seed: int) -> "ForkedInterpreter":
        """Start a new interpreter. Raises ToolError, and ToolLost when another try may succeed."""
        session, connection = await zygote.open(seed)
        interpreter = cls(zygote, session, connection)
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                started = Started.model_validate_json(await interpreter._receive())
        except TimeoutError:
            error = zygote.abandon(f"the code sandbox's process did not answer for {OPEN_TIMEOUT_S:g} s")
            await interpreter.kill()
            raise error from None
        except (InterpreterGone, ValidationError):
            ended = await interpreter.kill(grace_s=EXIT_GRACE_S)
            started = Started(failed=ended.lost or ended.error or f"it ended at once (status {ended.status})")
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

    async def call(self, code: str, *, most_chars: int) -> CallReply:
        """Run one cell and return its result; a reply with more than `most_chars` of printed text is invalid.

        Raises InterpreterGone; ToolLost when the disk is full of other files; ValueError for code that is too long.
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
            reply = CallReply.model_validate_json(received)
        except OSError as error:
            raise InterpreterGone(invalid_reply=False) from error
        except ValidationError as error:
            raise InterpreterGone(invalid_reply=True) from error
        if reply.call != self._calls or len(reply.stdout) > most_chars:
            raise InterpreterGone(invalid_reply=True)
        if DISK_FULL in reply.error and await self._zygote.disk_is_full(self._session):
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
        return ended.model_copy(update={"lost": KILLED}) if killed else ended

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
            raise InterpreterGone(invalid_reply=True)
        return await self._take(size)

    async def _take(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        while len(self._received) < size:
            try:
                part = await loop.sock_recv(self._connection, max(READ_BYTES, size - len(self._received)))
            except OSError as error:
                raise InterpreterGone(invalid_reply=False) from error
            if not part:
                raise InterpreterGone(invalid_reply=False)
            self._received += part
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


class RestartLimit:
    """Allows `most` restarts in any `within_s` seconds. clock: seconds of a clock that never goes back."""

    def __init__(self, most: int, within_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.within_s = within_s
        self._clock = clock
        self._restarts: deque[float] = deque(maxlen=most)

    def take(self) -> bool:
        """Count one restart and return True, or return False when the limit is reached."""
        now = self._clock()
        if len(self._restarts) == self.most and now - self._restarts[0] < self.within_s:
            return False
        self._restarts.append(now)
        return True


_LOG = get_log()

MOST_RESTARTS = 5
WITHIN_S = 60.0
BACK_OFF_S = (0.1, 0.5, 2.0)
"""Seconds to wait before the second, third and fourth try to start an interpreter."""


class SupervisedZygote:
    """The zygote of a sandbox. When it has ended, the next interpreter is started by a new one.

    The interpreters of a zygote end with it, so this restores no session.
    """

    def __init__(self, name: str, *, sealed: bool, limits: SandboxLimits) -> None:
        self._name = name
        self._sealed = sealed
        self._limits = limits
        self._restarting = asyncio.Lock()
        self._limit = RestartLimit(MOST_RESTARTS, WITHIN_S)
        self._zygote: Zygote | None = None
        self._hello: Hello | None = None
        self._closed = False

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, name: str, *, sealed: bool, limits: SandboxLimits) -> AsyncGenerator[Self]:
        """Start the zygote; on leaving, it has ended with all its interpreters, and its files are removed.

        name: the sandbox's name, for messages. Raises ConfigError when it cannot isolate code here; ToolError.
        """
        supervised = cls(name, sealed=sealed, limits=limits)
        try:
            await supervised._start()
            yield supervised
        finally:
            supervised._closed = True
            async with supervised._restarting:
                if supervised._zygote is not None:
                    await supervised._zygote.end()

    @property
    def hello(self) -> Hello:
        """How interpreters are isolated."""
        assert self._hello is not None
        return self._hello

    async def start_interpreter(self, seed: int) -> ForkedInterpreter:
        """Start a new interpreter, with several tries. Raises ToolError."""
        for wait_s in BACK_OFF_S:
            try:
                return await ForkedInterpreter.start(await self._running(), seed)
            except ToolLost as error:
                _LOG.info("sandbox.retried", reason=error.message)
                await asyncio.sleep(wait_s)
        return await ForkedInterpreter.start(await self._running(), seed)

    async def _running(self) -> Zygote:
        """Return the zygote; start another if it has ended. Raises ToolError."""
        async with self._restarting:
            assert self._zygote is not None
            if (error := self._zygote.end_error) is not None:
                if self._closed:
                    raise error
                if not self._limit.take():
                    raise ToolError(
                        f"the code sandbox {self._name!r} was started again {MOST_RESTARTS} times within"
                        f" {WITHIN_S:g} s, and its process ended each time ({error.message}); see whether this machine"
                        " has too little memory, or what else ends processes here",
                        code=CODE,
                    )
                _LOG.warning("sandbox.restarted", sandbox=self._name, reason=error.message)
                await self._zygote.end()
                await self._restart()
            return self._zygote

    async def _start(self) -> None:
        """Start the first zygote, with several tries. Raises ConfigError, ToolError."""
        for wait_s in (*BACK_OFF_S, None):
            try:
                self._zygote = await Zygote.start(sealed=self._sealed, limits=self._limits)
                self._hello = await self._zygote.hello()
                break
            except ToolLost as error:
                if self._zygote is not None:
                    await self._zygote.end()
                if wait_s is None:
                    raise
                _LOG.warning("sandbox.restarted", sandbox=self._name, reason=error.message)
                await asyncio.sleep(wait_s)
        if self.hello.refusal:
            raise ConfigError(
                f"the code sandbox {self._name!r} cannot isolate code here: {self.hello.refusal};"
                f" {suggest_other_sandbox()}",
                code="sandbox_unavailable",
            )

    async def _restart(self) -> None:
        """Start another zygote. Raises ToolError, also when it isolates code in another way than the first."""
        self._zygote = await Zygote.start(sealed=self._sealed, limits=self._limits)
        hello = await self._zygote.hello()
        if hello != self._hello:
            layers = ", ".join(hello.layers)
            raise self._zygote.abandon(
                f"the code sandbox {self._name!r} was started again and isolates code in another way than before"
                f" (layers: {layers}; {hello.refusal or 'all of them work'})"
            )
