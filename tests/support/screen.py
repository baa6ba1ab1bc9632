"""Run the command line on a terminal of its own, for tests of what a terminal is sent."""

import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path

from tests.support.command import AGENTLEARN

SEVERAL = """
import json, os, sys
from agentlearn.cli.app import run
for command in json.loads(sys.argv[1]):
    status = run(command)
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(1, b"\\0%d\\0" % status)
"""
"""A program that runs several commands, and sends the status of each between two zero bytes."""


def on_screen(*arguments: str, cwd: Path, columns: int = 100, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run one command until it ends. Return its exit status, and all that its terminal was sent."""
    return _sent([str(AGENTLEARN), *(one.replace("\x00", "") for one in arguments)], cwd, columns, env)


def on_screens(commands: Mapping[str, Sequence[str]], cwd: Path) -> dict[str, tuple[int, str]]:
    """The same of several commands, by their names, in one process: to start one takes a second of CPU."""
    given = [[word.replace("\x00", "") for word in command] for command in commands.values()]
    status, sent = _sent([sys.executable, "-c", SEVERAL, json.dumps(given)], cwd, 100)
    parts = re.split(r"\x00(\d+)\x00", sent)
    assert (status, parts[-1], len(parts)) == (0, "", 2 * len(commands) + 1), sent[-2000:]
    return {name: (int(parts[2 * at + 1]), parts[2 * at]) for at, name in enumerate(commands)}


def _sent(command: list[str], cwd: Path, columns: int, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # else the terminal adds a carriage return to each line
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    ended = subprocess.Popen(
        command,
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
