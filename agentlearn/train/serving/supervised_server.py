"""A model server as a child process: started, waited for, started again when it dies, ended with us."""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentlearn.errors import EndpointError
from agentlearn.log import get_log

_LOG = get_log()

LOOK_S = 0.25
TELL_S = 10.0
"""How often a slow start is reported."""
GRACE_S = 15.0
RESTARTS = 2
LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What is to be run."""

    name: str
    """As messages call it."""
    command: Sequence[str]
    health: str
    """A URL that answers 200 once it serves."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Beside our own."""
    ready_s: float = 900.0
    hints: Mapping[str, str] = field(default_factory=dict[str, str])
    """By a piece of its log: what mends that."""


class Supervised:
    """A server that runs. Its log is kept after its end."""

    def __init__(self, plan: ServerCommand, log: Path) -> None:
        self._plan = plan
        self.log = log
        self.starts = 0
        self._child: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the process that guards the server."""
        assert self._child is not None
        return self._child.pid

    async def start(self) -> None:
        """Start it and wait until it serves. Raises EndpointError with the last lines of its log."""
        self.starts += 1
        started = time.monotonic()
        with self.log.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "agentlearn.train.serving.guard",
                *self._plan.command,
                stdin=asyncio.subprocess.PIPE,  # it ends when this closes, so that we cannot leave it behind
                stdout=log,
                stderr=log,
                env={**os.environ, **self._plan.environment},
                start_new_session=True,  # Ctrl-C is for us; we end it when we are done
            )
        _LOG.info("server.starting", server=self._plan.name, log=str(self.log))
        told = started
        while not await self._healthy():
            now = time.monotonic()
            if self._child.returncode is not None:
                raise self._error(f"did not start (exit status {self._child.returncode})")
            if now - started > self._plan.ready_s:
                raise self._error(f"did not get ready within {self._plan.ready_s:g} s")
            if now - told > TELL_S:
                told = now
                last = self._last_lines()[-1:]
                _LOG.info("server.waiting", server=self._plan.name, seconds=round(now - started), last=last)
            await asyncio.sleep(LOOK_S)
        _LOG.info("server.ready", server=self._plan.name, seconds=round(time.monotonic() - started, 1))

    async def keep(self) -> None:
        """Start it again when it ends by itself, a few times; returns when it is given up."""
        assert self._child is not None
        while True:
            status = await self._child.wait()
            _LOG.warning("server.died", server=self._plan.name, status=status, log=str(self.log))
            if self.starts > RESTARTS:
                return
            try:
                await self.start()
            except EndpointError as error:
                _LOG.error("server.gone", server=self._plan.name, error=error.message)
                return

    async def end(self) -> None:
        """Ask it to end, insist after a while, and wait until it has."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        assert child.stdin is not None
        child.stdin.close()
        try:
            async with asyncio.timeout(GRACE_S):
                await child.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()

    async def _healthy(self) -> bool:
        import httpx2

        try:
            async with httpx2.AsyncClient(timeout=5, trust_env=False) as http:
                return (await http.get(self._plan.health)).status_code == 200
        except httpx2.HTTPError:
            return False

    def _last_lines(self) -> list[str]:
        with suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()
            return [line for line in lines if line.strip()][-LAST_LINES:]
        return []

    def _error(self, what: str) -> EndpointError:
        lines = self._last_lines()
        said = "\n".join(lines)
        hint = next((words for piece, words in self._plan.hints.items() if piece in said), "")
        mend = f"; {hint}" if hint else ""
        end = f"; its last lines:\n{said}" if lines else ""
        return EndpointError(f"{self._plan.name} {what}{mend}; its log is {self.log}{end}", code="server_not_started")


@asynccontextmanager
async def supervised(plan: ServerCommand) -> AsyncGenerator[Supervised]:
    """The server, ready, while the block runs. Raises EndpointError when it does not start."""
    number, name = tempfile.mkstemp(prefix="agentlearn-server-", suffix=".log")
    os.close(number)
    server = Supervised(plan, Path(name))
    try:
        await server.start()
        keeping = asyncio.create_task(server.keep())
        try:
            yield server
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
    finally:
        await server.end()
