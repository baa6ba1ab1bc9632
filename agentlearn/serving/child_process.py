"""A service of ours in a child process, for as long as somebody uses it."""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import IO

from agentlearn.errors import EndpointError

READY_S = 60.0
GRACE_S = 2.0
PARENT_CHECK_S = 1.0
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "LANG")

_READY = re.compile(rb'^\{"url": "([^"]+)"')


@dataclass(frozen=True, slots=True)
class Child:
    """What is to run, and how people are told about it."""

    module: str
    """Run as `python -m`."""
    arguments: Sequence[str]
    called: str
    """Such as "the simulated world"."""
    code: str
    """Of the error when it does not start."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """What it gets besides the little that every child gets."""


@dataclass(frozen=True, slots=True)
class Running:
    """A child that is ready."""

    base_url: str
    pid: int


@asynccontextmanager
async def running(child: Child) -> AsyncGenerator[Running]:
    """The child while the block runs. Raises EndpointError when it is not ready within a minute."""
    with tempfile.TemporaryFile() as complaints:
        process = await _started(child, complaints)
        try:
            yield Running(await _url(process, child, complaints), process.pid)
        finally:
            await _ended(process)


async def serve_as_child(service: AbstractAsyncContextManager[str]) -> None:
    """The child's side: serve until stdin closes, the parent dies, or SIGTERM comes.

    service: yields the base URL. Prints one line of JSON when it is ready: {"url": …, "pid": …}.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    threading.Thread(target=_wait_for_end_of_stdin, args=(loop, stop), daemon=True).start()
    async with service as url:
        print(json.dumps({"url": url, "pid": os.getpid()}), flush=True)  # noqa: T201  the parent waits for this line
        # Nobody reads on: whatever a domain prints must not fill the pipe and stop us.
        os.dup2(2, 1)
        parent = os.getppid()
        # A second net: a fork of the parent may hold the other end of stdin open for longer than the parent lives.
        while not stop.is_set() and os.getppid() == parent:
            try:
                async with asyncio.timeout(PARENT_CHECK_S):
                    await stop.wait()
            except TimeoutError:
                continue


async def _started(child: Child, complaints: IO[bytes]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # what lies in the user's directory is not ours to import
            "-m",
            child.module,
            *child.arguments,
            stdin=asyncio.subprocess.PIPE,  # it ends when this closes, so that we cannot leave it behind
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            env=_environment(child.environment),
            start_new_session=True,  # Ctrl-C is for us; we end it when we are done
        )
    except OSError as error:
        raise EndpointError(f"{child.called} could not be started: {error}", code=child.code) from error


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("COV")}
    return {**kept, "PYTHONUTF8": "1", **more}


async def _url(process: asyncio.subprocess.Process, child: Child, complaints: IO[bytes]) -> str:
    """The URL from the line that says it is ready; other lines are somebody's chatter."""
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
    complaints.seek(0)
    said = complaints.read().decode(errors="replace").strip().splitlines()
    reason = said[-1] if said else f"exit status {process.returncode}"
    raise EndpointError(f"{child.called} did not start: {reason}", code=child.code)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Ask it to end, insist after a while, and wait until it has."""
    assert process.stdin is not None
    process.stdin.close()
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    # os.read, not sys.stdin: a buffered reader's lock, held by a daemon thread, is fatal when the interpreter ends.
    try:
        while os.read(0, 4_096):
            pass
    except OSError:
        pass
    if not loop.is_closed():
        loop.call_soon_threadsafe(stop.set)
