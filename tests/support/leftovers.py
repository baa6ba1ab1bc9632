"""Check that code leaves no child processes and no asyncio tasks running."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Generator
from pathlib import Path
from unittest import mock


@contextlib.contextmanager
def no_process_left(*, grace_s: float = 20.0) -> Generator[None]:
    """Fail when a child process started inside still runs `grace_s` after the end; such processes are killed."""
    before = _children()
    yield
    deadline = time.monotonic() + grace_s
    while (left := _left_running(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left running: {left}"


@contextlib.contextmanager
def no_asyncio_task_left() -> Generator[None]:
    """Fail when an `asyncio.run` inside ends with tasks still running, which it would quietly cancel."""
    left: list[str] = []
    cancel_all = asyncio.runners._cancel_all_tasks  # pyright: ignore[reportAttributeAccessIssue]

    def note_and_cancel_all(loop: asyncio.AbstractEventLoop) -> None:
        left.extend(repr(task) for task in asyncio.all_tasks(loop))
        cancel_all(loop)

    with mock.patch.object(asyncio.runners, "_cancel_all_tasks", note_and_cancel_all):
        yield
    assert not left, f"asyncio.run ended with tasks still running: {left}"


def _children() -> frozenset[int]:
    """Pids of this process's children, zombies left out. Empty if the kernel does not list them."""
    pids: set[int] = set()
    for listing in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            pids.update(int(pid) for pid in listing.read_text().split())
    return frozenset(pid for pid in pids if _command(pid))


def _command(pid: int) -> str:
    """Return the command line of a process, or its name if it has none. Empty for a zombie or an ended process."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
        if rest.split()[0] in "ZX":
            return ""
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return line or name.partition("(")[2]
    except OSError:
        return ""


def _left_running(before: frozenset[int]) -> dict[int, str]:
    left = {pid: _command(pid) for pid in _children() - before}
    # multiprocessing keeps its resource tracker running until this process ends
    return {pid: line for pid, line in left.items() if line and "multiprocessing.resource_tracker" not in line}
