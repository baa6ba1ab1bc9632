"""Attacks with which a zygote tests its own isolation before it runs untrusted code.

Each attempts one thing that code in a session must not be able to do. It raises when it is stopped.
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
from agentlearn.sandbox.inside.confine import SOCKET_FD, PreparedSession, confine_process, confine_syscalls

TIMEOUT_S = 20.0
_PTRACE_SEIZE = 0x4206
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class AttackTarget:
    """What the attacks try to reach."""

    secret: Path
    """A file outside the session's scratch directory."""
    zygote: int
    """Process id of the zygote."""
    limits: SandboxLimits
    """Limits that the attacks try to exceed."""


@dataclass(frozen=True)
class Attack:
    """One attack, and the layer that must stop it."""

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
"""In order of execution; "run a program" must be last because it would replace the attacking process."""


def open_walls(prepared: PreparedSession, limits: SandboxLimits, secret: Path) -> dict[str, str]:
    """Run all attacks from a confined process; return the layer that failed, by name of each successful attack.

    prepared needs no valid descriptors. Raises OSError when the process could not be confined or reported nothing.
    """
    reading, writing = os.pipe()
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        pid = os.fork()
        if pid == 0:
            ready = replace(prepared, socket_fd=writing, output_fd=nowhere.fileno())
            _attack(ready, limits, AttackTarget(secret, prepared.zygote, limits))
    os.close(writing)
    with os.fdopen(reading, "rb") as report:
        reply = report.read() if select.select([report], [], [], TIMEOUT_S)[0] else b""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    if not reply:
        raise OSError("the self-test of the code sandbox reported nothing")
    result = json.loads(reply)
    if isinstance(result, str):
        raise OSError(result)
    return result


def _attack(prepared: PreparedSession, limits: SandboxLimits, target: AttackTarget) -> NoReturn:
    socket_fd = prepared.socket_fd
    try:
        try:
            confine_process(prepared, limits)
            socket_fd = SOCKET_FD
            confine_syscalls(prepared)
            reply: object = {attack.name: attack.layer for attack in ATTACKS if _succeeds(attack, target)}
        except OSError as error:
            reply = f"{type(error).__name__}: {error}"
        os.write(socket_fd, json.dumps(reply).encode())
    finally:
        os._exit(0)


def _succeeds(attack: Attack, target: AttackTarget) -> bool:
    try:
        attack.attempt(target)
    except (OSError, MemoryError):
        return False
    return True
