"""Run the command line on a terminal of its own, for tests of what a terminal is sent."""

import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

from tests.support.command import AGENTLEARN


def on_screen(*arguments: str, cwd: Path, columns: int = 100, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run one command until it ends. Return its exit status, and all that its terminal was sent."""
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # else the terminal adds a carriage return to each line
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    ended = subprocess.Popen(
        [str(AGENTLEARN), *(one.replace("\x00", "") for one in arguments)],
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})},
        close_fds=True,
    )
    os.close(theirs)
    parts: list[bytes] = []
    while part := _read(ours):
        parts.append(part)
    os.close(ours)
    return ended.wait(60), b"".join(parts).decode("utf-8")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except OSError:  # the terminal's other end is closed
        return b""
