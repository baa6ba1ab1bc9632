"""Runs one of our worker programs on input that can be made to take for ever: files and patterns from outside.

The program limits its own processor time and memory, and is killed after a time. It imports nothing of ours, which
would take longer than its work.
"""

import asyncio
import os
import sys
from contextlib import suppress
from types import ModuleType

_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "HOME", "LANG", "SYSTEMROOT")


class WorkerFailed(Exception):
    """Raised when a worker program did not end well; `status` is its exit status, None after the time limit."""

    def __init__(self, status: int | None) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


async def run_worker(program: ModuleType, given: bytes, wall_s: float) -> bytes:
    """Return what a program writes for its input. Raises WorkerFailed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(program.__file__)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
    )
    try:
        async with asyncio.timeout(wall_s):
            written, _ = await process.communicate(given)
    except TimeoutError:
        raise WorkerFailed(None) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise WorkerFailed(process.returncode)
    return written
