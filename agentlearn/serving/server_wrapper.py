"""`python -m agentlearn.serving.server_wrapper COMMAND…`: run a server that ends when its parent process ends.

The server and everything it starts end when stdin closes, when the parent dies, or at SIGTERM. They form one process
group, which gets SIGTERM first and SIGKILL after a while.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from agentlearn.serving.child_process import wait_for_stdin_end

CHECK_S = 0.2
GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1


def main(command: Sequence[str]) -> int:
    """Run the command until it ends or must end; returns its exit status."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    parent = os.getppid()
    child = subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=_die_with_parent,  # noqa: PLW1509  no thread runs yet
    )
    threading.Thread(target=wait_for_stdin_end, args=(stop.set,), daemon=True).start()
    while child.poll() is None and not stop.wait(CHECK_S) and os.getppid() == parent:
        pass
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(CHECK_S / 4)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # also processes that a server left behind when it ended by itself
    child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _die_with_parent() -> None:
    """Linux: have the kernel kill the server when this process ends in any way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
