"""The parent's side of the verifier: two workers with a limit of CPU time, forked again when they end.

Every comparison starts in the quick worker. After `quick_s` of CPU time that worker ends, and the comparison starts
again in the slow worker, for the rest of `limit_s`, so endless comparisons only delay each other. A worker that ends in
any other way is replaced, and its comparison is made once more.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentlearn.answers.match import Match
from agentlearn.answers.verifier import MAX_FRAME_BYTES, frame

LIMIT_S = 3.0
"""CPU seconds for one comparison, in both workers together."""
QUICK_S = 0.5
STUCK_S = 60.0
SHARE = 0.01
"""A worker is stuck, and killed, after STUCK_S plus the wall seconds in which its limit is this share of one core."""
START_S = 120.0
"""Seconds for the fork server to import algebra, also on a slow machine."""
END_S = 10.0
MAX_NUMBER_BYTES = 64
"""Most bytes that the limit takes in a request."""


class _WorkerEnded(Exception):
    """Raised when a worker process could not be started or ended by itself. Its message continues "algebra"."""


class AlgebraWorkers:
    """A fork server and its two workers, started when first needed. Belongs to the event loop that opened it."""

    def __init__(self, limit_s: float, quick_s: float) -> None:
        self._limit_s = limit_s
        self._quick_s = min(quick_s, limit_s)
        self._starting = asyncio.Lock()
        self._fork_server: _ForkServer | None = None
        self._quick = _Worker(self)
        self._slow = _Worker(self)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process id of the fork server, once it runs."""
        return () if self._fork_server is None else (self._fork_server.process.pid,)

    async def compare(self, answer: str, gold: str) -> Match:
        """Whether the answer states what the gold states; undecided when it takes too long or the worker fails."""
        texts = {"answer": answer, "gold": gold}
        if len(json.dumps(texts)) > MAX_FRAME_BYTES - MAX_NUMBER_BYTES:
            return Match.unclear("the texts are too long for algebra")
        with contextlib.suppress(_WorkerEnded):
            return await self._ask(texts)
        try:
            return await self._ask(texts)
        except _WorkerEnded as ended:
            return Match.unclear(f"algebra {ended}")

    async def _ask(self, texts: dict[str, str]) -> Match:
        """Return the quick worker's result, or else the slow one's. Raises _WorkerEnded."""
        found = await self._quick.ask(texts, self._quick_s)
        if found is None and self._limit_s > self._quick_s:
            found = await self._slow.ask(texts, self._limit_s - self._quick_s)
        return found or Match.unclear(f"the comparison took more than {self._limit_s:g} CPU seconds")

    async def fork_server(self) -> "_ForkServer":
        """Return the running fork server. Raises _WorkerEnded when it cannot be started."""
        async with self._starting:
            if self._fork_server is not None and self._fork_server.ended:
                await self._fork_server.end()
                self._fork_server = None
            if self._fork_server is None:
                self._fork_server = await _ForkServer.start()
            return self._fork_server

    async def end(self) -> None:
        """End all processes; they are gone when this returns."""
        await self._quick.close()
        await self._slow.close()
        if self._fork_server is not None:
            await self._fork_server.end()


@asynccontextmanager
async def open_workers(*, limit_s: float = LIMIT_S, quick_s: float = QUICK_S) -> AsyncGenerator[AlgebraWorkers]:
    """Open workers for comparisons that need algebra. They start at the first and are gone on exit."""
    workers = AlgebraWorkers(limit_s, quick_s)
    try:
        yield workers
    finally:
        await asyncio.shield(workers.end())


class _Worker:
    """One forked process at a time, which handles one request at a time."""

    def __init__(self, workers: AlgebraWorkers) -> None:
        self._workers = workers
        self._turn = asyncio.Lock()
        self._open: tuple[_ForkServer, asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, texts: dict[str, str], cpu_s: float) -> Match | None:
        """Return the reply; None when `cpu_s` of CPU time were not enough. Raises _WorkerEnded."""
        async with self._turn:
            fork_server = await self._workers.fork_server()
            if self._open is not None and self._open[0] is not fork_server:
                await self.close()
            if self._open is None:
                self._open = (fork_server, *await fork_server.worker())
            _, reader, writer = self._open
            found = None
            try:
                async with asyncio.timeout(STUCK_S + cpu_s / SHARE):
                    writer.write(frame({**texts, "cpu_s": cpu_s}))
                    await writer.drain()
                    (size,) = struct.unpack("!I", await reader.readexactly(4))
                    reply = json.loads(await reader.readexactly(size))
                    found = None if reply["status"] == "late" else Match(**reply)
            except TimeoutError:
                raise _WorkerEnded("did not answer") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise _WorkerEnded("ended while it compared") from None
            finally:
                if found is None:
                    await self.close()  # a reply that comes now must not be taken for the reply to the next request
            return found

    async def close(self) -> None:
        """Close the stream, which ends the process; the next request gets a new one."""
        if self._open is None:
            return
        _, _, writer = self._open
        self._open = None
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class _ForkServer:
    """The process that workers are forked from."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._broken = False

    @classmethod
    async def start(cls) -> "_ForkServer":
        """Start a fork server and wait until it is ready. Raises _WorkerEnded."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "agentlearn.answers.verifier", str(theirs.fileno())),
                    env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONHASHSEED": "0"},
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise _WorkerEnded(f"could not be started ({error.strerror or error})") from None
        fork_server, word = cls(process, ours), b""
        try:
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(START_S):
                    word = await asyncio.get_running_loop().sock_recv(ours, 64)
        finally:
            if not word:
                await fork_server.end()
        if not word:
            raise _WorkerEnded("could not be started (its process ended or did not answer)")
        return fork_server

    @property
    def ended(self) -> bool:
        """Whether it can make no more workers."""
        return self._broken or self.process.returncode is not None

    async def worker(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a new worker; return the stream to it. Raises _WorkerEnded."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"worker"], [theirs.fileno()])
            except OSError:
                self._broken = True
                ours.close()
                raise _WorkerEnded("ended before it compared") from None
        ours.setblocking(False)
        return await asyncio.open_connection(sock=ours)

    async def end(self) -> None:
        """End it and its workers."""
        self._control.close()
        try:
            async with asyncio.timeout(END_S):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
