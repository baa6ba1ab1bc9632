"""Our side of one forked interpreter."""

import asyncio
import contextlib
import os
import signal
import socket

from pydantic import ValidationError

from agentlearn.errors import ToolLost
from agentlearn.sandbox.inside.frames import HEADER_BYTES, MAX_FRAME_BYTES, READ_BYTES, pack, reply_bytes
from agentlearn.sandbox.interpreter import EXIT_GRACE_S, KILLED, CallReply, Exit, InterpreterGone
from agentlearn.sandbox.zygote import Zygote
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
