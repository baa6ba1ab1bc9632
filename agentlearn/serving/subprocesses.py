"""Starting and ending Python child processes that must not outlive this process."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO


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
