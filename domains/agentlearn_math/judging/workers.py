"""Our side of the worker process: two lanes, a wall limit by SIGKILL, a fresh lane from the warm template after it.

Every comparison begins in the quick lane. One that is not done there after `quick_s` is killed and begins again in the
patient lane, for what is left of `limit_s`; so endless comparisons wait for one another and for nobody else.
"""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import struct
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal

from pydantic import ValidationError

from agentlearn.types.value import Value
from agentlearn_math.judging.match import Match, unsure
from agentlearn_math.judging.worker import MAX_FRAME_BYTES

LIMIT_S = 3.0
"""Wall seconds of computing for one comparison, in both lanes together."""
QUICK_S = 0.5
START_S = 120.0
"""For the template to import algebra, on however slow a machine."""
END_S = 10.0


class WorkerEnded(Exception):
    """Raised when the worker process could not be started or ended by itself; the words follow "algebra"."""


class _Reply(Value):
    """What a lane answers."""

    status: Literal["equal", "different", "unsure"]
    reason: str


class AlgebraWorkers:
    """A template and its two lanes, started when first needed. Belongs to the event loop that opened it."""

    def __init__(self, limit_s: float, quick_s: float) -> None:
        self._limit_s = limit_s
        self._quick_s = min(quick_s, limit_s)
        self._starting = asyncio.Lock()
        self._template: _Template | None = None
        self._quick = _Lane(self)
        self._patient = _Lane(self)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process id of the template, once it runs."""
        return () if self._template is None else (self._template.pid,)

    async def compare(self, answer: str, gold: str) -> Match:
        """Whether the answer states what the gold states; undecided when it takes too long or the worker breaks."""
        request = json.dumps({"answer": answer, "gold": gold}).encode()
        if len(request) > MAX_FRAME_BYTES:
            return unsure("the texts are too long for algebra")
        try:
            return await self._asked(request)
        except WorkerEnded as ended:
            if self._template is None or not self._template.ended:
                return unsure(f"algebra {ended}")
        try:  # a comparison can end its lane, but not the template: that was none of its doing
            return await self._asked(request)
        except WorkerEnded as ended:
            return unsure(f"algebra {ended}")

    async def _asked(self, request: bytes) -> Match:
        """The quick lane's finding, or else the patient one's. Raises WorkerEnded."""
        found = await self._quick.ask(request, self._quick_s)
        if found is None and self._limit_s > self._quick_s:
            found = await self._patient.ask(request, self._limit_s - self._quick_s)
        return found or unsure(f"the comparison took more than {self._limit_s:g} s")

    async def template(self) -> "_Template":
        """The running template. Raises WorkerEnded when it cannot be started."""
        async with self._starting:
            if self._template is not None and self._template.ended:
                await self._template.end()
                self._template = None
            if self._template is None:
                self._template = await _Template.start()
            return self._template

    async def end(self) -> None:
        """End all processes; they are gone when this returns."""
        await self._quick.close()
        await self._patient.close()
        if self._template is not None:
            await self._template.end()


@asynccontextmanager
async def open_workers(*, limit_s: float = LIMIT_S, quick_s: float = QUICK_S) -> AsyncGenerator[AlgebraWorkers]:
    """Workers for comparisons that need algebra. Nothing is started before the first; on leaving, all is gone."""
    workers = AlgebraWorkers(limit_s, quick_s)
    try:
        yield workers
    finally:
        await asyncio.shield(workers.end())


class _Lane:
    """One forked process at a time, with one request at a time."""

    def __init__(self, workers: AlgebraWorkers) -> None:
        self._workers = workers
        self._turn = asyncio.Lock()
        self._open: tuple[_Template, int, asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes, limit_s: float) -> Match | None:
        """The reply; None after `limit_s` of computing. Raises WorkerEnded."""
        async with self._turn:
            reader, writer = await self._streams()
            try:
                async with asyncio.timeout(limit_s):
                    writer.write(struct.pack("!I", len(request)) + request)
                    await writer.drain()
                    (size,) = struct.unpack("!I", await reader.readexactly(4))
                    reply = _Reply.model_validate_json(await reader.readexactly(min(size, MAX_FRAME_BYTES)))
            except TimeoutError:
                await self.close()
                return None
            except (asyncio.IncompleteReadError, ConnectionError):
                await self.close()
                raise WorkerEnded("ended while it compared") from None
            except ValidationError:
                await self.close()
                raise WorkerEnded("gave a reply that cannot be read") from None
            except asyncio.CancelledError:
                await self.close()  # a reply that nobody waits for must not meet the next request
                raise
            return Match(reply.status, reply.reason)

    async def _streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        template = await self._workers.template()
        if self._open is not None and self._open[0] is not template:
            await self.close()
        if self._open is None:
            self._open = (template, *await template.lane())
        return self._open[2], self._open[3]

    async def close(self) -> None:
        """Kill the lane's process; the next request gets a new one."""
        if self._open is None:
            return
        template, lane, _, writer = self._open
        self._open = None
        template.close(lane)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class _Template:
    """The process that lanes are forked from."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._lanes = itertools.count(1)
        self._broken = False

    @classmethod
    async def start(cls) -> "_Template":
        """A template that is ready. Raises WorkerEnded."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "agentlearn_math.judging.worker"),
                    *(str(theirs.fileno()), str(os.getpid())),
                    env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONHASHSEED": "0"},
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise WorkerEnded(f"could not be started ({error.strerror or error})") from None
        template = cls(process, ours)
        try:
            async with asyncio.timeout(START_S):
                word = await asyncio.get_running_loop().sock_recv(ours, 1_024)
        except (TimeoutError, ConnectionError):
            word = b""
        except asyncio.CancelledError:
            await template.end()
            raise
        if not word:
            await template.end()
            raise WorkerEnded("could not be started (its process ended or did not answer)")
        return template

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended: its end of the socket closes before its lanes' do."""
        if not self._broken:
            try:
                self._broken = not self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
            except OSError:
                self._broken = True
        return self._broken

    async def lane(self) -> tuple[int, asyncio.StreamReader, asyncio.StreamWriter]:
        """A new lane: its number, and the stream to it. Raises WorkerEnded."""
        lane = next(self._lanes)
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b'{"open": %d}' % lane], [theirs.fileno()])
            except OSError:
                self._broken = True
                ours.close()
                raise WorkerEnded("ended before it compared") from None
        ours.setblocking(False)
        return lane, *await asyncio.open_connection(sock=ours)

    def close(self, lane: int) -> None:
        """Have a lane's process killed."""
        try:
            self._control.send(b'{"close": %d}' % lane)
        except OSError:
            self._broken = True

    async def end(self) -> None:
        """End it, and its lanes with it."""
        self._control.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
