"""Workers as processes of this machine (`--workers N`). Driver and worker talk over a socket that nobody else has."""

import asyncio
import os
import pickle
import signal
import socket
import struct
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from agentlearn.errors import ConfigError
from agentlearn.rollout.link import LinkMessage
from agentlearn.rollout.workers import Cluster, Started, WorkerNeeds

_LENGTH = struct.Struct(">Q")
_FEWEST_ALLOWED = 4
"""Workers that any machine may have."""
_STOP_S = 10.0
"""Seconds that a worker has to end by itself."""


@dataclass(slots=True)
class _StreamLink:
    """A link over a socket: each message after its length."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, message: LinkMessage) -> None:
        """Send a message. Raises OSError when the other end is gone."""
        written = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self.writer.write(_LENGTH.pack(len(written)) + written)
        await self.writer.drain()

    async def receive(self) -> LinkMessage:
        """Return the next message. Raises EOFError when the other end is gone."""
        try:
            (length,) = _LENGTH.unpack(await self.reader.readexactly(_LENGTH.size))
            return pickle.loads(await self.reader.readexactly(length))  # noqa: S301  from a process of our own
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError("the other end is gone") from error


class _Processes:
    """Starts workers as processes."""

    async def check(self, count: int, needs: WorkerNeeds) -> None:
        """Raise ConfigError for more workers than twice the cores: they would only slow one another down."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if count > _FEWEST_ALLOWED and count > 2 * cores:
            most = max(_FEWEST_ALLOWED, 2 * cores)
            raise ConfigError(f"--workers {count} is too many for {cores} cores; give at most {most}", code="no_room")

    @asynccontextmanager
    async def start(self, needs: WorkerNeeds) -> AsyncGenerator[Started]:
        """Start a worker, and end it with the block."""
        own, other = socket.socketpair()
        program = f"from agentlearn.rollout.processes import main; main({other.fileno()})"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, pass_fds=[other.fileno()], start_new_session=True
        )
        other.close()
        reader, writer = await asyncio.open_connection(sock=own)

        async def cause() -> str:
            return _ended(await process.wait())

        try:
            yield Started(_StreamLink(reader, writer), cause)
        finally:
            writer.close()
            await _stop(process)


@asynccontextmanager
async def open_processes() -> AsyncGenerator[Cluster]:
    """Open this machine as a place for workers."""
    yield _Processes()


async def _stop(process: Process) -> None:
    """Wait for a process whose link is closed. Kill it when it does not end, and what it left behind."""
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _ended(status: int) -> str:
    """Why a process ended, in words."""
    if status >= 0:
        return f"its process ended with status {status}"
    name = signal.Signals(-status).name
    memory = "; the system may have been out of memory" if -status == signal.SIGKILL else ""
    return f"its process was ended by {name}{memory}"


def main(number: int) -> None:
    """Serve the driver at the other end of the socket with this number, in a process of its own."""
    from agentlearn.rollout.worker import work  # the driver needs none of it

    async def serve() -> None:
        reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=number))
        await work(_StreamLink(reader, writer))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides what Ctrl-C means
    asyncio.run(serve())
