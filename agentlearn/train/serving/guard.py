"""`python -m agentlearn.train.serving.guard COMMAND…`: run a server that does not outlive whoever started it.

The server and everything that it starts end when stdin closes, when the parent dies, or at SIGTERM: first asked, then
killed, as one process group.
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

CHECK_S = 0.2
GRACE_S = 10.0
_PR_SET_PDEATHSIG = 1


def main(command: Sequence[str]) -> int:
    """Run the command to its end or ours; its exit status."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    parent = os.getppid()
    child = subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=_die_with_me,  # noqa: PLW1509  no thread runs yet
    )
    threading.Thread(target=_wait_for_end_of_stdin, args=(stop,), daemon=True).start()
    while child.poll() is None and not stop.wait(CHECK_S) and os.getppid() == parent:
        pass
    _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Ask the group to end, insist after a while."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(CHECK_S / 4)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # also what a server that ended by itself left behind
    child.wait()


def _die_with_me() -> None:
    """Linux: the server is killed when this process ends in any way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_for_end_of_stdin(stop: threading.Event) -> None:
    try:
        while os.read(0, 4_096):
            pass
    except OSError:
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
