"""Send a signal to a running command, and look at what it prints and at what it leaves behind."""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import AGENTLEARN
from tests.support.killing import descendants

NOISE = (
    "Traceback",
    "never awaited",
    "nanobind",
    "leaked",
    "Exception ignored",
    "was destroyed",
    "was never retrieved",
)
"""What Python and its packages print when a process ends badly."""


@dataclass(frozen=True)
class Signalled:
    """A command that has ended after signals."""

    status: int
    lines: tuple[str, ...]
    """All lines of stdout and stderr, in the order of printing."""
    left: tuple[str, ...]
    """Command lines of processes that it left running."""
    files: tuple[str, ...]
    """Files and folders that it left in its folder for temporary files."""

    @property
    def noise(self) -> list[str]:
        """Lines that no user should see."""
        return [line for line in self.lines if any(word in line for word in NOISE)]

    @property
    def resume(self) -> list[str] | None:
        """Arguments of the command in the last line; None when the last line names no command."""
        _, found, command = self.lines[-1].partition("  agentlearn ") if self.lines else ("", "", "")
        return shlex.split(command) if found else None


def handles_signals(pid: int) -> bool:
    """Whether the process has handlers for SIGTERM and SIGHUP: agentlearn's own, since coverage handles only one.

    SIGHUP may be ignored instead, as under `nohup`.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    masks = {name: int(mask, 16) for name, mask in re.findall(r"^(SigIgn|SigCgt):\s*(\w+)$", status, re.MULTILINE)}
    term, hup = (1 << (number - 1) for number in (signal.SIGTERM, signal.SIGHUP))
    return bool(masks["SigCgt"] & term and (masks["SigCgt"] | masks["SigIgn"]) & hup)


def run_and_signal(
    *arguments: str,
    cwd: Path,
    numbers: Sequence[int],
    after: Callable[[Path], bool] | float = 0.0,
    gap_s: float = 0.0,
    group: bool = False,
) -> Signalled:
    """Run a command; when it handles signals and `after` has passed or is true, send it the signals.

    after: seconds, or a condition on the file that it prints to. group: send them to its process group, as a terminal
    does.
    """
    scratch, out = cwd / "tmp", cwd / "printed"
    scratch.mkdir(exist_ok=True)
    with out.open("wb") as file:
        child = subprocess.Popen(
            [str(AGENTLEARN), *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        while child.poll() is None and not handles_signals(child.pid):
            time.sleep(0.002)
        due = time.monotonic() + (after if isinstance(after, int | float) else 0)
        while child.poll() is None and (time.monotonic() < due or (callable(after) and not after(out))):
            time.sleep(0.01)
        started = {pid: line for pid, _, line in descendants(child.pid)}
        for number in numbers:
            if child.poll() is None:
                (os.killpg if group else os.kill)(child.pid, number)
                time.sleep(gap_s)
        status = child.wait(timeout=120)
    deadline = time.monotonic() + 20
    while (left := _running(started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = out.read_text(errors="replace").splitlines()
    return Signalled(status, tuple(lines), left, tuple(sorted(one.name for one in scratch.iterdir())))


def says(words: str) -> Callable[[Path], bool]:
    """A condition for `after`: the words have been printed."""
    return lambda printed: words in printed.read_text(errors="replace")


def _running(started: dict[int, str]) -> tuple[str, ...]:
    found: list[str] = []
    for pid, line in started.items():
        try:
            now = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if now and now == line:
            found.append(line)
    return tuple(found)
