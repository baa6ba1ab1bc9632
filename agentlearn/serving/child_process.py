"""A service of this library in a child process that runs as long as it is used, and is started again when it dies."""

import asyncio
import json
import os
import re
import signal
import tempfile
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import IO
from urllib.parse import urlsplit

from agentlearn.errors import EndpointError, words_of_failed_start
from agentlearn.log import get_log
from agentlearn.printing import print_line
from agentlearn.serving.supervised_server import end_process, start_module, wait_for_stdin_end
from agentlearn.text import Block

_LOG = get_log()

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
class RunningChild:
    """A child process that is ready."""

    base_url: str
    process: asyncio.subprocess.Process
    """The present process; another one after a restart."""

    @property
    def pid(self) -> int:
        """Process id of the present process."""
        return self.process.pid

    async def wait_until_ready(self, child: ChildService, stderr: IO[bytes]) -> None:
        """Wait for the URL; start a child again that was killed by a signal. Raises EndpointError."""
        for _ in range(RESTARTS):
            try:
                self.base_url = await _wait_for_url(self.process, child, stderr)
            except EndpointError:
                if (self.process.returncode or 0) >= 0:
                    raise
                _LOG.warning("service.restarted", service=child.called, status=self.process.returncode)
                self.process = await _start(child, stderr)
            else:
                return
        self.base_url = await _wait_for_url(self.process, child, stderr)

    async def keep_running(self, child: ChildService, stderr: IO[bytes]) -> None:
        """Start the child again, on the same port, when it ends by itself; returns when it stays down."""
        again = replace(child, arguments=(*child.arguments, "--port", str(urlsplit(self.base_url).port)))
        for _ in range(RESTARTS):
            status = await self.process.wait()
            _LOG.warning("service.restarted", service=child.called, status=status)
            try:
                self.process = await _start(again, stderr)
                await _wait_for_url(self.process, child, stderr)
            except EndpointError as error:
                _LOG.warning("service.failed", service=child.called, reason=error.message)
                with suppress(ProcessLookupError):
                    self.process.kill()
                await asyncio.sleep(BACK_OFF_S)
        status = await self.process.wait()
        _LOG.error("service.abandoned", service=child.called, status=status, restarts=RESTARTS)


@asynccontextmanager
async def running_child(child: ChildService) -> AsyncGenerator[RunningChild]:
    """Run the child while the block runs, with restarts. Raises EndpointError when it is not ready within a minute."""
    with tempfile.TemporaryFile() as stderr:
        running = RunningChild("", await _start(child, stderr))
        try:
            await running.wait_until_ready(child, stderr)
            keeping = asyncio.create_task(running.keep_running(child, stderr))
            try:
                yield running
            finally:
                keeping.cancel()
                await asyncio.wait({keeping})
        finally:
            with suppress(ProcessLookupError):
                running.process.terminate()
            await end_process(running.process, grace_s=GRACE_S)


async def serve_as_child(service: AbstractAsyncContextManager[str]) -> None:
    """Run a service inside the child process until stdin closes, the parent dies, or SIGTERM arrives.

    service: yields the base URL. Prints one line of JSON when it is ready: {"url": …, "pid": …}.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    threading.Thread(target=wait_for_stdin_end, args=(partial(_stop_from_thread, loop, stop),), daemon=True).start()
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


async def _start(child: ChildService, stderr: IO[bytes]) -> asyncio.subprocess.Process:
    try:
        return await start_module(
            child.module,
            child.arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            environment=_environment(child.environment),
        )
    except OSError as error:
        raise EndpointError(
            f"{child.called} could not be started: {words_of_failed_start(error)}", code=child.code
        ) from error


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("COV")}
    return {**kept, "PYTHONUTF8": "1", **more}


async def _wait_for_url(process: asyncio.subprocess.Process, child: ChildService, stderr: IO[bytes]) -> str:
    """Return the URL from the line that the child prints when it is ready. Other lines are ignored."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            async for line in process.stdout:
                if (found := _READY.search(line)) is not None:
                    return found[1].decode()
            await process.wait()
    except TimeoutError:
        raise EndpointError(
            f"{child.called} did not get ready within {READY_S:g} s; is the machine overloaded?", code=child.code
        ) from None
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    reason = lines[-1] if lines else f"exit status {process.returncode}"
    raise EndpointError(f"{child.called} did not start: {reason}", code=child.code)


def _stop_from_thread(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)
