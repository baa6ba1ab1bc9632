"""Confine a forked process before it runs untrusted code, in the order that the kernel requires."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from agentlearn.sandbox.inside import landlock, seccomp
from agentlearn.sandbox.inside.config import SandboxLimits
from agentlearn.sandbox.inside.process import (
    die_with,
    drop_capabilities,
    kill_first_when_out_of_memory,
    no_new_privileges,
    set_limits,
)

SOCKET_FD = 3


@dataclass(frozen=True)
class PreparedSession:
    """What the zygote prepares for a session before it forks."""

    socket_fd: int
    """Descriptor of the session's end of its socket."""
    output_fd: int
    """Descriptor of the file that receives printed text."""
    scratch: Path
    """Directory that the session may write to."""
    zygote: int
    """Process id of the zygote."""
    held_bytes: int
    """Address space that the interpreter with its preloaded modules uses."""
    walls: tuple[landlock.LandlockRule, ...] | None
    """What may be read besides `scratch`; None means no isolation."""


def confine_process(prepared: PreparedSession, limits: SandboxLimits) -> None:
    """Give up all access inherited from the zygote, set the resource limits and, if there are walls, apply Landlock.

    Afterwards descriptor 0 is an ended pipe of this process, 1 and 2 are the output, SOCKET_FD is the socket, and no
    other is open. No other session has any of them. If it fails, the socket may still be at `prepared.socket_fd`.
    Raises OSError.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    kill_first_when_out_of_memory()
    os.chdir(prepared.scratch)
    if prepared.walls is not None:
        no_new_privileges()
        scratch = landlock.rule(prepared.scratch, landlock.SCRATCH)
        landlock.restrict_files((*prepared.walls, scratch) if scratch else prepared.walls)
        drop_capabilities()
    die_with(prepared.zygote, signal.SIGKILL)  # after dropping capabilities, which would clear it
    highest = os.sysconf("SC_OPEN_MAX")
    _end_input()
    set_limits(limits, prepared.held_bytes)
    _keep_only(prepared, highest)


def confine_syscalls(prepared: PreparedSession) -> None:
    """Apply the system-call filter, if there are walls. This is the last step. Raises OSError."""
    if prepared.walls is not None:
        seccomp.filter_syscalls()


def _end_input() -> None:
    """Make descriptor 0 a pipe that has ended. `/dev/null` would be one file, with its locks, for all sessions."""
    nothing, closed = os.pipe()
    os.close(closed)
    os.dup2(nothing, 0)


def _keep_only(prepared: PreparedSession, highest: int) -> None:
    os.dup2(prepared.output_fd, 1)
    os.dup2(prepared.output_fd, 2)
    os.dup2(prepared.socket_fd, SOCKET_FD)
    os.closerange(SOCKET_FD + 1, highest)
