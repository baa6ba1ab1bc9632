"""Attacks that a zygote lets loose on its own walls before it opens them to strangers.

Each tries one thing that code in a session must not be able to do, and returns when it could.
"""

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.confine import SOCKET_FD, PreparedSession, seal, settle

TIMEOUT_S = 20.0
_PTRACE_SEIZE = 0x4206
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class AttackTarget:
    """What there is to attack."""

    secret: Path
    """A file beside the session's scratch directory."""
    zygote: int
    limits: SandboxLimits


@dataclass(frozen=True)
class Attack:
    """One attempt, and the layer that must stop it."""

    name: str
    layer: str
    attempt: Callable[[AttackTarget], object]


def _fork(_target: AttackTarget) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _system_call(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _trace(target: AttackTarget) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _system_call(libc.ptrace(_PTRACE_SEIZE, target.zygote, None, None))


def _outlive(_target: AttackTarget) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _system_call(libc.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0))


def _large_file(target: AttackTarget) -> None:
    with open("large", "wb") as file:  # noqa: PTH123
        file.truncate(target.limits.file_bytes + 1)


ATTACKS = (
    Attack("read a file outside", "landlock", lambda target: target.secret.read_bytes()),
    Attack("write a file outside", "landlock", lambda target: target.secret.with_name("written").write_bytes(b"")),
    Attack("list a directory outside", "landlock", lambda target: list(target.secret.parent.iterdir())),
    Attack("read the zygote's environment", "landlock", lambda t: Path(f"/proc/{t.zygote}/environ").read_bytes()),
    Attack("change a file's mode", "seccomp", lambda target: target.secret.chmod(0o777)),
    Attack("open a socket", "seccomp", lambda _: socket.socket()),
    Attack("fork", "seccomp", _fork),
    Attack("signal the zygote", "seccomp", lambda target: os.kill(target.zygote, 0)),
    Attack("trace the zygote", "seccomp", _trace),
    Attack("outlive the zygote", "seccomp", _outlive),
    Attack("take much memory", "rlimits", lambda target: mmap.mmap(-1, 2 * target.limits.memory_bytes)),
    Attack("write a large file", "rlimits", _large_file),
    Attack("run a program", "seccomp", lambda _: os.execv(sys.executable, [sys.executable, "-S", "-c", ""])),  # noqa: S606
)
"""The last one would be the last: it replaces the attacker."""


def broken_walls(place: PreparedSession, limits: SandboxLimits, secret: Path) -> dict[str, str]:
    """Which attacks get through from a process that settles in `place`: their layer by name.

    place needs no descriptors. Raises OSError when the process could not settle, or told nothing.
    """
    reading, writing = os.pipe()
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        pid = os.fork()
        if pid == 0:
            there = replace(place, socket_fd=writing, output_fd=nowhere.fileno())
            _attack(there, limits, AttackTarget(secret, place.zygote, limits))
    os.close(writing)
    with os.fdopen(reading, "rb") as report:
        told = report.read() if select.select([report], [], [], TIMEOUT_S)[0] else b""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not told:
        raise OSError("the self-test of the code sandbox told nothing")
    result = json.loads(told)
    if isinstance(result, str):
        raise OSError(result)
    return result


def _attack(place: PreparedSession, limits: SandboxLimits, target: AttackTarget) -> NoReturn:
    socket_fd = place.socket_fd
    try:
        try:
            settle(place, limits)
            socket_fd = SOCKET_FD
            seal(place)
            told: object = {attack.name: attack.layer for attack in ATTACKS if _gets_through(attack, target)}
        except OSError as error:
            told = f"{type(error).__name__}: {error}"
        os.write(socket_fd, json.dumps(told).encode())
    finally:
        os._exit(0)


def _gets_through(attack: Attack, target: AttackTarget) -> bool:
    try:
        attack.attempt(target)
    except (OSError, MemoryError):
        return False
    return True
