"""A model server as a child process: started, checked until ready, restarted when it dies, and ended with us."""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from agentlearn.errors import EndpointError
from agentlearn.log import get_log


async def start_module(
    module: str,
    arguments: Sequence[str],
    *,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    environment: Mapping[str, str],
) -> asyncio.subprocess.Process:
    """Start `python -m MODULE ARGUMENTS`. Raises OSError when the process cannot be created.

    The child must end when its stdin closes, which happens at the latest when this process ends.
    """
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # do not import modules from the user's current directory
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=dict(environment),
        start_new_session=True,  # Ctrl-C must reach only this process, which then ends the child
    )


async def end_process(process: asyncio.subprocess.Process, *, grace_s: float) -> None:
    """Close the child's stdin and wait until it has ended. Kill its process group after `grace_s` seconds."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def wait_for_stdin_end(ended: Callable[[], object]) -> None:
    """Read stdin until it closes, then call `ended`. For a daemon thread of the child."""
    # os.read, not sys.stdin: a buffered reader's lock, held by a daemon thread, is fatal when the interpreter ends.
    with suppress(OSError):
        while os.read(0, 4_096):
            pass
    ended()


_LOG = get_log()

CHECK_S = 0.25
"""Seconds between two checks whether a starting server is ready."""
REPORT_S = 10.0
"""Seconds between two log lines about a server that is still starting."""
GRACE_S = 15.0
RESTARTS = 2
LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How to start a server and tell that it is ready."""

    name: str
    """Name in messages."""
    command: Sequence[str]
    health: str
    """URL that answers with status 200 when the server is ready."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables besides those of this process."""
    ready_s: float = 900.0
    """Seconds before a start counts as failed."""
    hints: Mapping[str, str] = field(default_factory=dict[str, str])
    """What to do about a failed start, by a text that its log contains."""


class SupervisedServer:
    """A running server. Its log file stays after its end."""

    def __init__(self, command: ServerCommand, log: Path) -> None:
        self._command = command
        self.log = log
        self.starts = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Process id of the wrapper around the server."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start the server and wait until it is ready. Raises EndpointError with the last lines of its log."""
        self.starts += 1
        started = time.monotonic()
        with self.log.open("ab") as log:
            self._process = await start_module(
                "agentlearn.serving.server_wrapper",
                self._command.command,
                stdout=log,
                stderr=log,
                environment={**os.environ, **self._command.environment},
            )
        _LOG.info("server.starting", server=self._command.name, log=str(self.log))
        reported = started
        while not await self._healthy():
            now = time.monotonic()
            if self._process.returncode is not None:
                raise self._error(f"did not start (exit status {self._process.returncode})")
            if now - started > self._command.ready_s:
                raise self._error(f"did not get ready within {self._command.ready_s:g} s")
            if now - reported > REPORT_S:
                reported = now
                last = self._last_lines()[-1:]
                _LOG.info("server.waiting", server=self._command.name, seconds=round(now - started), last=last)
            await asyncio.sleep(CHECK_S)
        _LOG.info("server.ready", server=self._command.name, seconds=round(time.monotonic() - started, 1))

    async def keep_running(self) -> None:
        """Restart the server when it ends by itself, up to `RESTARTS` times; returns when it stays down."""
        assert self._process is not None
        while True:
            status = await self._process.wait()
            _LOG.warning("server.died", server=self._command.name, status=status, log=str(self.log))
            if self.starts > RESTARTS:
                return
            try:
                await self.start()
            except EndpointError as error:
                _LOG.error("server.abandoned", server=self._command.name, error=error.message)
                return

    async def end(self) -> None:
        """End the server and wait until it has ended."""
        if self._process is not None and self._process.returncode is None:
            await end_process(self._process, grace_s=GRACE_S)

    async def _healthy(self) -> bool:
        import httpx2

        try:
            async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
                return (await http.get(self._command.health)).status_code == 200
        except httpx2.HTTPError:
            return False

    def _last_lines(self) -> list[str]:
        with suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            return [line for line in lines if line.strip()][-LAST_LINES:]
        return []

    def _error(self, what: str) -> EndpointError:
        lines = self._last_lines()
        text = "\n".join(lines)
        hint = next((f"; {hint}" for piece, hint in self._command.hints.items() if piece in text), "")
        end = f"; its last lines:\n{text}" if lines else ""
        return EndpointError(
            f"{self._command.name} {what}{hint}; its log is {self.log}{end}", code="server_not_started"
        )


@asynccontextmanager
async def supervised_server(command: ServerCommand) -> AsyncGenerator[SupervisedServer]:
    """Run the server while the block runs. Raises EndpointError when it does not start."""
    number, name = tempfile.mkstemp(prefix="agentlearn-server-", suffix=".log")
    os.close(number)
    server = SupervisedServer(command, Path(name))
    try:
        await server.start()
        keeping = asyncio.create_task(server.keep_running())
        try:
            yield server
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
    finally:
        await server.end()
