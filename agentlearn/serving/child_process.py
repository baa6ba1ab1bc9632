"""Servers in child processes that run as long as they are used: started, checked until ready, restarted when they die.

This is a model server (`ServerCommand`), or a service of this library (`ChildService`).
"""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from agentlearn.errors import EndpointError, words_of_failed_start
from agentlearn.text import Block
from agentlearn.text.log import get_log
from agentlearn.text.printing import print_line


async def _start_module(
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


async def _end_process(process: asyncio.subprocess.Process, *, grace_s: float) -> None:
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
SERVER_GRACE_S = 15.0
SERVER_RESTARTS = 2
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
            self._process = await _start_module(
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
            if self.starts > SERVER_RESTARTS:
                return
            try:
                await self.start()
            except EndpointError as error:
                _LOG.error("server.abandoned", server=self._command.name, error=error.message)
                return

    async def end(self) -> None:
        """End the server and wait until it has ended."""
        if self._process is not None and self._process.returncode is None:
            await _end_process(self._process, grace_s=SERVER_GRACE_S)

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


READY_S = 60.0
BACK_OFF_S = 0.5
"""Seconds to wait after a restart that failed."""
RESTARTS = 3
"""How often a child that ended by itself is started again. Then it stays down, and calls to it fail."""
GRACE_S = 2.0
PARENT_CHECK_S = 1.0
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "LANG")

_READY = re.compile(rb'^\{"url": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class ChildService:
    """Which service to start, and how error messages name it."""

    module: str
    """Module that is run as `python -m MODULE`. It takes the option `--port`."""
    arguments: Sequence[str]
    called: str
    """Name in error messages, such as "the simulated world"."""
    code: str
    """Code of the EndpointError when the service does not start."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables besides the few that every child inherits."""


@dataclass(slots=True)
class _RunningChild:
    """A child process, and where its service is."""

    child: ChildService
    stderr: IO[bytes]
    base_url: str = ""
    process: asyncio.subprocess.Process = field(init=False)
    """The present process; another one after a restart."""

    @property
    def pid(self) -> int:
        """Process id of the present process."""
        return self.process.pid

    async def start(self) -> None:
        """Start the child; after a restart on the same port. Raises EndpointError."""
        child, port = self.child, urlsplit(self.base_url).port
        kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("COV")}
        try:
            self.process = await _start_module(
                child.module,
                child.arguments if port is None else (*child.arguments, "--port", str(port)),
                stdout=asyncio.subprocess.PIPE,
                stderr=self.stderr,
                environment={**kept, "PYTHONUTF8": "1", **child.environment},
            )
        except OSError as error:
            words = f"{child.called} could not be started: {words_of_failed_start(error)}"
            raise EndpointError(words, code=child.code) from error

    async def wait_for_url(self) -> None:
        """Wait for the line with the URL that the child prints when it is ready. Raises EndpointError."""
        child, stdout = self.child, self.process.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(READY_S):
                async for line in stdout:  # other lines are ignored
                    if (found := _READY.search(line)) is not None:
                        self.base_url = found[1].decode()
                        return
                await self.process.wait()
        except TimeoutError:
            raise EndpointError(
                f"{child.called} did not get ready within {READY_S:g} s; is the machine overloaded?", code=child.code
            ) from None
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit status {self.process.returncode}"
        raise EndpointError(f"{child.called} did not start: {reason}", code=child.code)

    async def keep_running(self) -> None:
        """Start the child again when it ends by itself; returns when it stays down."""
        called = self.child.called
        for _ in range(RESTARTS):
            status = await self.process.wait()
            _LOG.warning("service.restarted", service=called, status=status)
            try:
                await self.start()
                await self.wait_for_url()
            except EndpointError as error:
                _LOG.warning("service.failed", service=called, reason=error.message)
                with suppress(ProcessLookupError):
                    self.process.kill()
                await asyncio.sleep(BACK_OFF_S)
        status = await self.process.wait()
        _LOG.error("service.abandoned", service=called, status=status, restarts=RESTARTS)


@asynccontextmanager
async def running_child(child: ChildService) -> AsyncGenerator[_RunningChild]:
    """Run the child while the block runs, with restarts. Raises EndpointError when it is not ready within a minute."""
    with tempfile.TemporaryFile() as stderr:
        running = _RunningChild(child, stderr)
        await running.start()
        try:
            for left in range(RESTARTS, -1, -1):
                try:
                    await running.wait_for_url()
                    break
                except EndpointError:
                    if not left or (running.process.returncode or 0) >= 0:
                        raise
                    # Killed by a signal.
                    _LOG.warning("service.restarted", service=child.called, status=running.process.returncode)
                    await running.start()
            keeping = asyncio.create_task(running.keep_running())
            try:
                yield running
            finally:
                keeping.cancel()
                await asyncio.wait({keeping})
        finally:
            with suppress(ProcessLookupError):
                running.process.terminate()
            await _end_process(running.process, grace_s=GRACE_S)


async def serve_as_child(service: AbstractAsyncContextManager[str]) -> None:
    """Run a service inside the child process until stdin closes, the parent dies, or SIGTERM arrives.

    service: yields the base URL. Prints one line of JSON when it is ready: {"url": …, "pid": …}.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def stop_from_thread() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait_for_stdin_end, args=(stop_from_thread,), daemon=True).start()
    async with service as url:
        print_line(Block(json.dumps({"url": url, "pid": os.getpid()})))  # the parent waits for this line
        # The parent reads no further. Send later output to stderr, so that a full pipe cannot block this process.
        os.dup2(2, 1)
        parent = os.getppid()
        # Also check the parent: a process that it forked may keep stdin open after the parent has died.
        while not stop.is_set() and os.getppid() == parent:
            try:
                async with asyncio.timeout(PARENT_CHECK_S):
                    await stop.wait()
            except TimeoutError:
                continue
